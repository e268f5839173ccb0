package oracle

import (
	"fmt"
	"strings"
	"time"
)

// Verdict says whether the allowed requests obey the law.
type Verdict int

const (
	Unknown  Verdict = iota // not decided: to a test this is a failure
	Lawful                  // there are instants that obey the law
	Violated                // there are none
)

func (v Verdict) String() string {
	switch v {
	case Lawful:
		return "lawful"
	case Violated:
		return "violated"
	default:
		return "unknown"
	}
}

// Report is the oracle's answer about one history.
type Report struct {
	History History
	Limit   int
	Window  time.Duration

	Verdict Verdict
	Proof   string // why, in words and numbers that can be checked by hand

	// Instants is the proof that a history is Lawful: Instants[i] is when
	// Allowed[i] may have been decided.
	Instants []time.Duration

	// Most is how many allowed requests some interval shorter than a window
	// must have held. Above Limit it proves a violation.
	Most int

	FalseDenials []FalseDenial
}

// FalseDenial is a denied request that no instant of its interval excuses.
type FalseDenial struct {
	Interval
	ID     int // its place in History.Denied
	AtMost int // allowed or doubtful requests that can have been counted against it, fewer than Limit
}

// OK reports whether the limiter is acquitted: lawful, and no denial was false.
func (r Report) OK() bool { return r.Verdict == Lawful && len(r.FalseDenials) == 0 }

// String is the report as a failed test prints it.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d per %v; %d allowed, %d denied, %d doubtful; at most %d allowed for certain in one window\n",
		r.Verdict, r.Limit, r.Window, len(r.History.Allowed), len(r.History.Denied), len(r.History.Doubtful), r.Most)
	fmt.Fprintln(&b, r.Proof)
	if n := len(r.FalseDenials); n > 0 {
		fmt.Fprintf(&b, "%d denials are false:\n", n)
	}
	for i, d := range r.FalseDenials {
		if i == listed {
			fmt.Fprintf(&b, "  … and %d more\n", len(r.FalseDenials)-listed)
			break
		}
		fmt.Fprintf(&b, "  denial %d %v: at most %d of %d could be counted\n", d.ID, d.Interval, d.AtMost, r.Limit)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// listed is how many requests a report names one by one.
const listed = 12

// list names the grants, the first few of them.
func list(b *strings.Builder, gs []grant) {
	for i, g := range gs {
		if i == listed {
			fmt.Fprintf(b, "\n  … and %d more", len(gs)-listed)
			return
		}
		fmt.Fprintf(b, "\n  request %d %v", g.id, g.Interval)
	}
}
