// Package oracle judges whether a rate limiter kept its law, from outside:
// from when each request began and ended, and whether it was allowed.
//
// The law is that of an exact sliding window: in no interval (t-Window, t] are
// more than Limit requests allowed. Nobody outside the limiter knows at which
// instant it decided, only that it did so between the Begin and the End of the
// request. So the oracle asks whether there are instants within the intervals
// that obey the law. If there are none, the limiter broke it, whatever
// happened inside: that verdict, Violated, is a proof. If there are, the
// verdict is Lawful, and they are handed over as its proof; the limiter may
// still have erred by less than the width of the intervals. The oracle also
// names the denials that cannot have been right.
//
//	rec := oracle.NewRecorder()
//	call := rec.Begin() // just before the request is sent
//	…
//	call.Allowed()      // first thing in the protected handler
//	…
//	if report := oracle.Check(rec.History(), 100, time.Second); !report.OK() {
//		t.Error(report)
//	}
//
// The question is one of scheduling: jobs of length Window on Limit identical
// machines, each with an earliest and a latest start. Check answers it in
// three steps, from cheap to complete: certificate.go, witness.go, complete.go.
// Requests that count for more than one are not modelled.
package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Interval is a closed interval [Begin, End] on a monotonic clock, counted
// from an epoch that all intervals of a history share. The limiter decided at
// some instant in it, both ends included.
type Interval struct{ Begin, End time.Duration }

func (i Interval) String() string { return fmt.Sprintf("[%v, %v]", i.Begin, i.End) }

// Widen returns i with both ends moved outwards: what is known of a request if
// the clock that timed it was off by up to that much.
func (i Interval) Widen(by time.Duration) Interval { return Interval{i.Begin - by, i.End + by} }

// History is what was seen of the requests for one key, in any order.
type History struct {
	Allowed []Interval // from before the request was sent until the handler ran
	Denied  []Interval // from before the request was sent until its denial was read

	// Doubtful requests ended without an answer, by a timeout for example.
	// They may or may not have been counted, up to End: they are no evidence of
	// a violation, but an excuse for a denial.
	Doubtful []Interval

	Clock Clock
}

// Clock bounds how far the limiter's clock may differ from the one that timed
// the intervals. Only its rate and its resolution matter. The zero value means
// that they are the same clock. A step of either clock is a fault, not an
// uncertainty, and not covered.
type Clock struct {
	Drift float64       // relative error of rate: 500e-6 for a clock that is being slewed
	Tick  time.Duration // resolution: a microsecond for Redis
}

// shortest and longest are what the limiter, by its own clock, may take for a
// window.
func (c Clock) shortest(window time.Duration) time.Duration { return window - c.error(window) }
func (c Clock) longest(window time.Duration) time.Duration  { return window + c.error(window) }

func (c Clock) error(window time.Duration) time.Duration {
	return time.Duration(float64(window)*c.Drift) + c.Tick
}

// Check judges a history by the law "at most limit requests in any interval
// (t-window, t]". It panics if limit or window is not positive, if the clock's
// error is not below the window, or if an interval ends before it begins: such
// a question has no answer.
func Check(h History, limit int, window time.Duration) Report {
	mustMakeSense(h, limit, window)
	r := Report{History: h, Limit: limit, Window: window}
	r.FalseDenials = falseDenials(h, limit, h.Clock.longest(window))
	r.judge(grants(h), limit, h.Clock.shortest(window))
	return r
}

// judge answers the first question, may the limiter have kept its law? The
// instants, whichever step finds them, are believed only after a look at the
// law itself.
func (r *Report) judge(gs []grant, limit int, window time.Duration) {
	over, most := certificate(gs, limit, window)
	r.Most = most
	if over != nil {
		r.Verdict, r.Proof = Violated, over.String()
		return
	}
	starts, stuck := witness(gs, limit, window)
	if starts == nil {
		starts, r.Proof = complete(stuck, limit, window)
		if r.Proof != "" {
			r.Verdict = Violated
			return
		}
		if len(stuck) < len(gs) { // lawful, but only a part
			r.Verdict = Unknown
			r.Proof = fmt.Sprintf("neither instants nor a contradiction found among %d requests", len(gs))
			return
		}
	}
	if err := obey(gs, starts, limit, window); err != nil {
		panic("oracle: its own instants break the law: " + err.Error())
	}
	r.Verdict, r.Proof = Lawful, "there are instants that obey the law"
	r.Instants = make([]time.Duration, len(starts))
	for i, g := range gs {
		r.Instants[g.id] = starts[i]
	}
}

// grant is an allowed request and its place in History.Allowed.
type grant struct {
	Interval
	id int
}

// grants returns the allowed requests sorted by Begin.
func grants(h History) []grant {
	gs := make([]grant, len(h.Allowed))
	for i, a := range h.Allowed {
		gs[i] = grant{a, i}
	}
	slices.SortFunc(gs, func(a, b grant) int { return a.compareBegin(b.Begin) })
	return gs
}

func (g grant) compareBegin(t time.Duration) int { return cmp.Compare(g.Begin, t) }

// obey returns an error unless starts, one for each grant, lie within their
// intervals and at most limit of them in any (t-window, t].
func obey(gs []grant, starts []time.Duration, limit int, window time.Duration) error {
	for i, g := range gs {
		if starts[i] < g.Begin || starts[i] > g.End {
			return fmt.Errorf("request %d %v is said to be decided at %v", g.id, g.Interval, starts[i])
		}
	}
	sorted := slices.Sorted(slices.Values(starts))
	for i := limit; i < len(sorted); i++ {
		if sorted[i]-sorted[i-limit] < window {
			return fmt.Errorf("%d instants within [%v, %v]", limit+1, sorted[i-limit], sorted[i])
		}
	}
	return nil
}

func mustMakeSense(h History, limit int, window time.Duration) {
	if limit < 1 || window <= 0 {
		panic(fmt.Sprintf("oracle: %d requests per %v is no limit", limit, window))
	}
	if h.Clock.error(window) < 0 || h.Clock.error(window) >= window {
		panic(fmt.Sprintf("oracle: a clock that may err by %v cannot judge a window of %v", h.Clock.error(window), window))
	}
	for _, is := range [][]Interval{h.Allowed, h.Denied, h.Doubtful} {
		for _, i := range is {
			if i.End < i.Begin {
				panic(fmt.Sprintf("oracle: a request ends before it begins: %v", i))
			}
		}
	}
}
