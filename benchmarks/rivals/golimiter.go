package rivals

import (
	"context"
	"net/http"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
)

// goLimiter is sethvargo/go-limiter.
func goLimiter() []Contender {
	store := func(s Setting) (limiter.Store, error) {
		return memorystore.New(&memorystore.Config{Tokens: uint64(s.Limit), Interval: s.Window})
	}
	return []Contender{{
		Name: "sethvargo/go-limiter", Module: "github.com/sethvargo/go-limiter", Algorithm: "fixed window",
		Remark: "sweeps every 6 h, by default; where limit² is above the window in nanoseconds it refills less than the limit, and is left out",
		Memory: func(s Setting) (Limiter, error) {
			l, err := store(s)
			if err != nil {
				return nil, err
			}
			return goStore{l}, nil
		},
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			l, err := store(s)
			if err != nil {
				return nil, err
			}
			m, err := httplimit.NewMiddleware(l, httplimit.IPKeyFunc())
			if err != nil {
				return nil, err
			}
			return closingHandler{m.Handle(next), goStore{l}}, nil
		},
	}}
}

type goStore struct{ limiter.Store }

func (g goStore) Allow(ctx context.Context, key string) (bool, error) {
	_, _, _, ok, err := g.Take(ctx, key)
	return ok, err
}

func (g goStore) Close() error { return g.Store.Close(context.Background()) }
