package sash

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// Options are what an adapter's Decorator says about its requests.
type Options struct {
	TrustedProxies  []netip.Prefix  // whose ProxyHeader is believed; none by default
	ProxyHeader     ProxyHeader     // the one header field that the proxies write; X-Forwarded-For by default
	IPv6Prefix      int             // how many bits of an IPv6 address are the client, 32 to 128; 0 means 64
	TrustUnixSocket bool            // who calls over a Unix socket is a trusted proxy
	MaxBodyBytes    int64           // what expressions may read of a body; 0 means keyexpr.DefaultMaxBodyBytes
	Vars            bool            // the adapter hands over application values
	Skip            string          // a condition: a request for which it is true is no rule's concern
	Dialect         headers.Dialect // of the header fields
	ShowDryRun      bool            // tell what dry runs would have said in a header field of its own
	Unobserved      bool            // nobody reads Verdict.Outcomes, and they need not be kept
}

// config is what the options mean for expressions.
func (o Options) config() (keyexpr.Config, error) {
	if err := o.checkClientIP(); err != nil {
		return keyexpr.Config{}, err
	}
	return keyexpr.Config{
		ClientIP:     newClientIPResolver(o),
		MaxBodyBytes: o.MaxBodyBytes,
		Vars:         o.Vars,
	}, nil
}

// rule is a Rule with all that can be known before a request comes. The programs of what it does not declare
// are nil.
type rule struct {
	Rule
	name    string // logName
	shown   string // Outcome.Rule
	key     *keyexpr.Program
	plans   *plans
	when    *keyexpr.Condition
	cost    *keyexpr.Cost
	countIf *keyexpr.Condition
	resetIf *keyexpr.Condition

	readsBody     bool // what it claims depends on the body
	forgetDenials bool // other processes may refund or reset
}

// Compile checks rules, and returns what an adapter needs to apply them, or an error that names every fault.
func Compile(limiter *ratelimit.Limiter, options Options, rules ...Rule) (*Aspect, error) {
	config, err := options.config()
	if err != nil {
		return nil, fmt.Errorf("sash: %w", err)
	}
	return compile(limiter, options, config, rules)
}

// compile is Compile for any surroundings of the expressions.
func compile(limiter *ratelimit.Limiter, options Options, config keyexpr.Config, rules []Rule) (*Aspect, error) {
	if limiter == nil {
		return nil, errors.New("sash: there is no Limiter: make one with ratelimit.New")
	}
	if len(rules) == 0 {
		return nil, errors.New("sash: no rule is given, and the handler would be unlimited")
	}
	if options.Dialect < headers.Draft || options.Dialect > headers.None {
		return nil, fmt.Errorf("sash: there is no dialect %d of header fields: choose one of package headers", options.Dialect)
	}
	a := &Aspect{
		limiter: limiter, dialect: options.Dialect, showDryRun: options.ShowDryRun, unobserved: options.Unobserved,
		typed: config.Argument != nil,
	}
	var faults []error
	if options.Skip != "" {
		var err error
		if a.skip, err = keyexpr.CompileCondition(options.Skip, config); err != nil {
			faults = append(faults, fmt.Errorf("sash: Skip: %w", err))
		}
	}
	for i, declared := range rules {
		if err := a.add(declared, config); err != nil {
			faults = append(faults, fmt.Errorf("sash: rule %d, %q: %w", i+1, declared.label(), err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if err := a.declare(); err != nil {
		return nil, fmt.Errorf("sash: %w", err)
	}
	slices.SortStableFunc(a.rules, dryRunsLast)
	return a, nil
}

func dryRunsLast(r, s rule) int {
	switch {
	case r.DryRun == s.DryRun:
		return 0
	case r.DryRun:
		return 1
	}
	return -1
}

// add checks one more rule of the handler.
func (a *Aspect) add(declared Rule, config keyexpr.Config) error {
	r, err := compileRule(declared, config)
	if err != nil {
		return err
	}
	for _, other := range a.rules {
		if name := other.sharesPolicy(&r); name != "" {
			return fmt.Errorf("another rule of this handler has a policy named %q as well, and headers could not tell them apart: give it a Name of its own", name)
		}
	}
	a.rules = append(a.rules, r)
	a.watches = a.watches || r.countIf != nil || r.resetIf != nil
	live := func(readsBody bool) bool {
		return slices.ContainsFunc(a.rules, func(r rule) bool { return !r.DryRun && r.readsBody == readsBody })
	}
	a.mixed = live(true) && live(false)
	return nil
}

// sharesPolicy returns the name of a policy that both rules have and a response would show.
func (r *rule) sharesPolicy(other *rule) string {
	if r.DryRun != other.DryRun {
		return ""
	}
	for _, name := range r.plans.policyNames() {
		if slices.Contains(other.plans.policyNames(), name) {
			return name
		}
	}
	return ""
}

func compileRule(declared Rule, config keyexpr.Config) (rule, error) {
	declared.Limits = slices.Clone(declared.Limits)
	declared.Plans = maps.Clone(declared.Plans)
	for name, limits := range declared.Plans {
		declared.Plans[name] = slices.Clone(limits)
	}
	r := rule{Rule: declared, name: declared.logName(), shown: declared.label()}
	if r.DryRun {
		r.shown += " (dry run)"
	}
	var faults []error
	note := func(field string, err error) {
		if err != nil && field != "" {
			err = fmt.Errorf("%s: %w", field, err)
		}
		faults = append(faults, err)
	}
	unnamable := declared.checkName()
	note("", unnamable)
	var err error
	r.key, err = keyexpr.Compile(declared.KeyExpr, config)
	note("", err)
	if err := declared.checkLimits(); err != nil {
		note("", err)
	} else if unnamable == nil {
		r.plans, err = newPlans(declared, config)
		note("", err)
	}
	if declared.When != "" {
		r.when, err = keyexpr.CompileCondition(declared.When, config)
		note("When", err)
	}
	if declared.Cost != "" {
		r.cost, err = keyexpr.CompileCost(declared.Cost, config)
		note("Cost", err)
	}
	config.Response = true
	r.countIf, err = compileAfter(declared.CountIf, config)
	note("CountIf", err)
	r.resetIf, err = compileAfter(declared.ResetIf, config)
	note("ResetIf", err)
	if declared.OnFailure > ratelimit.FailLocal {
		note("OnFailure", fmt.Errorf("there is no Policy %d: choose one of package ratelimit", declared.OnFailure))
	}
	r.forgetDenials = declared.CountIf != "" || declared.ResetIf != ""
	if err := errors.Join(faults...); err != nil {
		return r, err
	}
	r.readsBody = r.dependsOnBody()
	return r, nil
}

// dependsOnBody is for a rule that has compiled.
func (r *rule) dependsOnBody() bool {
	reads := r.key.Reads()
	if r.when != nil {
		reads = append(reads, r.when.Reads()...)
	}
	if r.cost != nil {
		reads = append(reads, r.cost.Reads()...)
	}
	return readsBody(append(reads, r.plans.reads()...))
}

// compileAfter compiles a condition on the finished response, if there is one. By then the body is gone.
func compileAfter(expression string, config keyexpr.Config) (*keyexpr.Condition, error) {
	if expression == "" {
		return nil, nil
	}
	c, err := keyexpr.CompileCondition(expression, config)
	if err != nil {
		return nil, err
	}
	for _, read := range c.Reads() {
		if strings.HasPrefix(read, "body.") || strings.HasPrefix(read, "form.") {
			return nil, fmt.Errorf("it reads %s, but the handler has read the body by then: let the handler tell by a header of its response", read)
		}
	}
	return c, nil
}
