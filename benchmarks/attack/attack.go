// Package attack tries to get more out of a limiter than its limit: all at once, around the edge of its window, and
// steadily. What it got is judged by package oracle from when each call began and ended, so that only what is proven
// counts: neither a stall of the machine nor the way to a server is held against a limiter.
package attack

import (
	"context"
	"sync"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/oracle"
)

// Limiter is what is attacked.
type Limiter interface {
	Allow(ctx context.Context, key string) (bool, error)
}

// Found is what one attack found out.
type Found struct {
	Most     int // requests that were allowed within one window, for certain
	Needless int // requests that were denied though a window would have had room for them, for certain
	Denied   int // requests
	Failed   int // calls, which decided nothing
}

// and takes together what was found on different keys.
func (f Found) and(g Found) Found {
	return Found{max(f.Most, g.Most), f.Needless + g.Needless, f.Denied + g.Denied, f.Failed + g.Failed}
}

// Report is what all attacks found out.
type Report struct{ Burst, Boundary, Paced Found }

// Worst takes all attacks together.
func (r Report) Worst() Found { return r.Burst.and(r.Boundary).and(r.Paced) }

// phases is how many times the edge is looked for: windows that begin by the clock begin between two of them.
const phases = 4

// On attacks a limiter that was told limit. It takes about three windows: each attack has keys of its own, which begin
// with a prefix, and all go on at the same time.
func On(l Limiter, prefix string, limit ratelimit.Limit) (r Report) {
	var under sync.WaitGroup
	var edges [phases]Found
	under.Go(func() { r.Burst = burst(newTarget(l, prefix+"burst", limit)) })
	under.Go(func() {
		r.Paced = Pace(l, prefix+"paced", limit, limit.Window/time.Duration(2*limit.MaxRequests), 6*limit.MaxRequests)
	})
	for i := range edges {
		under.Go(func() {
			time.Sleep(limit.Window * time.Duration(i) / phases)
			edges[i] = boundary(newTarget(l, prefix+"edge"+string(rune('a'+i)), limit))
		})
	}
	under.Wait()
	for _, edge := range edges {
		r.Boundary = r.Boundary.and(edge)
	}
	return r
}

// burst asks three times as often as the limit is, all at once.
func burst(t *target) Found {
	t.together(3 * t.limit.MaxRequests)
	return t.found()
}

// boundary opens a window by one request, spends the quota shortly before its end, and goes on asking after it.
func boundary(t *target) Found {
	start := time.Now()
	t.call()
	time.Sleep(time.Until(start.Add(t.limit.Window * 9 / 10)))
	t.together(t.limit.MaxRequests * 3 / 2)
	t.steadily(t.limit.Window*5/time.Duration(12*t.limit.MaxRequests), t.limit.MaxRequests*12/5)
	return t.found()
}

// Pace asks so many times, once every interval; a call that takes longer delays those after it.
func Pace(l Limiter, key string, limit ratelimit.Limit, every time.Duration, calls int) Found {
	t := newTarget(l, key, limit)
	t.steadily(every, calls)
	return t.found()
}

// target is a key under attack.
type target struct {
	limiter Limiter
	key     string
	limit   ratelimit.Limit
	seen    *oracle.Recorder

	mu     sync.Mutex
	failed int
}

func newTarget(l Limiter, key string, limit ratelimit.Limit) *target {
	return &target{limiter: l, key: key, limit: limit, seen: oracle.NewRecorder()}
}

// call asks once.
func (t *target) call() {
	call := t.seen.Begin()
	switch allowed, err := t.limiter.Allow(context.Background(), t.key); {
	case err != nil:
		call.Doubtful()
		t.mu.Lock()
		t.failed++
		t.mu.Unlock()
	case allowed:
		call.Allowed()
	default:
		call.Denied()
	}
}

// together asks n times from several goroutines that begin at the same time.
func (t *target) together(n int) {
	const goroutines = 16
	gate := make(chan struct{})
	var running sync.WaitGroup
	for g := range goroutines {
		running.Go(func() {
			<-gate
			for range (g+1)*n/goroutines - g*n/goroutines {
				t.call()
			}
		})
	}
	close(gate)
	running.Wait()
}

// steadily asks n times, at times that do not depend on how long the calls take.
func (t *target) steadily(every time.Duration, n int) {
	start := time.Now()
	for i := range n {
		time.Sleep(time.Until(start.Add(every * time.Duration(i))))
		t.call()
	}
}

// found asks the oracle, which is told that a server's clock ticks in microseconds.
func (t *target) found() Found {
	h := t.seen.History()
	h.Clock = oracle.Clock{Tick: time.Microsecond}
	r := oracle.Check(h, t.limit.MaxRequests, t.limit.Window)
	return Found{r.Most, len(r.FalseDenials), len(h.Denied), t.failed}
}
