package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// Wait blocks until a request on key is allowed and counted: for clients and workers that would rather be late
// than refused. It sleeps for RetryAfter and asks again, one round trip each time, and so asks no more often than
// something can have changed.
//
// It never waits past ctx's deadline: if RetryAfter reaches beyond it, Wait returns at once with an error that
// wraps context.DeadlineExceeded, and nothing is counted. If ctx is cancelled, it returns ctx's error.
//
// Waiters are not queued. Of several that wake at the same instant those whose question arrives first are allowed,
// and the others sleep on until the next entry leaves: none is starved on purpose, none is promised its turn.
func (l *Limiter) Wait(ctx context.Context, key string, limits ...Limit) (Decision, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Decision{}, err
		}
		d, err := l.Allow(ctx, key, limits...)
		if err != nil || d.Allowed {
			return d, err
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return d, err
		}
	}
}

// sleep returns after d, or with an error as soon as it is known that ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("ratelimit: wait: %v are to be waited, beyond the deadline: %w", d, context.DeadlineExceeded)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
