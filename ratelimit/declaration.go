package ratelimit

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
)

// Declaration describes a rule that was declared on a Limiter. It is what a listing shows.
type Declaration struct {
	Name    string   // "" if the rule has none and belongs to its route
	Label   string   // what headers call it
	KeyExpr string   // what requests are counted by
	Reads   []string // what the key expression reads of a request

	Limits []Limit            // nil if Plans has them, or a function tells them for each request
	Plans  map[string][]Limit // by plan

	DryRun   bool
	Declared string   // file:line
	Routes   []string // on which requests have come so far, sorted; "" stands for none known
}

type declared struct {
	Declaration
	routes func() []string
}

// Declare takes rules into the listing, all of them or none. It is an error to declare a name a second time with other
// limits: on the logs of one key, Key(name, …), two rules would trim and count each other's entries.
//
// routes tells the Routes of the declarations, each time that Rules is called; it may be nil.
func (l *Limiter) Declare(routes func() []string, declarations ...Declaration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clip(l.declared)
	for _, d := range declarations {
		same := func(other declared) bool { return d.Name != "" && other.Name == d.Name && other.DryRun == d.DryRun }
		if first := slices.IndexFunc(all, same); first >= 0 && !d.sameLimits(all[first].Declaration) {
			return fmt.Errorf("%w rule %q: it is already declared on this Limiter with %s, at %s, here with %s: give one of them another name",
				ErrInvalid, d.Name, all[first].limits(), all[first].Declared, d.limits())
		}
		all = append(all, declared{d.clone(), routes})
	}
	l.declared = all
	return nil
}

// Rules lists what was declared on this Limiter, in order.
func (l *Limiter) Rules() []Declaration {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Declaration, len(l.declared))
	for i, d := range l.declared {
		list[i] = d.Declaration.clone()
		if d.routes != nil {
			list[i].Routes = d.routes()
		}
	}
	return list
}

// Logger returns the Config's Logger, or one that discards, for warnings about declarations.
func (l *Limiter) Logger() *slog.Logger { return l.config.Logger }

func (d Declaration) clone() Declaration {
	d.Reads, d.Limits, d.Plans = slices.Clone(d.Reads), slices.Clone(d.Limits), maps.Clone(d.Plans)
	for name, limits := range d.Plans {
		d.Plans[name] = slices.Clone(limits)
	}
	return d
}

func (d Declaration) sameLimits(other Declaration) bool {
	return sameLimits(d.Limits, other.Limits) && maps.EqualFunc(d.Plans, other.Plans, sameLimits)
}

// sameLimits does not mind their order.
func sameLimits(a, b []Limit) bool {
	byWindow := func(a, b Limit) int {
		return cmp.Or(cmp.Compare(a.Window, b.Window), cmp.Compare(a.MaxRequests, b.MaxRequests))
	}
	return slices.Equal(slices.SortedFunc(slices.Values(a), byWindow), slices.SortedFunc(slices.Values(b), byWindow))
}

// limits tells the limits in words.
func (d Declaration) limits() string {
	switch {
	case d.Plans != nil:
		return fmt.Sprintf("the plans %v", d.Plans)
	case d.Limits == nil:
		return "limits that a function tells"
	}
	return fmt.Sprintf("the limits %v", d.Limits)
}
