package ratelimit

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/google/uuid"
)

// log is the record of one key: an entry for each allowed request, oldest first. It is the algorithm alone: no lock, no
// clock, no key. Times are those of the store's clock.
//
// The first few entries lie in the log itself, so that a decision on a small one reads one piece of memory; more of them
// lie in a ring, which grows and shrinks by doubling.
type log struct {
	ring *ring // nil: the entries are in first, and nothing else is kept
	size int32

	// These two are the keyLog's. They fill what would be padding here: with it a keyLog were no longer 128 bytes.
	queue     uint8 // index of its queue
	published bool  // a denial of it may be found in shard.denials

	first [inLog]entry
}

const (
	inLog    = 3
	minRing  = 8
	sparse   = 8 // a ring is shrunk if it is at most 1/8 full ...
	shrunkBy = 4 // ... and is at most half full then, so that it does not grow again at once
)

// ring holds entries in a circle, and what limits in Buckets keep.
type ring struct {
	entries []entry // their number is a power of two; nil: they are in log.first
	head    int     // index of the oldest
	buckets *buckets
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
	if b := l.buckets(); b != nil {
		b.slide(now)
	}
	l.drop(now - keep)
	for i := int(l.size) - 1; i >= 0 && l.entry(i).at > now; i-- {
		l.entry(i).at = now
	}
}

// drop removes the entries made until then.
func (l *log) drop(until time.Duration) {
	if l.size == 0 || l.entry(0).at > until {
		return
	}
	gone := 1
	if l.size > 1 && l.entry(1).at <= until {
		gone = l.gone(until)
	}
	l.size -= int32(gone)
	if l.inline() {
		copy(l.first[:l.size], l.first[gone:])
		return
	}
	l.ring.head = (l.ring.head + gone) & (len(l.ring.entries) - 1)
	if n := len(l.ring.entries); n > minRing && int(l.size) <= n/sparse {
		l.resize(max(minRing, n/shrunkBy))
	}
}

// gone returns the number of entries made until then, of which there are two. It looks near the oldest first: on a busy log
// few leave between two requests.
func (l *log) gone(until time.Duration) int {
	few := 2
	for few < int(l.size) && l.entry(few).at <= until {
		few = min(2*few, int(l.size))
	}
	return few/2 + sort.Search(few-few/2, func(i int) bool { return l.entry(few/2+i).at > until })
}

// after returns the index of the first entry made after t.
func (l *log) after(t time.Duration) int {
	return sort.Search(int(l.size), func(i int) bool { return l.entry(i).at > t })
}

// take is settle, describe and add in one, for one request under one limit that keeps the log. It reports whether the
// request is allowed; if not, it has only settled the log.
func (l *log) take(now time.Duration, limit *Limit, id *uuid.UUID, d *Decision) bool {
	n := int(l.size)
	if l.ring == nil && 0 < n && n < inLog && l.first[0].at > now-limit.Window && l.first[n-1].at <= now && n < limit.MaxRequests {
		e := &l.first[n] // what follows, where it is short: see shard.take
		e.at, e.id = now, *id
		l.size++
		d.Remaining, d.ResetAfter = limit.MaxRequests-n-1, l.first[0].at+limit.Window-now
		d.Allowed = true
		return true
	}
	l.settle(now, limit.Window)
	n = int(l.size)
	if n >= limit.MaxRequests {
		return false
	}
	l.add(now, *id, 1)
	d.Remaining, d.ResetAfter = limit.MaxRequests-n-1, l.entry(0).at+limit.Window-now
	d.Allowed = true
	return true
}

// counts returns how many requests count under each of limits.
func (l *log) counts(now time.Duration, limits []Limit) []int {
	counts := make([]int, len(limits))
	for i := range limits {
		counts[i] = l.count(now, &limits[i])
	}
	return counts
}

// fits reports whether there is room for cost beside count. A sum could overflow.
func (limit *Limit) fits(count, cost int) bool {
	return cost <= limit.MaxRequests && count <= limit.MaxRequests-cost
}

// describe answers a claim at now: denied if the binding limit denies it, else with charged entries counted
// as made now, which the caller is about to add. It changes nothing but d.
func (l *log) describe(d *Decision, now time.Duration, limits []Limit, cost, charged int) {
	l.under(d, now, limits[0], cost, charged)
	for _, limit := range limits[1:] {
		var other Decision
		if l.under(&other, now, limit, cost, charged); other.Binds(*d) {
			*d = other
		}
	}
}

