package rivals

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
)

// redisRate is go-redis/redis_rate.
func redisRate() []Contender {
	return []Contender{{
		Name: "redis_rate", Module: "github.com/go-redis/redis_rate/v10", Algorithm: "GCRA",
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			l, limit := redis_rate.NewLimiter(client), redis_rate.Limit{Rate: s.Limit, Burst: s.Limit, Period: s.Window}
			return closing{allow(func(ctx context.Context, key string) (bool, error) {
				r, err := l.Allow(ctx, key, limit)
				return err == nil && r.Allowed > 0, err
			}), client}, nil
		},
	}}
}
