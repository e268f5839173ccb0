package sash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// Rule is a declared limit. It is pure data, and is checked when an adapter compiles it.
//
// What is declared as text is an expression; package keyexpr lists the names that it sees.
type Rule struct {
	// Name is the rule's name in keys, headers and errors. Clients see it. At most 128 printable ASCII
	// characters, no slash.
	//
	// A named rule has one quota for each key, wherever it is mounted; on one Limiter a name belongs to one
	// set of limits. Without a name a rule belongs to its route: mounted on two routes it has two quotas, and
	// headers show it under its key expression. Its keys hold its limits too, so that a deployment that changes
	// them begins new logs; those of a named rule go on. In Gin and chi the methods of one path are one route.
	Name string

	// KeyExpr is the key expression: what requests are counted by.
	KeyExpr string

	// Limits hold together: a request must fit under every one. At least one, and each of another Window.
	// They count one log, and cost no more round trips than one limit.
	Limits []ratelimit.Limit

	// LimitsBy is an expression that chooses the limits of a request, by the plan of its user for example.
	// It yields one of the names in Plans, which then takes the place of Limits:
	//
	//	LimitsBy: `vars.user.plan == "pro" ? "pro" : "free"`,
	//	Plans:    map[string][]ratelimit.Limit{"free": …, "pro": …},
	//
	// A key has one log under all plans. A change of plan counts what is in it.
	LimitsBy string
	Plans    map[string][]ratelimit.Limit

	// LimitsFunc tells the limits for what LimitsBy yields, in the place of Plans: from a database for example.
	// It is called for every request, and should answer from memory. Its error, or limits that are no limits, make
	// a request that could not be decided: 503. Keep is the longest Window that it will ever tell.
	LimitsFunc func(ctx context.Context, choice string) ([]ratelimit.Limit, error)
	Keep       time.Duration

	// When is a condition: a request for which it is false is none of the rule's concern. "" means always.
	When string

	// Cost is how many requests a request counts for: an expression that yields a whole number, 0 or more. 0
	// only looks. "" means 1.
	Cost string

	// CountIf is a condition on the finished response, which it sees as response.status and
	// response.header("X"), beside the request but for its body, which the handler has read: a request for which it
	// is false is refunded, exactly its own entries. Until the handler has returned it is counted. A handler that
	// panics before it has answered is a 500. "" means that every allowed request counts. It costs a round trip
	// where it refunds.
	CountIf string

	// ResetIf is a condition on the finished response as well: where it is true, everything counted for the key
	// is forgotten. Where one route has several methods, name the one that proves something:
	// request.method == "POST" && response.status == 200. "" means never. It costs a round trip where it resets.
	ResetIf string

	// DryRun lets the rule decide, count and report without ever denying. It shares no quota with a live rule,
	// not even one of the same name, and costs a round trip of its own.
	DryRun bool

	// OnFailure is what becomes of a request that the store cannot decide: ratelimit.FailOpen, FailClosed or FailLocal.
	// ratelimit.Inherit, the default, leaves it to the Limiter. Of several rules on a handler one that fails closed
	// denies the request; what another decides in this process is decided only if none does.
	OnFailure ratelimit.Policy

	// AskAlways remembers nothing of the rule's keys in this process: for those whose requests are refunded by other
	// processes than the one that allowed them. See ratelimit.Config. CountIf and ResetIf need it not.
	AskAlways bool
}

// SlidingWindowLimit is the rule that at most maxRequests requests of one key are allowed in any interval of
// length window.
func SlidingWindowLimit(keyExpr string, window time.Duration, maxRequests int) Rule {
	return Rule{KeyExpr: keyExpr, Limits: []ratelimit.Limit{{MaxRequests: maxRequests, Window: window}}}
}

// label is what headers and errors call the rule.
func (r Rule) label() string {
	if r.Name != "" {
		return r.Name
	}
	return strings.Join(strings.Fields(r.KeyExpr), " ")
}

// logName is the rule part of a key, but for the route: an unnamed rule is told apart by all that it says.
func (r Rule) logName() string {
	name := r.Name
	if name == "" {
		name = r.label()
		for _, l := range r.Limits {
			name += "-" + l.String()
		}
		if r.LimitsBy != "" {
			name += "-/" + r.LimitsBy
		}
		// There is a slash in it now, which no Name has: the two kinds cannot meet.
	}
	if r.DryRun {
		name += "/dry run"
	}
	return name
}

// checkLimits reports what is wrong with the limits, or nil.
func (r Rule) checkLimits() error {
	switch {
	case r.LimitsFunc == nil && r.Keep != 0:
		return errors.New("the field Keep is for LimitsFunc: what is declared beside it tells by itself how long to remember")
	case r.LimitsBy == "" && (r.Plans != nil || r.LimitsFunc != nil):
		return errors.New("the Plans and LimitsFunc need LimitsBy, the expression that chooses among them")
	case r.LimitsBy == "":
		return checkLimits(r.Limits)
	case r.Limits != nil:
		return errors.New("the Limits and LimitsBy exclude each other: make the Limits a plan")
	case (r.Plans == nil) == (r.LimitsFunc == nil):
		return errors.New("LimitsBy needs either Plans or LimitsFunc to choose from")
	case r.LimitsFunc != nil && (r.Keep < ratelimit.MinWindow || r.Keep > ratelimit.MaxWindow):
		return fmt.Errorf("LimitsFunc needs Keep, the longest Window that it will ever tell: it is %v, want %v to %v",
			r.Keep, ratelimit.MinWindow, ratelimit.MaxWindow)
	}
	var faults []error
	for _, plan := range slices.Sorted(maps.Keys(r.Plans)) {
		if err := checkLimits(r.Plans[plan]); err != nil {
			faults = append(faults, fmt.Errorf("plan %q: %w", plan, err))
		}
	}
	return errors.Join(faults...)
}

func checkLimits(limits []ratelimit.Limit) error {
	windows := make(map[time.Duration]bool)
	for _, l := range limits {
		if windows[l.Window] {
			return fmt.Errorf("two of its limits have the Window %v, and only the smaller could ever bind: keep that one", l.Window)
		}
		windows[l.Window] = true
	}
	return ratelimit.ValidateLimits(limits)
}

// checkName reports why the rule's label cannot be a policy name.
func (r Rule) checkName() error {
	_, err := newPolicies(r.label(), []ratelimit.Limit{{MaxRequests: 1, Window: time.Second}})
	switch {
	case strings.Contains(r.Name, "/"):
		return errors.New("a Name must not contain a slash, which sets apart the keys of rules without one")
	case err == nil:
		return nil
	case r.Name != "":
		return fmt.Errorf("the Name goes into headers: %w", err)
	}
	return fmt.Errorf("its key expression cannot stand for it in headers, give it a Name: %w", err)
}
