package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

func ExampleLimiter_Wait() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	twoPer10ms := ratelimit.Limit{MaxRequests: 2, Window: 10 * time.Millisecond}
	for range 5 { // a worker that calls an API of two requests in 10 ms
		if _, err := lim.Wait(context.Background(), "api", twoPer10ms); err != nil {
			panic(err)
		}
	}
	fmt.Println("five calls, never more than two in 10 ms")
	// Output: five calls, never more than two in 10 ms
}

func TestWaitReturnsAtTheVeryInstantTheQuotaIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, ratelimit.Config{})
		start := time.Now()
		for i := range 7 {
			if d, err := lim.Wait(t.Context(), "k", threePerMinute); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v", d, err)
			}
			if got, want := time.Since(start), time.Duration(i/3)*time.Minute; got != want {
				t.Errorf("request %d was allowed after %v, want %v", i+1, got, want)
			}
		}
	})
}

func TestWaitersAtOnceAreAllAllowedAndNeverTooManyInAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, ratelimit.Config{})
		start := time.Now()
		var mu sync.Mutex
		perMinute := map[time.Duration]int{}
		var wait sync.WaitGroup
		for range 30 {
			wait.Go(func() {
				if _, err := lim.Wait(t.Context(), "k", threePerMinute); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				perMinute[time.Since(start)]++
			})
		}
		wait.Wait()
		for at, n := range perMinute {
			if n != 3 || at%time.Minute != 0 {
				t.Errorf("%d were allowed after %v, want 3 at each whole minute", n, at)
			}
		}
	})
}

func TestWaitKnowsWhenItWouldBePointless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, ratelimit.Config{})
		lim.AllowN(t.Context(), "k", 3, threePerMinute)
		start := time.Now()

		short, cancel := context.WithTimeout(t.Context(), time.Minute-time.Nanosecond)
		defer cancel()
		if d, err := lim.Wait(short, "k", threePerMinute); !errors.Is(err, context.DeadlineExceeded) || d.RetryAfter != time.Minute {
			t.Errorf("beyond the deadline: %+v, %v", d, err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("it waited %v of virtual time for nothing", waited)
		}
		cancelled, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		if _, err := lim.Wait(cancelled, "k", threePerMinute); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("cancelled after a second: %v after %v", err, time.Since(start))
		}
		if _, err := lim.Wait(cancelled, "other", threePerMinute); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
		if d, _ := lim.Peek(t.Context(), "other", threePerMinute); d.Remaining != 3 {
			t.Errorf("it counted a request that was not allowed: %+v", d)
		}
		if _, err := lim.Wait(t.Context(), "k"); !errors.Is(err, ratelimit.ErrInvalid) {
			t.Errorf("no limit: %v", err)
		}
	})
}
