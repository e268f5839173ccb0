package oracle

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"
)

// complete decides any history, at a price that suits a few hundred requests.
// It returns instants that obey the law, in the order of gs, or else the
// contradiction in words. The grants are sorted by Begin.
//
// If there are lawful instants at all, there are some on the grid
// {Begin + k×window}: move each as early as its Begin and those before it
// allow. Let x(j) be the number of decisions at the first j points of the
// grid. Then the law says x(j) - x(p) ≤ limit, where p counts the points up to
// a window before the j-th; x never decreases; and by Hall's theorem, which for
// intervals needs to look at intervals only, the decisions can be dealt out to
// the requests if and only if every [s, u] gets at least as many as there are
// requests within it. All of these are bounds on differences, and a system of
// such bounds has a solution, in integers, if and only if the graph of the
// bounds has no negative cycle (Bellman and Ford).
func complete(gs []grant, limit int, window time.Duration) (starts []time.Duration, contradiction string) {
	grid := newGrid(gs, limit, window)
	bounds := slices.Concat(grid.monotone(), grid.law(limit, window), grid.demand(gs))
	x, cycle := solve(len(grid)+1, bounds)
	if cycle != nil {
		return nil, explain(cycle, window)
	}
	return deal(gs, grid, x), ""
}

// bound says x(to) ≤ x(from) + room. A negative room is a demand: at least
// that many decisions within [first, last]. A positive one is the law for the
// window that ends with last.
type bound struct {
	from, to    int
	room        int
	first, last time.Duration
}

type grid []time.Duration

// newGrid needs k only up to (n-1)/limit: one window later is limit requests
// later.
func newGrid(gs []grant, limit int, window time.Duration) grid {
	var end time.Duration
	for _, g := range gs {
		end = max(end, g.End)
	}
	var points grid
	for _, g := range gs {
		for k := 0; k <= (len(gs)-1)/limit; k++ {
			t := g.Begin + time.Duration(k)*window
			if t > end {
				break
			}
			points = append(points, t)
		}
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// upTo is how many points lie in (-∞, t]; before, in (-∞, t).
func (g grid) upTo(t time.Duration) int   { return upTo(g, t) }
func (g grid) before(t time.Duration) int { n, _ := slices.BinarySearch(g, t); return n }

func (g grid) monotone() []bound {
	var bs []bound
	for j := range g {
		bs = append(bs, bound{from: j + 1, to: j})
	}
	return bs
}

func (g grid) law(limit int, window time.Duration) []bound {
	var bs []bound
	for j, t := range g {
		bs = append(bs, bound{from: g.upTo(t - window), to: j + 1, room: limit, last: t})
	}
	return bs
}

// demand has a bound for each pair of a Begin and an End that no shorter
// interval makes needless.
func (g grid) demand(gs []grant) []bound {
	ends := make([]time.Duration, len(gs))
	for i, grant := range gs {
		ends[i] = grant.End
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)

	var bs []bound
	endings := make([]int, len(ends)) // of the requests that begin at s or later
	for i := len(gs) - 1; i >= 0; i-- {
		s := gs[i].Begin
		rank, _ := slices.BinarySearch(ends, gs[i].End)
		endings[rank]++
		if i > 0 && gs[i-1].Begin == s {
			continue
		}
		n := 0
		for r, u := range ends {
			if endings[r] > 0 {
				n += endings[r]
				bs = append(bs, bound{from: g.upTo(u), to: g.before(s), room: -n, first: s, last: u})
			}
		}
	}
	return bs
}

// solve returns values that keep all bounds, or a cycle of bounds that add up
// to less than nothing.
func solve(values int, bounds []bound) (x []int, cycle []bound) {
	x = make([]int, values)
	tightest := make([]int, values) // the bound that last lowered a value
	lowered := 0
	for range values + 1 {
		lowered = -1
		for i, b := range bounds {
			if x[b.from]+b.room < x[b.to] {
				x[b.to] = x[b.from] + b.room
				tightest[b.to] = i
				lowered = b.to
			}
		}
		if lowered < 0 {
			return x, nil
		}
	}
	// Still falling after so many rounds: going back from here leads into the
	// cycle.
	at := lowered
	for range values {
		at = bounds[tightest[at]].from
	}
	for v := at; len(cycle) == 0 || v != at; {
		b := bounds[tightest[v]]
		cycle = append(cycle, b)
		v = b.from
	}
	return nil, cycle
}

// deal gives the decisions at the points of the grid to the requests, each to
// the one with the earliest End of those that have begun.
func deal(gs []grant, points grid, x []int) []time.Duration {
	starts := make([]time.Duration, len(gs))
	q := queue{gs: gs}
	for j, t := range points {
		q.admit(t)
		for n := x[j+1] - x[j]; n > 0 && len(q.waiting) > 0; n-- {
			starts[heap.Pop(&q).(int)] = t
		}
	}
	return starts
}

// explain puts a negative cycle into words. Its windows cover its demands,
// every point at least as often, but hold less than the demands ask for.
func explain(cycle []bound, window time.Duration) string {
	var demands, windows strings.Builder
	need, room := 0, 0
	for _, b := range cycle {
		switch {
		case b.room < 0:
			need -= b.room
			fmt.Fprintf(&demands, "\n  %d requests within [%v, %v]", -b.room, b.first, b.last)
		case b.room > 0:
			room += b.room
			fmt.Fprintf(&windows, "\n  at most %d in (%v, %v]", b.room, b.last-window, b.last)
		}
	}
	return fmt.Sprintf("no instants obey the law, not even with every request decided as early as possible:%s\n"+
		"ask for %d places in all, but the windows that cover these intervals, each as often, hold %d:%s",
		demands.String(), need, room, windows.String())
}
