package ratelimit

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
)

// buckets are what limits in Buckets keep of one key. Like log it is the algorithm alone.
type buckets struct {
	rings   []bucketRing
	refunds map[uuid.UUID]time.Duration // when those that were refunded will have left; it is swept as it grows
	swept   int                         // their number after that
	noted   time.Duration               // when all of them will have
}

// bucketRing is the numbers of requests in the sub-windows of one width: see Limit.
type bucketRing struct {
	limit  Limit    // its Window and Buckets
	counts []uint32 // of sub-window i at i modulo their number, which is one more than Buckets
	newest int64    // the sub-window that was the present one when requests were last counted
	n      int      // in all of them
	reset  int64    // the last sub-window of which nothing can be refunded
}

func newBucketRing(l *Limit, now time.Duration) bucketRing {
	r := bucketRing{limit: *l, counts: make([]uint32, l.Buckets+1), reset: -1 << 63}
	r.newest = r.at(now)
	return r
}

// of returns the ring of a limit, nil if there is none.
func (b *buckets) of(l *Limit) *bucketRing {
	if b == nil {
		return nil
	}
	for i := range b.rings {
		if r := &b.rings[i]; l.sharesRing(r.limit) {
			return r
		}
	}
	return nil
}

// add counts cost requests at now under every one of limits that is in Buckets.
func (b *buckets) add(now time.Duration, limits []Limit, cost int) {
	for i := range limits {
		l := &limits[i]
		if l.Buckets == 0 || slices.ContainsFunc(limits[:i], l.sharesRing) {
			continue
		}
		r := b.of(l)
		if r == nil {
			b.rings = append(b.rings, newBucketRing(l, now))
			r = &b.rings[len(b.rings)-1]
		}
		r.slide(now)
		count := r.count(r.newest)
		more := min(uint64(cost), math.MaxUint32-uint64(*count)) // several claims of one request may meet here, of a billion each
		*count += uint32(more)
		r.n += int(more)
	}
}

func (l *Limit) sharesRing(other Limit) bool {
	return l.Buckets == other.Buckets && l.Window == other.Window
}

// slide brings all rings up to now.
func (b *buckets) slide(now time.Duration) {
	for i := range b.rings {
		b.rings[i].slide(now)
	}
}

// refund takes a request off the sub-windows in which it was counted, once.
func (b *buckets) refund(now time.Duration, t Ticket, windows []SubWindow) {
	if _, twice := b.refunds[t.ID]; twice {
		return
	}
	until := now
	for _, w := range windows {
		if r := b.of(&w.Limit); r != nil && w.Number > r.reset && r.holds(w.Number) {
			until = max(until, now+w.Span())
			count := r.count(w.Number)
			less := min(t.Cost, int(*count))
			*count -= uint32(less)
			r.n -= less
		}
	}
	if until > now { // a ticket of another store, whose clock may be decades ahead, has nothing here
		b.note(now, t.ID, until)
	}
}

// note remembers a refund until the request would have left.
func (b *buckets) note(now time.Duration, id uuid.UUID, until time.Duration) {
	const few = 16
	if b.refunds == nil {
		b.refunds = make(map[uuid.UUID]time.Duration)
	}
	if len(b.refunds) > 2*b.swept+few {
		for id, until := range b.refunds {
			if until <= now {
				delete(b.refunds, id)
			}
		}
		b.swept = len(b.refunds)
	}
	b.refunds[id], b.noted = until, max(b.noted, until)
}

// forget drops everything that was counted until now.
func (b *buckets) forget(now time.Duration) {
	for i := range b.rings {
		r := &b.rings[i]
		clear(r.counts)
		r.reset = max(r.reset, r.newest, r.at(now)) // the newest is ahead where the clock stepped back
		r.n, r.newest = 0, r.at(now)
	}
}

// left reports whether nothing of what was counted counts at now, nor is needed to tell what can be refunded.
func (b *buckets) left(now time.Duration) bool {
	if b == nil {
		return true
	}
	if now < b.noted {
		return false
	}
	for i := range b.rings {
		if b.rings[i].total(now) > 0 || b.rings[i].reset >= b.rings[i].oldest(now) {
			return false
		}
	}
	return true
}

// clone shares nothing with b.
func (b *buckets) clone() *buckets {
	other := &buckets{rings: slices.Clone(b.rings)}
	for i := range other.rings {
		other.rings[i].counts = slices.Clone(other.rings[i].counts)
	}
	return other
}

// at returns the sub-window in which now lies.
func (r *bucketRing) at(now time.Duration) int64 {
	return r.limit.SubWindow(now)
}

// count is that of a sub-window, one of the newest and the Buckets before it.
func (r *bucketRing) count(i int64) *uint32 {
	n := int64(len(r.counts))
	return &r.counts[(i%n+n)%n]
}

// holds reports whether a sub-window is among the newest and the Buckets before it.
func (r *bucketRing) holds(i int64) bool { return i <= r.newest && i > r.newest-int64(len(r.counts)) }

// oldest returns the first sub-window that counts at now.
func (r *bucketRing) oldest(now time.Duration) int64 {
	return max(r.newest, r.at(now)) - int64(len(r.counts)) + 1
}

// total is the number of requests that count at now, those ahead of it (the clock stepped back) among them. It takes nil for
// nothing.
func (r *bucketRing) total(now time.Duration) int {
	if r == nil {
		return 0
	}
	n := r.n
	for i := r.newest - int64(len(r.counts)) + 1; i < r.oldest(now) && i <= r.newest; i++ {
		n -= int(*r.count(i))
	}
	return n
}

// slide makes the sub-window of now the newest. Those that have left are dropped, and those ahead of now count as it: they
// were made before now whatever the clock said.
func (r *bucketRing) slide(now time.Duration) {
	this := r.at(now)
	for i := r.newest + 1; i <= this && i <= r.newest+int64(len(r.counts)); i++ {
		r.n -= int(*r.count(i))
		*r.count(i) = 0
	}
	if r.newest > this {
		r.reset = max(r.reset, r.newest) // what a ticket names may be counted elsewhere from now on
	}
	var ahead uint32
	for i := max(this, r.newest-int64(len(r.counts))) + 1; i <= r.newest; i++ {
		ahead += *r.count(i)
		*r.count(i) = 0
	}
	r.newest = this
	*r.count(this) += ahead
}

// leaving returns the time until the k-th newest of the requests that count no longer does. There must be as many.
func (r *bucketRing) leaving(now time.Duration, k int) time.Duration {
	i := r.newest
	for n := int(*r.count(i)); n < k; n += int(*r.count(i)) {
		i--
	}
	return r.leaves(min(i, r.at(now))) - now
}

// leaves returns when the requests of a sub-window no longer count.
func (r *bucketRing) leaves(i int64) time.Duration { return SubWindow{r.limit, i}.leaves() }
