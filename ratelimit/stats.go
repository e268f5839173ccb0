package ratelimit

import "sync/atomic"

// Stats counts what a Limiter has decided since it was made. A request with several claims counts once for each.
type Stats struct {
	Allowed, Denied map[Reason]uint64 // by Reason; those that never occurred are absent
}

// Stats returns the counts so far.
func (l *Limiter) Stats() Stats {
	return Stats{Allowed: l.counters.allowed.byReason(), Denied: l.counters.denied.byReason()}
}

type counters struct{ allowed, denied tally }

// tally counts decisions by Reason.
type tally [reasons]atomic.Uint64

func (c *counters) count(decisions []Decision) {
	for i := range decisions {
		t := &c.denied
		if decisions[i].Allowed {
			t = &c.allowed
		}
		t[min(decisions[i].Reason, reasons-1)].Add(1)
	}
}

func (t *tally) byReason() map[Reason]uint64 {
	counts := make(map[Reason]uint64)
	for r := range t {
		if n := t[r].Load(); n > 0 {
			counts[Reason(r)] = n
		}
	}
	return counts
}
