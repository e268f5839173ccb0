package sash

import (
	"context"
	"errors"
	"net/http"
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
	rules      []rule             // those that decide, then the dry runs
	watches    bool               // some rule waits for the response
	typed      bool               // the body is read before the rules are asked
	mixed      bool               // some rules depend on the body, others do not
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

	// Outcomes are the decisions of the rules that apply, dry runs after the others. See Options.Unobserved.
	Outcomes []Outcome

	answer *answer // of the one policy that denies; nil if there is none, or several
}

// Outcome is what one rule says of one request.
type Outcome struct {
	Rule   string // its name, or its key expression; that of a dry run ends in " (dry run)"
	DryRun bool

	// Decision of a dry run that would have denied has the Reason Shadowed, and of one that could not decide, for
	// want of a key for example, Undecided. Both are Allowed.
	ratelimit.Decision

	rule *rule
	key  string // "": undecided
}

// Check decides one request under all rules together, in one round trip (and another if there are dry runs), and
// sets the header fields of its response. The request may go on if Err is nil and it is Allowed; else it is to be
// answered, for example by Answer.
//
// If Watches is true, After is to be called when the handler has returned.
func (a *Aspect) Check(header http.Header, src keyexpr.Source) (v Verdict) {
	if a.mixed && !a.typed {
		if v, denied := a.CheckUnread(header, src); denied {
			return v
		}
	}
	w := a.begin()
	a.decide(src.Request().Context(), src, w, &v)
	a.setFields(header, w, &v)
	a.end(w, &v)
	return v
}

// decide is Check without HTTP: it fills in the zero Verdict. Whatever is wrong with a dry run, it denies nobody.
func (a *Aspect) decide(ctx context.Context, src keyexpr.Source, w *work, v *Verdict) {
	v.Allowed, v.Reason = true, ratelimit.Skipped
	if a.skip != nil {
		if skip, err := a.skip.Holds(src); skip || err != nil {
			if a.hasLive() {
				v.Allowed, v.Err = err == nil, err
			}
			return
		}
	}
	names := a.logNames(src.Route())
	for i := range a.rules {
		r := &a.rules[i]
		switch err := r.claim(ctx, src, names[i], w); {
		case err != nil && r.DryRun:
			w.undecided = append(w.undecided, r)
		case err != nil:
			w.fail(v, err)
			return
		}
	}
	if err := a.take(ctx, w, 0, w.live); err != nil {
		w.fail(v, err)
		return
	}
	if err := a.take(ctx, w, w.live, len(w.applied)); err != nil {
		w.giveUp()
	}
	w.shadow()
	w.bind(v)
}

func (a *Aspect) hasLive() bool { return !a.rules[0].DryRun }

// logNames are the rule parts of the keys of all rules on a route.
func (a *Aspect) logNames(route string) []ratelimit.KeyPrefix {
	names, known := a.routes.names(route)
	if !known {
		names = a.routes.add(a.rules, route)
		a.warnOf(route)
	}
	return names
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
	w.add(r, plan, name.Key(parts...), cost)
	return nil
}

// take decides the claims from one index to another: of rules that decide, or of dry runs.
func (a *Aspect) take(ctx context.Context, w *work, from, to int) error {
	if from == to {
		return nil
	}
	return a.limiter.Take(ctx, w.claims[from:to], w.decisions[from:to])
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
		if o.rule.resetIf != nil && o.key != "" && a.holds(o.rule.resetIf, src, false) {
			_ = a.limiter.Reset(ctx, o.key) // the Limiter tells of an outage
			continue
		}
		if o.rule.countIf != nil && o.Ticket.Cost > 0 && !a.holds(o.rule.countIf, src, true) {
			_ = a.limiter.Refund(ctx, o.key, o.Ticket)
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
func (a *Aspect) setFields(header http.Header, w *work, v *Verdict) {
	if v.Err != nil {
		if unavailable, ok := errors.AsType[*UnavailableError](v.Err); ok {
			headers.RetryAfter(header, unavailable.RetryAfter)
		}
		return
	}
	if w.live == 1 {
		a.dialect.Set(header, w.quota(0))
	} else if w.live > 1 {
		a.dialect.Set(header, w.quotas(0, w.live)...)
	}
	if a.showDryRun && len(w.applied) > w.live {
		shadow := http.Header{"Ratelimit": header["Ratelimit-Dry-Run"]} // of a level further out
		headers.Draft.Set(shadow, w.quotas(w.live, len(w.applied))...)
		header["Ratelimit-Dry-Run"] = shadow["Ratelimit"]
	}
	switch {
	case v.Allowed:
	case v.answer.fits(v):
		v.answer.retryAfter(header, headers.Seconds(v.RetryAfter))
	default:
		headers.RetryAfter(header, v.RetryAfter)
	}
}
