package rivals

import (
	"context"
	"net/http"

	"github.com/didip/tollbooth/v7"
	"github.com/didip/tollbooth/v7/limiter"
)

// tollboothDidip is didip/tollbooth.
func tollboothDidip() []Contender {
	of := func(s Setting) *limiter.Limiter { return tollbooth.NewLimiter(s.perSecond(), nil).SetBurst(s.Limit) }
	return []Contender{{
		Name: "tollbooth", Module: "github.com/didip/tollbooth/v7", Algorithm: "token bucket",
		Remark: "keys never expire, by default",
		Memory: func(s Setting) (Limiter, error) {
			l := of(s)
			return allow(func(_ context.Context, key string) (bool, error) { return !l.LimitReached(key), nil }), nil
		},
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			return tollbooth.LimitHandler(of(s).SetIPLookups([]string{"RemoteAddr"}), next), nil
		},
	}}
}
