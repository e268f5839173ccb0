package rivals

import (
	"context"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
)

// failsafeGo is failsafe-go's bursty limiter, which limits one thing and knows no keys.
func failsafeGo() []Contender {
	return []Contender{{
		Name: "failsafe-go", Module: "github.com/failsafe-go/failsafe-go", Algorithm: "fixed window", Unkeyed: true,
		Remark: "`NewBursty`; knows no keys: bare on one key, else one for each key in a map behind a `sync.RWMutex`",
		Memory: func(s Setting) (Limiter, error) {
			one := func() ratelimiter.RateLimiter[any] { return ratelimiter.NewBursty[any](uint(s.Limit), s.Window) }
			if s.Keys == 1 {
				l := one()
				return allow(func(context.Context, string) (bool, error) { return l.TryAcquirePermit(), nil }), nil
			}
			all := newPerKey(one)
			return allow(func(_ context.Context, key string) (bool, error) { return all.of(key).TryAcquirePermit(), nil }), nil
		},
	}}
}
