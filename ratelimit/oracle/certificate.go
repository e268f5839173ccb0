package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// spans is up to how many windows long the intervals are that certificate
// tries. One is enough for most faults; drift shows only over several.
const spans = 8

// overfull is an interval [from, from + windows×window) with more requests in
// it, from begin to end, than so many windows hold. It is the proof that a
// reader can check with a pencil.
type overfull struct {
	from    time.Duration
	windows int
	limit   int
	window  time.Duration
	inside  []grant
}

// certificate looks for an interval that must hold more than the law allows:
// an interval [b, b+k×window) is k windows laid end to end, so it has room for
// k×limit. It also returns the greatest number for k = 1. The grants are
// sorted by Begin. O(n×spans×log n): b sweeps downward over the Begins, and a
// Fenwick tree over the Ends holds the grants that begin at b or later.
func certificate(gs []grant, limit int, window time.Duration) (proof *overfull, most int) {
	ends := make([]time.Duration, len(gs))
	for i, g := range gs {
		ends[i] = g.End
	}
	slices.Sort(ends)
	var below [spans + 1]int // below[k]: how many ends are before b + k×window
	for k := range below {
		below[k] = len(ends)
	}

	tree := make(fenwick, len(gs)+1)
	var from time.Duration
	best, excess := spans+1, 0
	for i := len(gs) - 1; i >= 0; i-- {
		rank, _ := slices.BinarySearch(ends, gs[i].End)
		tree.add(rank)
		b := gs[i].Begin
		if i > 0 && gs[i-1].Begin == b {
			continue // there are more that begin here
		}
		for k := 1; k <= min(best, spans); k++ {
			for below[k] > 0 && ends[below[k]-1] >= b+time.Duration(k)*window {
				below[k]--
			}
			n := tree.sum(below[k])
			if k == 1 {
				most = max(most, n)
			}
			if over := n - k*limit; over > 0 && (k < best || over > excess) {
				best, excess, from = k, over, b
			}
		}
	}
	if excess == 0 {
		return nil, most
	}
	proof = &overfull{from: from, windows: best, limit: limit, window: window}
	for _, g := range gs {
		if g.Begin >= from && g.End < proof.to() {
			proof.inside = append(proof.inside, g)
		}
	}
	return proof, most
}

func (o *overfull) to() time.Duration { return o.from + time.Duration(o.windows)*o.window }

func (o *overfull) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests were allowed within [%v, %v), which is %d × %v long and has room for %d:",
		len(o.inside), o.from, o.to(), o.windows, o.window, o.windows*o.limit)
	list(&b, o.inside)
	return b.String()
}

// fenwick counts marks on the places 0, 1, …, len-2.
type fenwick []int

func (f fenwick) add(place int) {
	for i := place + 1; i < len(f); i += i & -i {
		f[i]++
	}
}

// sum returns how many marks are on the first n places.
func (f fenwick) sum(n int) (marks int) {
	for i := n; i > 0; i -= i & -i {
		marks += f[i]
	}
	return marks
}
