package sash

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
)

// Options are what an adapter's Decorator says about its requests.
type Options struct {
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed; none by default
	MaxBodyBytes   int64          // what a key may read of a body; 0 means keyexpr.DefaultMaxBodyBytes
	Vars           bool           // the adapter hands over application values
}

// Aspect is the rules of one handler, checked and compiled. It is safe for concurrent use.
type Aspect struct {
	limiter *ratelimit.Limiter
	rules   []rule
	policy  string // the RateLimit-Policy field, which is the same for every request
}

// rule is a Rule with all that can be known before a request comes.
type rule struct {
	Rule
	key      *keyexpr.Program
	name     string   // logName
	policies []policy // one for each of Limits
}

// Compile checks rules, and returns what an adapter needs to apply them, or an error that names every fault.
func Compile(limiter *ratelimit.Limiter, options Options, rules ...Rule) (*Aspect, error) {
	if limiter == nil {
		return nil, errors.New("sash: the Decorator has no Limiter: make one with ratelimit.New")
	}
	if len(rules) == 0 {
		return nil, errors.New("sash: no rule is given, and the handler would be unlimited")
	}
	for _, p := range options.TrustedProxies {
		if !p.IsValid() {
			return nil, errors.New("sash: a prefix in TrustedProxies is invalid, and nobody would be trusted by it: use netip.MustParsePrefix")
		}
	}
	config := keyexpr.Config{
		ClientIP:     newClientIPResolver(options.TrustedProxies),
		MaxBodyBytes: options.MaxBodyBytes,
		Vars:         options.Vars,
	}
	a := &Aspect{limiter: limiter}
	var faults []error
	for i, declared := range rules {
		r, err := compile(declared, config)
		if err == nil && a.has(r.label()) {
			err = errors.New("another rule of this handler has the same name, and headers could not tell them apart: give it a Name of its own")
		}
		if err == nil && r.Name != "" {
			err = limiter.Declare(r.Name, r.Limits...)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("sash: rule %d, %q: %w", i+1, declared.label(), err))
			continue
		}
		a.rules = append(a.rules, r)
	}
	a.policy = policyField(a.rules)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return a, nil
}

func compile(declared Rule, config keyexpr.Config) (rule, error) {
	declared.Limits = slices.Clone(declared.Limits)
	program, err := keyexpr.Compile(declared.KeyExpr, config)
	if err := errors.Join(declared.checkName(), declared.checkLimits(), err); err != nil {
		return rule{}, err
	}
	return rule{declared, program, declared.logName(), policies(declared)}, nil
}

func (a *Aspect) has(label string) bool {
	return slices.ContainsFunc(a.rules, func(r rule) bool { return r.label() == label })
}

// claim is what the rule claims for one request.
func (r *rule) claim(src keyexpr.Source) (ratelimit.Claim, error) {
	var space [4]string
	parts, err := r.key.Key(src, space[:0])
	if err != nil {
		return ratelimit.Claim{}, err
	}
	key := ratelimit.Key(r.nameOn(src.Route()), parts...)
	return ratelimit.Claim{Key: key, Limits: r.Limits, Cost: 1}, nil
}

// nameOn is the rule part of a key on a route.
func (r *rule) nameOn(route string) string {
	if r.Name != "" || route == "" {
		return r.name
	}
	return route + "-" + r.name
}

// Verdict is the outcome of the rules for one request.
type Verdict struct {
	// Decision is the one that binds: of several rules' the tightest. It is zero if Err is not nil.
	ratelimit.Decision

	// Violated are the names of the policies that deny, in the order of their declaration.
	Violated []string

	// Err tells why there is no Decision: a *keyexpr.KeyError if the request has no key. See Status.
	Err error
}

// Check decides one request under all rules together, at one round trip, and sets the header fields of its
// response: RateLimit and RateLimit-Policy, and on a denial Retry-After and Cache-Control. The request may
// go on if Err is nil and it is Allowed; else it is to be answered, for example by Answer.
func (a *Aspect) Check(header http.Header, src keyexpr.Source) Verdict {
	claims := make([]ratelimit.Claim, len(a.rules))
	for i := range a.rules {
		claim, err := a.rules[i].claim(src)
		if err != nil {
			return Verdict{Err: err}
		}
		claims[i] = claim
	}
	decisions, err := a.limiter.AllowAll(src.Request().Context(), claims...)
	if err != nil {
		return Verdict{Err: err}
	}
	v := a.verdict(decisions)
	a.setFields(header, v, decisions)
	return v
}

func (a *Aspect) verdict(decisions []ratelimit.Decision) Verdict {
	v := Verdict{Decision: decisions[0]}
	for i, d := range decisions {
		if d.Binds(v.Decision) {
			v.Decision = d
		}
		if !d.Allowed {
			v.Violated = append(v.Violated, a.rules[i].policy(d.Limit).name)
		}
	}
	return v
}
