package ratelimit

import "sync/atomic"

// Stats counts what a Limiter has decided since it was made. A request with several claims counts once for each.
type Stats struct {
	Allowed, Denied map[Reason]uint64 // by Reason; those that never occurred are absent
}

// Stats returns the counts so far.
func (l *Limiter) Stats() Stats {
	stats := Stats{Allowed: make(map[Reason]uint64), Denied: make(map[Reason]uint64)}
	for i := range l.counters {
		l.counters[i].allowed.addTo(stats.Allowed)
		l.counters[i].denied.addTo(stats.Denied)
	}
	return stats
}

// counters count decisions in stripes, so that cores which decide on different keys do not wait for each other.
type counters [64]stripe

type stripe struct {
	_               [64]byte // no stripe shares a cache line with the one before, or the first with what is read only
	allowed, denied tally
}

// tally counts decisions by Reason.
type tally [reasons]atomic.Uint64

// count counts the decisions on claims of which one has that hash.
func (c *counters) count(hash uint64, decisions []Decision) {
	for i := range decisions {
		c.countOne(hash, &decisions[i])
	}
}

func (c *counters) countOne(hash uint64, d *Decision) {
	s := &c[hash%uint64(len(c))]
	t := &s.denied
	if d.Allowed {
		t = &s.allowed
	}
	t[min(d.Reason, reasons-1)].Add(1)
}

func (t *tally) addTo(counts map[Reason]uint64) {
	for r := range t {
		if n := t[r].Load(); n > 0 {
			counts[Reason(r)] += n
		}
	}
}
