package rivals

import (
	"context"

	"golang.org/x/time/rate"
)

// xtime is golang.org/x/time/rate, which limits one thing and knows no keys.
func xtime() []Contender {
	return []Contender{{
		Name: "x/time/rate", Module: "golang.org/x/time", Algorithm: "token bucket", Unkeyed: true,
		Remark: "knows no keys: bare on one key, else a `*Limiter` for each key in a map behind a `sync.RWMutex`",
		Memory: func(s Setting) (Limiter, error) {
			one := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(s.perSecond()), s.Limit) }
			if s.Keys == 1 {
				l := one()
				return allow(func(context.Context, string) (bool, error) { return l.Allow(), nil }), nil
			}
			all := newPerKey(one)
			return allow(func(_ context.Context, key string) (bool, error) { return all.of(key).Allow(), nil }), nil
		},
	}}
}
