package ratelimit

import "time"

// Decision is the answer to one claim.
//
// Its durations are exact at the moment the store decided. A client that waits RetryAfter and is alone is
// allowed; one that waits a microsecond less is not.
type Decision struct {
	Allowed bool

	// Limit is the one that binds: of the limits that deny, the one with the longest wait; if none denies,
	// the one with the least left, and of several such the one that gives some back last.
	Limit Limit

	// Remaining is how many requests Limit would still allow right now, this one already counted.
	Remaining int

	// RetryAfter is the time until the same claim, at the same cost, would be allowed, if nobody else is
	// counted meanwhile. 0 if it is allowed, and if it never can be (Reason TooCostly). Of a request that FailedClosed
	// it is when to ask again.
	RetryAfter time.Duration

	// ResetAfter is the time until Remaining grows by at least one. 0 if nothing is counted.
	ResetAfter time.Duration

	Reason Reason

	// Ticket names the entries that this claim wrote. It is zero if it wrote none.
	Ticket Ticket

	// Counts are the requests that count under each limit of the claim, this one among them if it was counted. nil
	// unless the claim asks for them.
	Counts []int

	// Violated are the names of all that deny, where the limits were declared with names; else nil.
	Violated []string
}

// Binds reports whether d rather than other is the answer to a request that both of them concern: a denial
// before an allowance, of denials the longest wait (TooCostly the longest of all), else the one with the
// least left, and of several such the one that gives some back last.
func (d Decision) Binds(other Decision) bool {
	switch {
	case d.Allowed != other.Allowed:
		return !d.Allowed
	case d.Allowed && d.Remaining != other.Remaining:
		return d.Remaining < other.Remaining
	case d.Allowed:
		return d.ResetAfter > other.ResetAfter
	case d.Reason != other.Reason:
		return d.Reason == TooCostly
	}
	return d.RetryAfter > other.RetryAfter
}

// Reason says how a Decision came about.
type Reason uint8

const (
	Undecided       Reason = iota // the zero Decision
	Counted                       // allowed, and written to the log
	Looked                        // a claim of cost 0: answered as for cost 1, nothing written
	Withheld                      // this claim fits, but another of the same request does not: nothing written
	Unasked                       // another claim of the same request is denied without a question: nothing known of this one
	Exhausted                     // denied: the window is full
	CachedExhausted               // denied without a question: an earlier answer said that the window is full until later
	TooCostly                     // denied: the cost is above MaxRequests, and no waiting helps
	FailedOpen                    // the store could not answer in time: allowed, nothing known
	FailedClosed                  // the store could not answer in time: denied, nothing known
	FailedLocal                   // the store could not answer in time: this process has decided alone
	Skipped                       // no rule applies: allowed, nothing counted
	Shadowed                      // a dry run: allowed whatever it would have been, see Rule.DryRun in package sash
	reasons                       // how many there are
)

var reasonNames = [reasons]string{
	"undecided", "counted", "looked", "withheld", "unasked", "exhausted", "cached exhausted", "too costly",
	"failed open", "failed closed", "failed local", "skipped", "shadowed",
}

// Known reports whether a Decision of this Reason tells the state of its quota: Remaining and ResetAfter.
func (r Reason) Known() bool {
	switch r {
	case Undecided, Unasked, FailedOpen, FailedClosed, Skipped:
		return false
	}
	return true
}

// String gives the reason in lower-case words.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}
