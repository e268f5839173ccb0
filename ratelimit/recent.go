package ratelimit

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/rolling"
)

// The window of Recent.
const (
	recentBuckets = 10
	recentWidth   = time.Second
)

// recent knows what was counted lately. To add to a rolling.Window takes as long as a decision in memory. So decisions only
// count, and compare their time, which they know, with the bucket that is open. The first one in another bucket takes a sample of
// the counters before it is counted itself. Thus all that was counted since the sample before lies in the bucket of that
// sample, however long ago that was.
type recent struct {
	began atomic.Int64 // when the bucket that is open began, on the clock; rarely written

	clock func() time.Duration

	mu                      sync.Mutex
	at                      time.Duration // of the latest sample: in the open bucket
	seen                    flow          // by it
	allowed, denied, failed *rolling.Window[int64]
}

// flow is what rates are told of.
type flow struct{ allowed, denied, failed uint64 }

// begin begins the first bucket now. The windows are never ahead of the latest sample: that is their clock.
func (r *recent) begin(clock func() time.Duration) error {
	r.clock = clock
	r.at = clock()
	r.began.Store(int64(r.at))
	config := rolling.Config{Buckets: recentBuckets, Width: recentWidth, Now: func() time.Time { return time.Time{}.Add(r.at) }}
	var faults [3]error
	r.allowed, faults[0] = rolling.NewWindow[int64](config)
	r.denied, faults[1] = rolling.NewWindow[int64](config)
	r.failed, faults[2] = rolling.NewWindow[int64](config)
	return errors.Join(faults[:]...)
}

// holds reports whether a time lies in the bucket that is open. If it does not, that has to end, or the clock has stepped
// back, or a decision was on its way for long: only a reading under the lock tells.
func (r *recent) holds(now time.Duration) bool {
	return uint64(now-time.Duration(r.began.Load())) < uint64(recentWidth) // before it began this is a large number
}

// turn opens the bucket of this moment, unless another decision has. Those that come meanwhile wait: they belong to it.
func (c *counters) turn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock(); !c.recent.holds(now) {
		c.sampleLocked(now)
	}
}

// read takes a sample, and tells what there is.
func (c *counters) read() (counted, Recent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.sampleLocked(c.clock())
	allowed := c.allowed.Stats()
	return sum, Recent{
		Span:             allowed.Span,
		AllowedPerSecond: allowed.Rate,
		DeniedPerSecond:  c.denied.Stats().Rate,
		FailedPerSecond:  c.failed.Stats().Rate,
	}
}

// sampleLocked adds what was counted since the latest sample to the bucket of that, before it moves on to now. Each window
// is added to, even if it is nothing, so that all have seen the same times. The buckets follow each other as in the windows.
func (c *counters) sampleLocked(now time.Duration) counted {
	sum := c.sum()
	flow := sum.flow()
	c.allowed.Add(int64(flow.allowed - c.seen.allowed))
	c.denied.Add(int64(flow.denied - c.seen.denied))
	c.failed.Add(int64(flow.failed - c.seen.failed))
	c.seen, c.at = flow, now
	began := min(time.Duration(c.began.Load()), now) // a clock that has stepped back begins the bucket again
	c.began.Store(int64(began + (now-began)/recentWidth*recentWidth))
	return sum
}

// flow tells decisions apart as Recent does.
func (c *counted) flow() (f flow) {
	for r := range Reason(reasons) {
		allowed, denied := c.allowed[r], c.denied[r]
		switch r {
		case FailedOpen, FailedClosed, FailedLocal:
			f.failed += allowed + denied
		case Withheld, Unasked:
			allowed = 0
		}
		f.allowed += allowed
		f.denied += denied
	}
	return f
}

// latency is how long a store takes.
type latency struct {
	lately *rolling.Distribution[time.Duration]
}

func newLatency() (l latency, err error) {
	l.lately, err = rolling.NewDistribution[time.Duration](rolling.DistributionConfig{Buckets: recentBuckets, Width: recentWidth})
	return l, err
}

func (l latency) read() Latency {
	s := l.lately.Summary(0.5, 0.99)
	return Latency{Count: uint64(s.Count), P50: s.Quantiles[0], P99: s.Quantiles[1]}
}
