package ratelimit

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/google/uuid"
)

// log is the record of one key: an entry for each allowed request, oldest first, in a ring that grows on
// demand. It is the algorithm alone: no lock, no clock, no key. Times are those of the store's clock.
type log struct {
	ring []entry // its length is a power of two, or 0
	head int     // index of the oldest entry
	size int
}

type entry struct {
	at time.Duration
	id uuid.UUID
}

// settle prepares the log for a decision at now: entries that have left keep are dropped, and entries ahead
// of now (the clock stepped back) count as made now. They were made before now whatever the clock said, so
// that no interval can hold more than it should, and no key stays shut longer than one window after the first
// claim that follows the step.
func (l *log) settle(now, keep time.Duration) {
	l.drop(now - keep)
	for i := l.size - 1; i >= 0 && l.entry(i).at > now; i-- {
		l.entry(i).at = now
	}
}

// drop removes the entries made until then.
func (l *log) drop(until time.Duration) {
	for l.size > 0 && l.entry(0).at <= until {
		l.head = (l.head + 1) & (len(l.ring) - 1)
		l.size--
	}
}

// describe answers a claim at now: denied if the binding limit denies it, else with charged entries counted
// as made now, which the caller is about to add. It changes nothing.
func (l *log) describe(now time.Duration, limits []Limit, cost, charged int) Decision {
	binding := l.under(now, limits[0], cost, charged)
	for _, limit := range limits[1:] {
		if other := l.under(now, limit, cost, charged); other.Binds(binding) {
			binding = other
		}
	}
	return binding
}

// under is describe for one limit.
func (l *log) under(now time.Duration, limit Limit, cost, charged int) Decision {
	count := l.count(now, limit.Window)
	d := Decision{
		Allowed:   cost <= limit.MaxRequests && count <= limit.MaxRequests-cost, // a sum could overflow
		Limit:     limit,
		Remaining: max(0, limit.MaxRequests-count-charged),
	}
	switch {
	case count > 0: // the oldest, or as many as lie above a limit that was lowered
		d.ResetAfter = l.leaving(now, limit.Window, count, max(1, count-limit.MaxRequests+1))
	case charged > 0:
		d.ResetAfter = limit.Window
	}
	switch {
	case d.Allowed:
	case cost > limit.MaxRequests:
		d.Reason = TooCostly
	default:
		d.Reason = Exhausted
		d.RetryAfter = l.leaving(now, limit.Window, count, count+cost-limit.MaxRequests)
	}
	return d
}

// count returns the number of entries in (now-window, now].
func (l *log) count(now, window time.Duration) int {
	since := now - window
	if l.size == 0 || l.entry(0).at > since {
		return l.size
	}
	return l.size - sort.Search(l.size, func(i int) bool { return l.entry(i).at > since })
}

// between returns the number of entries in (since, until].
func (l *log) between(since, until time.Duration) int {
	after := func(t time.Duration) int {
		return sort.Search(l.size, func(i int) bool { return l.entry(i).at > t })
	}
	return max(0, after(until)-after(since))
}

// leaving returns the time until the k-th oldest of the count newest entries is exactly window old.
func (l *log) leaving(now, window time.Duration, count, k int) time.Duration {
	return min(now, l.entry(l.size-count+k-1).at) + window - now
}

// add appends n entries made at now, which must not lie before the newest.
func (l *log) add(now time.Duration, id uuid.UUID, n int) {
	for range n {
		if l.size == len(l.ring) {
			l.resize(max(1, 2*len(l.ring)))
		}
		l.size++
		*l.entry(l.size - 1) = entry{now, id}
	}
}

// remove drops up to n entries of id.
func (l *log) remove(id uuid.UUID, n int) {
	kept := 0
	for i := range l.size {
		e := *l.entry(i)
		if n > 0 && e.id == id {
			n--
			continue
		}
		*l.entry(kept) = e
		kept++
	}
	l.size = kept
}

// newLog returns a log of entries in any order.
func newLog(entries []entry) *log {
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	var l log
	for _, e := range entries {
		l.add(e.at, e.id, 1)
	}
	return &l
}

// of returns the entries of id.
func (l *log) of(id uuid.UUID) []entry {
	return slices.DeleteFunc(l.entries(), func(e entry) bool { return e.id != id })
}

// entries returns a copy of all entries, oldest first.
func (l *log) entries() []entry {
	list := make([]entry, l.size)
	for i := range list {
		list[i] = *l.entry(i)
	}
	return list
}

func (l *log) resize(capacity int) {
	ring := make([]entry, capacity)
	for i := range l.size {
		ring[i] = *l.entry(i)
	}
	l.ring, l.head = ring, 0
}

// entry returns the i-th oldest entry.
func (l *log) entry(i int) *entry { return &l.ring[(l.head+i)&(len(l.ring)-1)] }