// under is describe for one limit.
func (l *log) under(d *Decision, now time.Duration, limit Limit, cost, charged int) {
	count := l.count(now, &limit)
	*d = Decision{} // and its fields one by one: a literal of them all would be made first, and copied then
	d.Allowed, d.Limit = limit.fits(count, cost), limit
	d.Remaining = max(0, limit.MaxRequests-count-charged)
	switch {
	case count > 0: // the oldest, or as many as lie above a limit that was lowered
		d.ResetAfter = l.leaving(now, &limit, count, max(1, count-limit.MaxRequests+1))
	case charged > 0:
		d.ResetAfter = limit.leaves(now) - now
	}
	switch {
	case d.Allowed:
	case cost > limit.MaxRequests:
		d.Reason = TooCostly
	default:
		d.Reason = Exhausted
		d.RetryAfter = l.leaving(now, &limit, count, count+cost-limit.MaxRequests)
	}
}

// count returns the number of requests that count at now: those in (now-Window, now], or in sub-windows.
func (l *log) count(now time.Duration, limit *Limit) int {
	if limit.Buckets > 0 {
		return l.buckets().of(limit).total(now)
	}
	since := now - limit.Window
	if l.size == 0 || l.entry(0).at > since {
		return int(l.size)
	}
	return int(l.size) - l.after(since)
}

// between returns the number of entries in (since, until].
func (l *log) between(since, until time.Duration) int {
	return max(0, l.after(until)-l.after(since))
}

// leaving returns the time until the k-th oldest of the count requests that count no longer does.
func (l *log) leaving(now time.Duration, limit *Limit, count, k int) time.Duration {
	if limit.Buckets > 0 {
		return l.buckets().of(limit).leaving(now, count-k+1)
	}
	return min(now, l.entry(int(l.size)-count+k-1).at) + limit.Window - now
}

// left reports whether every entry has left window at now. An entry ahead of now has not.
func (l *log) left(now, window time.Duration) bool {
	return (l.size == 0 || l.entry(int(l.size)-1).at <= now-window) && l.buckets().left(now)
}

// write adds a claim: entries for the limits that list them, and numbers for those in Buckets.
func (l *log) write(now time.Duration, id uuid.UUID, c *Claim) {
	lists, counts := c.Kinds()
	if lists {
		l.add(now, id, c.Cost)
	}
	if counts {
		if l.buckets() == nil {
			l.rest().buckets = new(buckets)
		}
		l.ring.buckets.add(now, c.Limits, c.Cost)
	}
}

// reset drops all that was written.
func (l *log) reset(now time.Duration) {
	b := l.buckets()
	b.forget(now)
	l.size, l.ring = 0, &ring{buckets: b}
}

// buckets are what limits in Buckets keep; nil if there are none.
func (l *log) buckets() *buckets {
	if l.ring == nil {
		return nil
	}
	return l.ring.buckets
}

// rest is the part of the log that does not lie in it.
func (l *log) rest() *ring {
	if l.ring == nil {
		l.ring = new(ring)
	}
	return l.ring
}

// with is the same log, but for its buckets. It is not to be written to.
func (l *log) with(b *buckets) *log {
	other := *l
	other.ring = &ring{buckets: b}
	if l.ring != nil {
		other.ring.entries, other.ring.head = l.ring.entries, l.ring.head
	}
	return &other
}

// inline reports whether the entries lie in the log itself.
func (l *log) inline() bool { return l.ring == nil || l.ring.entries == nil }

// add appends n entries made at now, which must not lie before the newest.
func (l *log) add(now time.Duration, id uuid.UUID, n int) {
	for range n {
		if int(l.size) == l.room() {
			l.resize(max(minRing, 2*l.room()))
		}
		l.size++
		*l.entry(int(l.size) - 1) = entry{now, id}
	}
}

// remove drops up to n entries of id.
func (l *log) remove(id uuid.UUID, n int) {
	kept := 0
	for i := range int(l.size) {
		e := *l.entry(i)
		if n > 0 && e.id == id {
			n--
			continue
		}
		*l.entry(kept) = e
		kept++
	}
	l.size = int32(kept)
}

// addAll adds entries in any order to an empty log.
func (l *log) addAll(entries []entry) {
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	for _, e := range entries {
		l.add(e.at, e.id, 1)
	}
}

// of returns the entries of id.
func (l *log) of(id uuid.UUID) []entry {
	return slices.DeleteFunc(l.all(), func(e entry) bool { return e.id != id })
}

// all returns a copy of all entries, oldest first.
func (l *log) all() []entry {
	list := make([]entry, l.size)
	for i := range list {
		list[i] = *l.entry(i)
	}
	return list
}

// room is how many entries the log can hold before it grows.
func (l *log) room() int {
	if l.inline() {
		return inLog
	}
	return len(l.ring.entries)
}

// resize moves the entries into a ring of that capacity.
func (l *log) resize(capacity int) {
	entries := make([]entry, capacity)
	for i := range int(l.size) {
		entries[i] = *l.entry(i)
	}
	r := l.rest()
	r.entries, r.head = entries, 0
}

// entry returns the i-th oldest entry.
func (l *log) entry(i int) *entry {
	if l.inline() {
		return &l.first[i]
	}
	return &l.ring.entries[(l.ring.head+i)&(len(l.ring.entries)-1)]
}
