package rivals

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// floors do less than a limiter must, and allow everything: no limiter that reads a clock, takes a lock, looks up a key
// or asks a server can be faster.
func floors() []Contender {
	return []Contender{{
		Name: "time.Now", Role: Floor,
		Memory: func(Setting) (Limiter, error) {
			return allow(func(context.Context, string) (bool, error) { return !time.Now().IsZero(), nil }), nil
		},
	}, {
		Name: "sync.Mutex", Role: Floor,
		Memory: func(Setting) (Limiter, error) {
			var mu sync.Mutex
			calls := 0
			return allow(func(context.Context, string) (bool, error) {
				mu.Lock()
				calls++
				mu.Unlock()
				return true, nil
			}), nil
		},
	}, {
		Name: "map look-up", Role: Floor,
		Memory: func(s Setting) (Limiter, error) { return &lookUp{seen: make(map[string]*int, s.Keys)}, nil },
	}, {
		Name: "PING", Role: Floor,
		Redis: func(_ Setting, server Server) (Limiter, error) {
			client := server.Client()
			return closing{allow(func(ctx context.Context, _ string) (bool, error) {
				err := client.Ping(ctx).Err()
				return err == nil, err
			}), client}, nil
		},
	}, {
		Name: "EVALSHA return 0", Role: Floor,
		Redis: func(_ Setting, server Server) (Limiter, error) {
			client := server.Client()
			script := redis.NewScript("return 0")
			return closing{allow(func(ctx context.Context, key string) (bool, error) {
				err := script.Run(ctx, client, []string{key}).Err()
				return err == nil, err
			}), client}, nil
		},
	}, {
		Name: "bare handler", Role: Floor,
		HTTP: func(_ Setting, next http.Handler) (http.Handler, error) { return next, nil },
	}, {
		Name: "bare Gin", Role: Floor,
		HTTP: func(_ Setting, next http.Handler) (http.Handler, error) { return onGin(next), nil },
	}}
}

// lookUp finds what it has of a key in a map, and puts it there the first time. It is not safe for several goroutines
// until every key is there.
type lookUp struct{ seen map[string]*int }

func (l *lookUp) Allow(_ context.Context, key string) (bool, error) {
	if l.seen[key] == nil {
		l.seen[key] = new(int)
	}
	return true, nil
}
