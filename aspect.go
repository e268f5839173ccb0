package sash

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// Aspect is the rules of one handler, checked and compiled. It is safe for concurrent use.
type Aspect struct {
	limiter    *ratelimit.Limiter
	dialect    headers.Dialect
	showDryRun bool
	unobserved bool
	skip       *keyexpr.Condition // nil: none
	rules      []rule
	watches    bool // some rule waits for the response
	typed      bool // the body is read before the rules are asked
	mixed      bool // some rules depend on the body, others do not
	routes     routes
	works      sync.Pool // of *work
}

// Verdict is the outcome of the rules for one request.
type Verdict struct {
	// Decision is the one that binds: of several rules' the tightest, with the names of all policies that deny in
	// Violated. It is zero if Err is not nil. Its Reason is Skipped if no rule applies.
	ratelimit.Decision

	// Err tells why there is no Decision: a *keyexpr.KeyError if the request has no key. See Status.
	Err error

	// Outcomes are the decisions of the rules that apply, dry runs among them. See Options.Unobserved.
	Outcomes []Outcome

	answer *answer      // of the one policy that denies; nil if there is none, or several
	room   headers.Room // for fields of a denial
}

// Outcome is what one rule says of one request.
type Outcome struct {
	Rule   string // its name, or its key expression; that of a dry run ends in " (dry run)"
	DryRun bool

	// Decision of a dry run that would have denied has the Reason Shadowed, and of one that could not decide, for
	// want of a key for example, Undecided. Both are Allowed.
	ratelimit.Decision

	rule  *rule
	plan  *plan // nil: undecided
	claim ratelimit.Claim
}

// Check decides one request under all rules together, in one round trip (and another if there are dry runs), and
// sets the header fields of its response. The request may go on if Err is nil and it is Allowed; else it is to be
// answered, for example by Answer.
//
// If Watches is true, After is to be called when the handler has returned.
func (a *Aspect) Check(header http.Header, src keyexpr.Source) Verdict {
	if !a.typed {
		if v, denied := a.CheckUnread(header, src); denied {
			return v
		}
	}
	w := a.begin()
	v := a.decide(src.Request().Context(), src, w)
	a.setFields(header, &v, w.outcomes)
	a.end(w, &v)
	return v
}

// decide is Check without HTTP. Whatever is wrong with a dry run, it denies nobody. The outcomes are w's, until end.
func (a *Aspect) decide(ctx context.Context, src keyexpr.Source, w *work) Verdict {
	v := Verdict{Decision: ratelimit.Decision{Allowed: true, Reason: ratelimit.Skipped}}
	if a.skip != nil {
		if skip, err := a.skip.Holds(src); skip || err != nil {
			if a.hasLive() {
				v.Allowed, v.Err = err == nil, err
			}
			return v
		}
	}
	names := a.logNames(src.Route())
	for i := range a.rules {
		r := &a.rules[i]
		switch err := r.claim(ctx, src, names[i], w); {
		case err != nil && r.DryRun:
			w.outcomes = append(w.outcomes, r.undecided())
		case err != nil:
			return w.fail(err)
		}
	}
	if err := a.take(ctx, w, false); err != nil {
		return w.fail(err)
	}
	if err := a.take(ctx, w, true); err != nil {
		for i := range w.outcomes {
			if o := &w.outcomes[i]; o.DryRun {
				*o = o.rule.undecided()
			}
		}
	}
	v.bind(w.outcomes)
	return v
}

func (a *Aspect) hasLive() bool {
	return slices.ContainsFunc(a.rules, func(r rule) bool { return !r.DryRun })
}

// logNames are the rule parts of the keys of all rules on a route.
func (a *Aspect) logNames(route string) []ratelimit.KeyPrefix {
	names, known := a.routes.names(route)
	if !known {
		names = a.routes.add(a.rules, route)
		a.warnOf(route)
	}
	return names
}

// undecided is the outcome of a dry run that has no answer.
func (r *rule) undecided() Outcome {
	return Outcome{Rule: r.shown, DryRun: true, Decision: ratelimit.Decision{Allowed: true}, rule: r}
}

// claim adds to w what the rule claims for one request, if it applies at all.
func (r *rule) claim(ctx context.Context, src keyexpr.Source, name ratelimit.KeyPrefix, w *work) error {
	if r.when != nil {
		if applies, err := r.when.Holds(src); !applies || err != nil {
			return err
		}
	}
	parts, err := r.key.Key(src, w.parts[:0])
	if err != nil {
		return err
	}
	cost := 1
	if r.cost != nil {
		if cost, err = r.cost.Of(src); err != nil {
			return err
		}
	}
	plan, err := r.plans.of(ctx, src)
	if err != nil {
		return err
	}
	w.outcomes = append(w.outcomes, Outcome{
		Rule:   r.shown,
		DryRun: r.DryRun,
		rule:   r,
		plan:   plan,
		claim: ratelimit.Claim{
			Key: name.Key(parts...), Limits: plan.limits, Cost: cost, Keep: r.plans.keep,
			OnFailure: r.OnFailure, AskAlways: r.AskAlways, ForgetDenials: r.forgetDenials,
		},
	})
	return nil
}

