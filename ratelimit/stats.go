package ratelimit

import (
	"sync/atomic"
	"time"
)

// Stats is what a Limiter has decided. A request with several claims counts once for each.
type Stats struct {
	Allowed, Denied map[Reason]uint64 // since the Limiter was made, by Reason; those that never occurred are absent

	Recent Recent // of the last ten seconds
}

// Recent is what a Limiter has decided in the second that has not finished yet and in the nine before it, where seconds are
// counted from when the Limiter was made. What is ten seconds old is never in it, what is nine seconds old always is. So an
// idle Limiter shows 0 of everything but Span, ten seconds after its last decision at the latest.
//
// A decision that is made while a second ends may count in the next one. The clock is that of the MemoryStore; before another
// Store it is the monotonic clock of this process.
type Recent struct {
	// Span is the time that was looked at, and that the rates are divided by: from nine seconds to ten, or less while the
	// Limiter has not lived so long. The rates of one that has just been made jump about; those of one that was made at
	// this moment are 0.
	Span time.Duration

	// Decisions that allowed, and decisions that denied, in a second of Span. A look (cost 0) counts as what it was
	// told. A claim that fits, of a request that another claim denies (Withheld, Unasked), is neither.
	AllowedPerSecond, DeniedPerSecond float64

	// FailedPerSecond is how many of both were made without the Store, because it could not answer in time (FailedOpen,
	// FailedClosed, FailedLocal).
	FailedPerSecond float64

	Latency Latency
}

// Latency is how long decisions have waited for a Store, its failures and timeouts among them: from before the question until
// its answer was there, once for each request, however many claims it makes, and once for each look. What was answered without a
// question is not in it, so that it tells how the Store is: denials that are remembered, and an outage while the circuit breaker is
// open. A MemoryStore is never waited for: reading the clock once more would take as long as half of a decision, of less than
// a microsecond.
//
// A quantile is at most 1 % above the exact one, and not below it. Beyond a minute all are told as a minute. Of nothing they are 0.
type Latency struct {
	Count    uint64 // questions in the window
	P50, P99 time.Duration
}

// Stats returns the counts so far, and the latest rates. It takes some microseconds, with a Store some tens of them, and holds
// up decisions for as long only where a second begins.
func (l *Limiter) Stats() Stats {
	counted, recent := l.counters.read()
	stats := Stats{Allowed: counted.allowed.byReason(), Denied: counted.denied.byReason(), Recent: recent}
	if l.remote != nil {
		stats.Recent.Latency = l.remote.latency.read()
	}
	return stats
}

// counters count decisions in stripes, so that cores which decide on different keys do not wait for each other.
type counters struct {
	recent
	stripes [64]stripe
}

type stripe struct {
	_               [64]byte // no stripe shares a cache line with the one before, or the first with what is read only
	allowed, denied tally
}

// tally counts decisions by Reason.
type tally [reasons]atomic.Uint64

// count counts the decisions of one request, which were made at now.
func (c *counters) count(now time.Duration, decisions []Decision) {
	for i := range decisions {
		c.countOne(now, 0, &decisions[i])
	}
}

// countOne counts the decision on a claim that has that hash.
func (c *counters) countOne(now time.Duration, hash uint64, d *Decision) {
	if !c.recent.holds(now) {
		c.turn()
	}
	s := &c.stripes[hash%uint64(len(c.stripes))]
	t := &s.denied
	if d.Allowed {
		t = &s.allowed
	}
	t[min(d.Reason, reasons-1)].Add(1)
}

// counted is what all stripes have counted.
type counted struct{ allowed, denied totals }

type totals [reasons]uint64

func (c *counters) sum() (sum counted) {
	for i := range c.stripes {
		sum.allowed.add(&c.stripes[i].allowed)
		sum.denied.add(&c.stripes[i].denied)
	}
	return sum
}

func (t *totals) add(s *tally) {
	for r := range s {
		t[r] += s[r].Load()
	}
}

func (t *totals) byReason() map[Reason]uint64 {
	counts := make(map[Reason]uint64)
	for r, n := range t {
		if n > 0 {
			counts[Reason(r)] = n
		}
	}
	return counts
}
