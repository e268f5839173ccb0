package rivals

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/ulule/limiter/v3"
	mgin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"github.com/ulule/limiter/v3/drivers/store/redis"
)

// ululeLimiter is ulule/limiter.
func ululeLimiter() []Contender {
	const name, module = "ulule/limiter", "github.com/ulule/limiter/v3"
	rate := func(s Setting) limiter.Rate { return limiter.Rate{Period: s.Window, Limit: int64(s.Limit)} }
	inMemory := func(s Setting) *limiter.Limiter { return limiter.New(memory.NewStore(), rate(s)) }
	return []Contender{{
		Name: name, Module: module, Algorithm: "fixed window",
		Memory: func(s Setting) (Limiter, error) { return counter{inMemory(s)}, nil },
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			store, err := redis.NewStore(client)
			return closing{counter{limiter.New(store, rate(s))}, client}, err
		},
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			return stdlib.NewMiddleware(inMemory(s)).Handler(next), nil
		},
	}, {
		Name: name + ", Gin", Module: module, Algorithm: "fixed window", Exact: name,
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			return onGin(next, mgin.NewMiddleware(inMemory(s))), nil
		},
	}}
}

type counter struct{ *limiter.Limiter }

func (c counter) Allow(ctx context.Context, key string) (bool, error) {
	state, err := c.Get(ctx, key)
	return err == nil && !state.Reached, err
}

// onGin is an engine with one route, which Path is, behind a middleware.
func onGin(next http.Handler, before ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.POST(Path, append(before, gin.WrapH(next))...)
	return r
}
