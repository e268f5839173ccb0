package sash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// plan is limits that hold together, and how headers call each.
type plan struct {
	limits   []ratelimit.Limit
	policies []headers.Policy
	answers  []*answer // to a request that one of the policies denies; none if a function has told the limits
}

// answer is what the policy at an index denies with, nil if it has not been written.
func (p *plan) answer(at int) *answer {
	if at >= len(p.answers) {
		return nil
	}
	return p.answers[at]
}

// plans is where a rule gets the limits of a request from.
type plans struct {
	label string
	keep  time.Duration // the longest Window of all

	// One of three: always the same, one of those that are named, or what a function tells.
	fixed  *plan
	choice *keyexpr.Choice
	named  map[string]*plan
	asked  *keyexpr.Program
	tell   func(ctx context.Context, choice string) ([]ratelimit.Limit, error)
}

// newPlans prepares everything that does not depend on the request. The rule's limits have been checked.
func newPlans(r Rule, config keyexpr.Config) (*plans, error) {
	p := &plans{tell: r.LimitsFunc, label: r.label(), keep: r.Keep}
	var err error
	switch {
	case r.LimitsBy == "":
		p.fixed, err = p.plan(r.Limits)
	case r.LimitsFunc != nil:
		p.asked, err = keyexpr.Compile(r.LimitsBy, config)
	default:
		err = p.name(r, config)
	}
	if err != nil && r.LimitsBy != "" {
		err = fmt.Errorf("LimitsBy: %w", err)
	}
	return p, err
}

// name prepares the Plans.
func (p *plans) name(r Rule, config keyexpr.Config) error {
	var choices []string
	p.named = make(map[string]*plan)
	for name, limits := range r.Plans {
		choices = append(choices, name)
		plan, err := p.plan(limits)
		if err != nil {
			return err
		}
		p.named[name] = plan
	}
	slices.Sort(choices) // errors list them
	var err error
	p.choice, err = keyexpr.CompileChoice(r.LimitsBy, choices, config)
	return err
}

func (p *plans) plan(limits []ratelimit.Limit) (*plan, error) {
	for _, l := range limits {
		p.keep = max(p.keep, l.Window)
	}
	policies, err := newPolicies(p.label, limits)
	if err != nil {
		return nil, err
	}
	answers := make([]*answer, len(policies))
	for i := range policies {
		if answers[i], err = newAnswer(policies[i].Name()); err != nil {
			return nil, err
		}
	}
	return &plan{limits, policies, answers}, nil
}

// policyNames are those that are known before a request comes, and in any case the rule's label.
func (p *plans) policyNames() []string {
	names := []string{p.label}
	for _, plan := range append(slices.Collect(maps.Values(p.named)), p.fixed) {
		if plan == nil {
			continue
		}
		for _, policy := range plan.policies {
			names = append(names, policy.Name())
		}
	}
	return names
}

// reads are the parts of a request on which the limits depend.
func (p *plans) reads() []string {
	switch {
	case p.choice != nil:
		return p.choice.Reads()
	case p.asked != nil:
		return p.asked.Reads()
	}
	return nil
}

// of returns the limits of one request.
func (p *plans) of(ctx context.Context, src keyexpr.Source) (*plan, error) {
	if p.fixed != nil {
		return p.fixed, nil
	}
	if p.choice != nil {
		choice, err := p.choice.Of(src)
		return p.named[choice], err
	}
	asked, err := p.asked.Key(src, nil)
	if err != nil {
		return nil, err
	}
	limits, err := p.tell(ctx, strings.Join(asked, ","))
	if err == nil {
		err = p.check(limits)
	}
	if err != nil {
		return nil, fmt.Errorf("sash: rule %q: LimitsFunc: %w", p.label, err)
	}
	policies, err := newPolicies(p.label, limits)
	return &plan{limits: limits, policies: policies}, err
}

// check is for limits that a function has told.
func (p *plans) check(limits []ratelimit.Limit) error {
	for _, l := range limits {
		if l.Window > p.keep {
			return fmt.Errorf("the Window %v is longer than Keep, %v, and what has been forgotten cannot be counted", l.Window, p.keep)
		}
	}
	return checkLimits(limits)
}

// newPolicies names each of limits. A rule of several needs a name for each: its own and the window.
func newPolicies(label string, limits []ratelimit.Limit) ([]headers.Policy, error) {
	policies := make([]headers.Policy, len(limits))
	for i, l := range limits {
		name := label
		if len(limits) > 1 {
			name += "-" + windowName(l.Window)
		}
		var err error
		if policies[i], err = headers.NewPolicy(name, l); err != nil {
			return nil, err
		}
	}
	return policies, nil
}

func windowName(window time.Duration) string {
	if window%time.Second == 0 {
		return strconv.FormatInt(int64(window/time.Second), 10) + "s"
	}
	return window.String()
}
