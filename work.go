package sash

import (
	"slices"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// work is what an Aspect needs while it decides a request. It is used again for others, and keeps nothing of this one.
type work struct {
	applied   []applied // the rules that apply: those that decide, then the dry runs
	live      int       // how many of them decide
	claims    []ratelimit.Claim
	decisions []ratelimit.Decision
	undecided []*rule // dry runs that have no claim, or no answer

	parts [4]string // of a key
}

// applied is a rule that makes a claim, with its limits and its key. The Limiter may write another key into the claim.
type applied struct {
	rule *rule
	plan *plan
	key  string
}

// begin lends work for one request. Who panics before end has taken it along.
func (a *Aspect) begin() *work {
	if w, ok := a.works.Get().(*work); ok {
		return w
	}
	n := len(a.rules)
	return &work{
		applied:   make([]applied, 0, n),
		claims:    make([]ratelimit.Claim, 0, n),
		decisions: make([]ratelimit.Decision, 0, n),
	}
}

// add adds the claim of one more rule. There is room for all rules, and no decision yet.
func (w *work) add(r *rule, p *plan, key string, cost int) {
	w.applied = append(w.applied, applied{r, p, key})
	w.claims = append(w.claims, ratelimit.Claim{
		Key: key, Limits: p.limits, Cost: cost, Keep: r.plans.keep,
		OnFailure: r.OnFailure, AskAlways: r.AskAlways, ForgetDenials: r.forgetDenials,
	})
	w.decisions = w.decisions[:len(w.claims)]
	if !r.DryRun {
		w.live++
	}
}

// fail is for a request that could not be decided. Then there are no outcomes.
func (w *work) fail(v *Verdict, err error) {
	w.forget()
	*v = Verdict{Err: err}
}

// giveUp is for dry runs that could not be decided.
func (w *work) giveUp() {
	for i := range w.applied[w.live:] {
		w.undecided = append(w.undecided, w.applied[w.live+i].rule)
	}
	w.shrink(w.live)
}

// shadow makes of denials by dry runs what they are: nobody is denied.
func (w *work) shadow() {
	for i := w.live; i < len(w.decisions); i++ {
		if d := &w.decisions[i]; !d.Allowed {
			d.Allowed, d.Reason = true, ratelimit.Shadowed
		}
	}
}

// bind finds the decision that binds, and the names of all policies that deny. Where a rule fails closed there is none.
func (w *work) bind(v *Verdict) {
	for i := range w.live {
		d := &w.decisions[i]
		if d.Reason == ratelimit.FailedClosed {
			*v = Verdict{Err: &UnavailableError{RetryAfter: d.RetryAfter}}
			return
		}
		violated := v.Violated
		if i == 0 || d.Binds(v.Decision) {
			v.Decision = *d
		}
		v.Violated = violated
		if !d.Allowed {
			w.violate(i, v)
		}
	}
}

// violate adds the policy that denies by the decision at an index.
func (w *work) violate(i int, v *Verdict) {
	p, at := w.applied[i].plan, w.binding(i)
	name := p.policies[at].Name()
	if v.Violated != nil {
		v.Violated, v.answer = append(v.Violated, name), nil
		return
	}
	if v.answer = p.answer(at); v.answer != nil {
		v.Violated = v.answer.violated
	} else {
		v.Violated = []string{name}
	}
}

// binding is the index of the limit that binds, and of its policy.
func (w *work) binding(i int) int {
	return max(0, slices.Index(w.applied[i].plan.limits, w.decisions[i].Limit)) // below 0 where nothing is known
}

// quota is what the fields say of the decision at an index.
func (w *work) quota(i int) headers.Quota {
	d := &w.decisions[i]
	return headers.Quota{Policies: w.applied[i].plan.policies, Binding: w.binding(i), Decision: *d, Known: d.Reason.Known()}
}

func (w *work) quotas(from, to int) []headers.Quota {
	all := make([]headers.Quota, 0, to-from)
	for i := from; i < to; i++ {
		all = append(all, w.quota(i))
	}
	return all
}

// end takes work back, and gives the verdict the outcomes if somebody may ask for them.
func (a *Aspect) end(w *work, v *Verdict) {
	if a.watches || !a.unobserved {
		v.Outcomes = w.outcomes()
	}
	w.forget()
	a.works.Put(w)
}

// outcomes are what the rules that apply say.
func (w *work) outcomes() []Outcome {
	var all []Outcome
	for i, by := range w.applied {
		all = append(all, Outcome{Rule: by.rule.shown, DryRun: by.rule.DryRun, Decision: w.decisions[i], rule: by.rule, key: by.key})
	}
	for _, r := range w.undecided {
		all = append(all, Outcome{Rule: r.shown, DryRun: true, Decision: ratelimit.Decision{Allowed: true}, rule: r})
	}
	return all
}

// forget drops all that is of the request: keys, tickets, limits that a function has told.
func (w *work) forget() {
	w.shrink(0)
	clear(w.undecided)
	w.live, w.undecided, w.parts = 0, w.undecided[:0], [4]string{}
}

// shrink drops all claims but the first n.
func (w *work) shrink(n int) {
	clear(w.applied[n:])
	clear(w.claims[n:])
	clear(w.decisions[n:])
	w.applied, w.claims, w.decisions = w.applied[:n], w.claims[:n], w.decisions[:n]
}
