package oracle

import (
	"math/bits"
	"slices"
	"time"
)

// falseDenials returns the denials that no instant of theirs excuses: at every
// t within the interval, fewer than limit requests can have been in
// (t-window, t]. Allowed and doubtful requests can be in it if they began by t
// and ended after t-window. O((n+d) log n) for n of those and d denials.
func falseDenials(h History, limit int, window time.Duration) []FalseDenial {
	load := newLoad(slices.Concat(h.Allowed, h.Doubtful), window)
	var found []FalseDenial
	for i, d := range h.Denied {
		if n := load.most(d); n < limit {
			found = append(found, FalseDenial{Interval: d, ID: i, AtMost: n})
		}
	}
	return found
}

// load answers how many requests can have been counted at an instant.
type load struct {
	window       time.Duration
	begins, ends []time.Duration // sorted, each by itself
	// peaks[k][i] is the greatest load at begins[i], …, begins[i+2^k-1].
	peaks [][]int
}

func newLoad(counted []Interval, window time.Duration) *load {
	l := &load{window: window}
	for _, i := range counted {
		l.begins = append(l.begins, i.Begin)
		l.ends = append(l.ends, i.End)
	}
	slices.Sort(l.begins)
	slices.Sort(l.ends)

	row := make([]int, len(l.begins))
	for i, t := range l.begins {
		row[i] = l.at(t)
	}
	l.peaks = append(l.peaks, row)
	for width := 1; 2*width <= len(l.begins); width *= 2 {
		next := make([]int, len(row)-width)
		for i := range next {
			next[i] = max(row[i], row[i+width])
		}
		l.peaks = append(l.peaks, next)
		row = next
	}
	return l
}

// at is the greatest number of requests in (t-window, t].
func (l *load) at(t time.Duration) int {
	return upTo(l.begins, t) - upTo(l.ends, t-l.window)
}

// most is the greatest load within d. It grows only where a request begins.
func (l *load) most(d Interval) int {
	n := l.at(d.Begin)
	from, to := upTo(l.begins, d.Begin), upTo(l.begins, d.End)
	if from == to {
		return n
	}
	k := bits.Len(uint(to-from)) - 1
	return max(n, l.peaks[k][from], l.peaks[k][to-1<<k])
}

// upTo is how many of the sorted instants lie in (-∞, t].
func upTo(sorted []time.Duration, t time.Duration) int {
	n, _ := slices.BinarySearch(sorted, t+1)
	return n
}
