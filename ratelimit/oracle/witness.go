package oracle

import (
	"container/heap"
	"slices"
	"time"
)

// witness looks for instants that obey the law, and returns them in the order
// of gs, which is sorted by Begin. If it finds none, it returns the requests
// around the place where it gave up: all of them, if they are few.
//
// It decides requests one after the other, each as early as the law allows,
// and of those that have begun always the one with the earliest End. That is
// exact as long as no request ends before another that began earlier. Where a
// long request was decided although a short one, yet to begin, needed the
// room, it goes back, has the room kept free until the short one has begun,
// and tries again. (B. Simons, Multiprocessor scheduling of unit-time jobs with
// arbitrary release times and deadlines, 1983, calls this a barrier.) The
// effort is bounded: O(n log n) without barriers, some 20 times that with them.
func witness(gs []grant, limit int, window time.Duration) (starts []time.Duration, stuck []grant) {
	s := schedule{
		limit: limit, window: window,
		notBefore: map[int]time.Duration{},
		effort:    20*len(gs) + 100_000,
		queue:     queue{gs: gs},
	}
	for len(s.order) < len(gs) {
		late, ok := s.decideNext()
		if !ok && !s.goBack(late) {
			return nil, s.around(late)
		}
	}
	return s.instants(), nil
}

// schedule is the state of the search. The k-th decision is of order[k], at
// at[k]; at never decreases.
type schedule struct {
	limit  int
	window time.Duration

	order     []int
	at        []time.Duration
	notBefore map[int]time.Duration // the barriers: k → earliest instant of the k-th decision
	effort    int                   // left
	queue
}

// decideNext makes one decision. If that comes too late for a request, it
// returns that request and decides nothing.
func (s *schedule) decideNext() (late int, ok bool) {
	s.effort--
	t := s.earliest(len(s.order))
	if len(s.waiting) == 0 {
		t = max(t, s.gs[s.next].Begin)
	}
	s.admit(t)
	if i := s.waiting[0]; s.gs[i].End < t {
		return i, false
	}
	s.order = append(s.order, heap.Pop(&s.queue).(int))
	s.at = append(s.at, t)
	return 0, true
}

// earliest is when the law, the order and the barriers allow decision k.
func (s *schedule) earliest(k int) time.Duration {
	t := s.gs[0].Begin
	if k > 0 {
		t = s.at[k-1]
	}
	if k >= s.limit {
		t = max(t, s.at[k-s.limit]+s.window)
	}
	if barrier, ok := s.notBefore[k]; ok {
		t = max(t, barrier)
	}
	return t
}

// goBack undoes the last decision that could have waited longer than late, and
// all since. Those since, and late, are more urgent, and all of them begin
// after that decision: it, or what takes its place, must leave room until the
// first of them has begun. It reports false if there is no such decision, or
// no effort left.
func (s *schedule) goBack(late int) bool {
	urgent := s.gs[late].Begin
	for k := len(s.order) - 1; k >= 0 && s.effort > 0; k-- {
		s.effort--
		g := s.gs[s.order[k]]
		if g.End > s.gs[late].End {
			s.undo(k)
			s.notBefore[k] = urgent
			return true
		}
		urgent = min(urgent, g.Begin)
	}
	return false
}

// undo takes back decision k and all later ones.
func (s *schedule) undo(k int) {
	open := append(s.waiting, s.order[k:]...)
	s.order, s.at = s.order[:k], s.at[:k]
	s.queue = queue{gs: s.gs}
	if k == 0 {
		return
	}
	// What has been decided began by the last decision. So everything beyond
	// next is open, and is admitted in its turn.
	s.next, _ = slices.BinarySearchFunc(s.gs, s.at[k-1]+1, grant.compareBegin)
	for _, i := range open {
		if i < s.next {
			heap.Push(&s.queue, i)
		}
	}
}

// instants returns the decisions in the order of gs.
func (s *schedule) instants() []time.Duration {
	starts := make([]time.Duration, len(s.gs))
	for k, i := range s.order {
		starts[i] = s.at[k]
	}
	return starts
}

// around returns late and those that leave it no room, the last to begin, as
// many as complete can take.
func (s *schedule) around(late int) []grant {
	size := max(120, min(3*s.limit, 400))
	if len(s.gs) <= size {
		return s.gs
	}
	var near []grant
	for i := s.next - 1; i >= 0 && len(near) < size; i-- {
		if s.gs[i].End <= s.gs[late].End {
			near = append(near, s.gs[i])
		}
	}
	slices.Reverse(near)
	return near
}

// queue admits requests, which are sorted by Begin, as they begin, and hands
// them out by their End, the earliest first.
type queue struct {
	gs      []grant
	next    int   // gs[next:] have not begun
	waiting []int // a heap
}

// admit lets in those that begin at t or earlier.
func (q *queue) admit(t time.Duration) {
	for ; q.next < len(q.gs) && q.gs[q.next].Begin <= t; q.next++ {
		heap.Push(q, q.next)
	}
}

func (q *queue) Len() int           { return len(q.waiting) }
func (q *queue) Less(i, j int) bool { return q.gs[q.waiting[i]].End < q.gs[q.waiting[j]].End }
func (q *queue) Swap(i, j int)      { q.waiting[i], q.waiting[j] = q.waiting[j], q.waiting[i] }
func (q *queue) Push(x any)         { q.waiting = append(q.waiting, x.(int)) }
func (q *queue) Pop() any {
	last := q.waiting[len(q.waiting)-1]
	q.waiting = q.waiting[:len(q.waiting)-1]
	return last
}
