// Package headers tells clients about their quota, in the header fields of an HTTP response, and reads such
// fields again.
//
// It speaks the current IETF draft and the two older ways that clients know. However many levels of
// middleware limit a request, its response carries one set of fields: Set merges what it has to say with what
// is there. An outer field that is malformed, or longer than MaxField, is replaced: a client would have to ignore
// it, and what we add to it as well (RFC 9651, section 4.2).
// Given up are fractions of a second: every duration is rounded up, so that nobody is sent back too early.
//
//	policy, err := headers.NewPolicy("login", limit) // once, where the limit is declared
//	if err != nil {
//		return err
//	}
//	policies := []headers.Policy{policy}
//	// for every request:
//	headers.Draft.Set(w.Header(), headers.Quota{Policies: policies, Decision: decision, Known: true})
//	if !decision.Allowed {
//		headers.RetryAfter(w.Header(), decision.RetryAfter)
//		w.WriteHeader(http.StatusTooManyRequests)
//	}
//
// It knows the decisions of package ratelimit, and no framework, store or rule.
package headers

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Dialect is a way to tell a client about its quota.
type Dialect int

const (
	// Draft is draft-ietf-httpapi-ratelimit-headers-11, the default: RateLimit-Policy lists every policy,
	// RateLimit what the binding ones have left.
	//
	//	RateLimit-Policy: "login";q=3;w=60
	//	RateLimit: "login";r=2;t=57
	Draft Dialect = iota

	// Draft6 is draft-ietf-httpapi-ratelimit-headers-06, which has room for one limit, that of the tightest
	// policy, and lists policies without their names. A policy whose window is not whole seconds cannot be
	// listed, for w is required there.
	//
	//	RateLimit-Limit: 3
	//	RateLimit-Remaining: 2
	//	RateLimit-Reset: 57
	//	RateLimit-Policy: 3;w=60
	Draft6

	// XRateLimit is what many servers sent before there was a draft, and no document defines. Reset is in
	// seconds from now, as in Draft6: half of those servers send a point in time instead, but a client whose
	// clock is wrong misreads that, and all that read the same one come back at once (draft 06, section 3.4).
	//
	//	X-RateLimit-Limit: 3
	//	X-RateLimit-Remaining: 2
	//	X-RateLimit-Reset: 57
	XRateLimit

	// None sets no such fields. A denial still has its Retry-After.
	None
)

var dialectNames = [...]string{"draft 11", "draft 06", "X-RateLimit", "none"}

// String gives the dialect a name for people.
func (d Dialect) String() string {
	if d < 0 || int(d) >= len(dialectNames) {
		return "unknown"
	}
	return dialectNames[d]
}

// The fields, as net/http writes them.
const (
	fieldPolicy     = "Ratelimit-Policy"
	fieldLimit      = "Ratelimit"
	fieldRetryAfter = "Retry-After"
	fieldCache      = "Cache-Control"
	fieldDate       = "Date"
)

// Set writes the fields of the dialect for the quotas of one request, in the order of their declaration. The
// tightest leads: the one whose Decision binds. What middleware further out has set in the same dialect is
// merged in. Draft lists both levels; the other dialects keep the tighter one's numbers. A policy that both
// levels list in the same words is one policy, and has one item in RateLimit, the tighter.
//
// It never fails. A Quota that is not Known appears among the policies only; one without Policies not at all.
//
// What is always the same, and what RateLimit says of an exhausted quota, responses have in common: nobody may write to a value
// that is there already (Header.Set and Add do not).
func (d Dialect) Set(h http.Header, quotas ...Quota) {
	var space [8]int
	l := level{quotas, tightestFirst(space[:0], quotas)}
	switch d {
	case Draft:
		l.setDraft(h)
	case Draft6:
		l.setPolicies6(h, l.setNumbers(h, &numbers6))
	case XRateLimit:
		l.setNumbers(h, &numbersX)
	}
}

// RetryAfter sets the fields that a denial has in every dialect: Retry-After in seconds, rounded up and at
// least 1 (RFC 9110, section 10.2.3), and Cache-Control, for a 429 must not be stored (RFC 6585, section 4).
// If after is 0 no waiting helps, and there is no Retry-After.
func RetryAfter(h http.Header, after time.Duration) {
	h[fieldCache] = noStore
	if after > 0 {
		h[fieldRetryAfter] = waitValue(Seconds(after))
	}
}

// Values that responses have in common. They are never changed.
var (
	noStore = []string{"no-store"}
	waits   = func() (values [300][]string) {
		for seconds := range values {
			values[seconds] = []string{strconv.Itoa(seconds)}
		}
		return values
	}()
)

func waitValue(seconds int64) []string {
	if seconds < int64(len(waits)) {
		return waits[seconds]
	}
	return []string{strconv.FormatInt(seconds, 10)}
}

// Seconds is how the fields say a duration: in whole seconds, rounded up, so that nobody is sent back too early.
func Seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return max(whole, 0)
}

// level is what one call of Set has to say.
type level struct {
	quotas []Quota
	known  []int // the quotas of which something is known, by index, the tightest first
}

// tightest is the quota that leads, nil if nothing is known.
func (l level) tightest() *Quota {
	if len(l.known) == 0 {
		return nil
	}
	return &l.quotas[l.known[0]]
}

// tightestFirst appends the level's known to dst. They are no pointers: a caller's quotas stay on its stack.
func tightestFirst(dst []int, quotas []Quota) []int {
	for i := range quotas {
		if quotas[i].known() {
			dst = append(dst, i)
		}
	}
	if len(dst) < 2 {
		return dst
	}
	slices.SortStableFunc(dst, func(i, j int) int {
		a, b := &quotas[i].Decision, &quotas[j].Decision
		switch {
		case a.Binds(*b):
			return -1
		case b.Binds(*a):
			return 1
		}
		return 0
	})
	return dst
}