// take decides the outcomes that are dry runs, or those that are not.
func (a *Aspect) take(ctx context.Context, w *work, dryRun bool) error {
	taken := func(o *Outcome) bool { return o.DryRun == dryRun && o.plan != nil }
	w.claims = w.claims[:0]
	for i := range w.outcomes {
		if taken(&w.outcomes[i]) {
			w.claims = append(w.claims, w.outcomes[i].claim)
		}
	}
	if len(w.claims) == 0 {
		return nil
	}
	decisions := w.answers()
	if err := a.limiter.Take(ctx, w.claims, decisions); err != nil {
		return err
	}
	for i := range w.outcomes {
		o := &w.outcomes[i]
		if !taken(o) {
			continue
		}
		o.Decision, decisions = decisions[0], decisions[1:]
		if dryRun && !o.Allowed {
			o.Allowed, o.Reason = true, ratelimit.Shadowed
		}
	}
	return nil
}

// denialValues is how many texts a denial needs: the values of RateLimit-Policy, RateLimit, Cache-Control, Retry-After,
// Content-Type and Content-Length, and the name of the policy that denies. One allocation has room for all.
const denialValues = 7

// bind finds the decision that binds, and the names of all policies that deny. Where a rule fails closed there is none.
func (v *Verdict) bind(outcomes []Outcome) {
	first := true
	var violated []string
	for i := range outcomes {
		o := &outcomes[i]
		if o.DryRun {
			continue
		}
		if o.Reason == ratelimit.FailedClosed {
			*v = Verdict{Err: &UnavailableError{RetryAfter: o.RetryAfter}}
			return
		}
		if first || o.Binds(v.Decision) {
			v.Decision, first = o.Decision, false
		}
		if o.Allowed {
			continue
		}
		at := o.binding()
		if name := o.plan.policies[at].Name(); violated == nil {
			v.room, v.answer = headers.NewRoom(denialValues), o.plan.answer(at)
			violated = v.room.Value(name)
		} else {
			violated, v.answer = append(violated, name), nil
		}
	}
	v.Violated = violated
}

// binding is the index of the limit that binds, and of its policy.
func (o *Outcome) binding() int {
	return max(0, slices.Index(o.plan.limits, o.Limit)) // below 0 where nothing is known
}

// Watches reports whether some rule waits for the response, and After is to be called.
func (a *Aspect) Watches() bool { return a.watches }

// After does what rules declare for a finished response: it refunds what CountIf does not count, and forgets keys
// for which ResetIf holds. src sees the response. A condition that cannot be evaluated leaves the request counted, and
// the Limiter's Logger hears of it; so does a store that cannot be reached.
func (a *Aspect) After(v Verdict, src keyexpr.ResponseSource) {
	ctx := src.Request().Context()
	for i := range v.Outcomes {
		o := &v.Outcomes[i]
		if o.rule.resetIf != nil && o.plan != nil && a.holds(o.rule.resetIf, src, false) {
			_ = a.limiter.Reset(ctx, o.claim.Key) // the Limiter tells of an outage
			continue
		}
		if o.rule.countIf != nil && o.Ticket.Cost > 0 && !a.holds(o.rule.countIf, src, true) {
			_ = a.limiter.Refund(ctx, o.claim.Key, o.Ticket)
		}
	}
}

// holds evaluates a condition on a response, or returns otherwise.
func (a *Aspect) holds(c *keyexpr.Condition, src keyexpr.Source, otherwise bool) bool {
	holds, err := c.Holds(src)
	if err != nil {
		a.limiter.Logger().Warn("rate limit: a condition on the response cannot be evaluated, and the request stays counted", "err", err)
		return otherwise
	}
	return holds
}

// setFields describes a verdict in the header fields of its response.
func (a *Aspect) setFields(header http.Header, v *Verdict, outcomes []Outcome) {
	if unavailable, ok := errors.AsType[*UnavailableError](v.Err); ok {
		headers.RetryAfter(header, unavailable.RetryAfter)
	}
	if v.Err != nil || len(outcomes) == 0 {
		return
	}
	var space [4]headers.Quota
	live, dry := space[:0], []headers.Quota(nil)
	for i := range outcomes {
		o := &outcomes[i]
		if o.plan == nil {
			continue
		}
		quota := headers.Quota{Policies: o.plan.policies, Binding: o.binding(), Decision: o.Decision, Known: o.Reason.Known()}
		if o.DryRun {
			dry = append(dry, quota)
		} else {
			live = append(live, quota)
		}
	}
	if len(live) > 0 {
		a.dialect.SetIn(&v.room, header, live...)
	}
	if a.showDryRun && len(dry) > 0 {
		shadow := http.Header{"Ratelimit": header["Ratelimit-Dry-Run"]} // of a level further out
		headers.Draft.Set(shadow, dry...)
		header["Ratelimit-Dry-Run"] = shadow["Ratelimit"]
	}
	if !v.Allowed {
		headers.RetryAfterIn(&v.room, header, v.RetryAfter)
	}
}
