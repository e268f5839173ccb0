package rivals

import (
	"context"
	"net/http"

	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/memstore"
)

// throttledGo is throttled/throttled.
func throttledGo() []Contender {
	quota := func(s Setting) throttled.RateQuota {
		return throttled.RateQuota{MaxRate: throttled.PerDuration(s.Limit, s.Window), MaxBurst: s.Limit - 1}
	}
	inMemory := func(s Setting) (*throttled.GCRARateLimiterCtx, error) {
		store, err := memstore.NewCtx(0)
		if err != nil {
			return nil, err
		}
		return throttled.NewGCRARateLimiterCtx(store, quota(s))
	}
	return []Contender{{
		Name: "throttled", Module: "github.com/throttled/throttled/v2", Algorithm: "GCRA",
		Remark: "memory store without a bound, as its LRU lets go of keys that still count; gives up after 10 lost races, by default",
		Memory: func(s Setting) (Limiter, error) {
			l, err := inMemory(s)
			return gcra{l}, err
		},
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			store, err := goredisstore.NewCtx(client, "throttled:")
			if err != nil {
				return nil, err
			}
			l, err := throttled.NewGCRARateLimiterCtx(store, quota(s))
			return closing{gcra{l}, client}, err
		},
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			l, err := inMemory(s)
			m := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
			return m.RateLimit(next), err
		},
	}}
}

type gcra struct{ *throttled.GCRARateLimiterCtx }

func (g gcra) Allow(ctx context.Context, key string) (bool, error) {
	limited, _, err := g.RateLimitCtx(ctx, key, 1)
	return err == nil && !limited, err
}
