package sash

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// Rule is a declared limit. It is pure data, and is checked when an adapter compiles it.
type Rule struct {
	// Name is the rule's name in keys, headers and errors. Clients see it. At most 128 printable ASCII
	// characters.
	//
	// A named rule has one quota for each key, wherever it is mounted; on one Limiter a name belongs to one
	// set of limits. Without a name a rule belongs to its route: mounted on two routes it has two quotas, and
	// headers show it under its key expression.
	Name string

	// KeyExpr is the key expression: what requests are counted by. Package keyexpr lists the names it sees.
	KeyExpr string

	// Limits hold together: a request must fit under every one. At least one, and each of another Window.
	Limits []ratelimit.Limit
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
	if r.Name != "" {
		return r.Name
	}
	name := r.label()
	for _, l := range r.Limits {
		name += "-" + l.String()
	}
	return name
}

// checkLimits reports what is wrong with the limits, or nil.
func (r Rule) checkLimits() error {
	windows := make(map[time.Duration]bool)
	for _, l := range r.Limits {
		if windows[l.Window] {
			return fmt.Errorf("two of its limits have the Window %v, and only the smaller could ever bind: keep that one", l.Window)
		}
		windows[l.Window] = true
	}
	return ratelimit.ValidateLimits(r.Limits)
}

const maxName = 128

// checkName reports why the rule's label cannot be a policy name: a Structured-Field String holds printable
// ASCII alone (RFC 9651, section 3.3.3).
func (r Rule) checkName() error {
	label := r.label()
	printable := strings.IndexFunc(label, func(c rune) bool { return c < ' ' || c > '~' }) < 0
	switch {
	case printable && len(label) <= maxName:
		return nil
	case r.Name != "":
		return fmt.Errorf("the Name must be at most %d printable ASCII characters, for it goes into headers", maxName)
	default:
		return errors.New("its key expression is too long, or not ASCII, to stand for it in headers: give it a Name")
	}
}
