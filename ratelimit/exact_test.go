package ratelimit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
)

// On the real clock and all cores: this test runs for some windows of real time, as many as it takes to allow enough.
func TestCallersAtOnceAreHeldToTheLimitInEveryWindow(t *testing.T) {
	t.Parallel()
	const callers = 16
	limit := ratelimit.Limit{MaxRequests: 50, Window: 100 * time.Millisecond}
	enough, patience := int64(5*limit.MaxRequests), time.Now().Add(time.Minute)
	lim, rec := newLimiter(t, ratelimit.Config{}), oracle.NewRecorder()
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for allowed.Load() < enough && time.Now().Before(patience) {
				call := rec.Begin()
				switch d, err := lim.Allow(t.Context(), "hot", limit); {
				case err != nil:
					t.Error(err)
					call.Doubtful()
				case d.Allowed:
					call.Allowed()
					allowed.Add(1)
				default:
					call.Denied()
					time.Sleep(min(d.RetryAfter, time.Millisecond)) // a client that keeps knocking
				}
			}
		})
	}
	wait.Wait()
	h := rec.History()
	if report := oracle.Check(h, limit.MaxRequests, limit.Window); !report.OK() {
		t.Error(report)
	}
	if int64(len(h.Allowed)) < enough || len(h.Denied) == 0 {
		t.Errorf("%d were allowed and %d denied: too few to judge by", len(h.Allowed), len(h.Denied))
	}
}
