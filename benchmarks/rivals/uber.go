package rivals

import (
	"context"

	"go.uber.org/ratelimit"
)

// uber is go.uber.org/ratelimit, which never denies: it lets the caller sleep until its turn. It is compared only where
// that can be, in the articles' measurements, whose queue did the same.
func uber() []Contender {
	return []Contender{{
		Name: "uber-go/ratelimit", Module: "go.uber.org/ratelimit", Algorithm: "pacing",
		Remark: "with its default slack of 10; it lets the caller wait instead of denying",
		Waits:  true,
		Memory: func(s Setting) (Limiter, error) {
			l := ratelimit.New(s.Limit, ratelimit.Per(s.Window))
			return allow(func(context.Context, string) (bool, error) {
				l.Take()
				return true, nil
			}), nil
		},
	}}
}
