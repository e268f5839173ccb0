package sash

import (
	"github.com/sashlimit/sash/ratelimit"
)

// work is what an Aspect needs while it decides a request. It is used again for others, and keeps nothing of this one.
type work struct {
	outcomes  []Outcome
	claims    []ratelimit.Claim
	decisions []ratelimit.Decision
	parts     [4]string // of a key
}

// begin lends work for one request. Who panics before end has taken it along.
func (a *Aspect) begin() *work {
	if w, ok := a.works.Get().(*work); ok {
		return w
	}
	n := len(a.rules)
	return &work{
		outcomes:  make([]Outcome, 0, n),
		claims:    make([]ratelimit.Claim, 0, n),
		decisions: make([]ratelimit.Decision, 0, n),
	}
}

// answers are as many decisions as there are claims, of which nothing is known.
func (w *work) answers() []ratelimit.Decision {
	w.decisions = w.decisions[:len(w.claims)] // there is room for all rules
	clear(w.decisions)
	return w.decisions
}

// fail is the verdict of a request that could not be decided. Then there are no outcomes.
func (w *work) fail(err error) Verdict {
	w.outcomes = w.outcomes[:0]
	return Verdict{Err: err}
}

// end takes work back, and gives the verdict those of its outcomes that somebody may ask for.
func (a *Aspect) end(w *work, v *Verdict) {
	if len(w.outcomes) > 0 && (a.watches || !a.unobserved) {
		v.Outcomes = append([]Outcome(nil), w.outcomes...)
	}
	w.forget()
	a.works.Put(w)
}

// forget drops all that is of the request: keys, tickets, limits that a function has told.
func (w *work) forget() {
	clear(w.outcomes[:cap(w.outcomes)])
	clear(w.claims[:cap(w.claims)])
	clear(w.decisions[:cap(w.decisions)])
	w.outcomes, w.claims, w.decisions = w.outcomes[:0], w.claims[:0], w.decisions[:0]
	w.parts = [4]string{}
}
