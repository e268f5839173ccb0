package ratelimit_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// watchful is a store that tells of the context of every decision.
type watchful struct {
	ratelimit.Store
	seen func(ctx context.Context)
}

func (w watchful) Prompt() bool { return true }

func (w watchful) Take(ctx context.Context, _ uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	w.seen(ctx)
	decisions[0] = ratelimit.Decision{Allowed: true, Limit: claims[0].Limits[0], Reason: ratelimit.Counted}
	return nil
}

func TestEveryDecisionHasAlmostAllOfTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 64 * time.Millisecond
		asked := 0
		lim := newLimiter(t, ratelimit.Config{Timeout: timeout, Store: watchful{seen: func(ctx context.Context) {
			asked++
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > timeout || time.Until(deadline) < timeout-timeout/64 {
				t.Errorf("a decision has %v of %v", time.Until(deadline), timeout)
			}
		}}})
		for range 300 {
			lim.Allow(t.Context(), "k", threePerMinute)
			time.Sleep(300 * time.Microsecond)
		}
		if asked != 300 {
			t.Errorf("the store was asked %d times", asked)
		}
	})
}

func TestADecisionHasTheValuesOfItsCallerAndOutlivesIt(t *testing.T) {
	type key struct{}
	lim := newLimiter(t, ratelimit.Config{Store: watchful{seen: func(ctx context.Context) {
		if ctx.Value(key{}) != "mine" || ctx.Err() != nil {
			t.Errorf("value %v, error %v", ctx.Value(key{}), ctx.Err())
		}
		before := runtime.NumGoroutine()
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines watch over a child", n-before)
		}
		_ = child
	}}})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "mine"))
	cancel()
	if d, err := lim.Allow(ctx, "k", threePerMinute); err != nil || d.Reason != ratelimit.Counted {
		t.Errorf("%+v, %v", d, err)
	}
}
