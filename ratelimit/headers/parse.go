package headers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// MaxField is how many bytes of a field are read. It is room for fifty policies with the longest names.
const MaxField = 16 << 10

// Report is what a response tells about the quota of a client.
type Report struct {
	// Dialect is that of the fields, None if there are none.
	Dialect Dialect

	// Policies and Limits are in the order of the fields: as Set writes them, the tightest first.
	Policies []PolicyItem
	Limits   []LimitItem

	// RetryAfter is how long to wait before trying again, 0 if the response does not say.
	RetryAfter time.Duration
}

// PolicyItem is a policy that a server follows.
type PolicyItem struct {
	Name         string        // "" but in Draft
	Quota        int64         // q: how much is allowed within Window
	Window       time.Duration // w, 0 if it is not told
	Unit         string        // qu: what is counted, "" for requests
	PartitionKey []byte        // pk: whose quota it is
}

// LimitItem is what is left under a policy.
type LimitItem struct {
	Name         string        // of the policy; "" but in Draft
	Remaining    int64         // r
	ResetAfter   time.Duration // t: for so long there is no more than Remaining; 0 if it is not told
	PartitionKey []byte        // pk
}

// Wait is how long to wait before the next request. RetryAfter takes precedence (draft 11, section 7). Else it
// is until every limit of which nothing remains gives something back. 0 means that the client may go on.
// It is what the server says, be it years: a client that does not trust it sets a bound of its own.
func (r Report) Wait() time.Duration {
	if r.RetryAfter > 0 {
		return r.RetryAfter
	}
	var wait time.Duration
	for _, l := range r.Limits {
		if l.Remaining == 0 {
			wait = max(wait, l.ResetAfter)
		}
	}
	return wait
}

// Parse reads the fields of a response, in whichever dialect they are; of several the newest. Parameters that
// it does not know are ignored, as the draft asks; a value of the wrong type is an error.
//
// The error names every field that is malformed. Those fields are left out of the Report, and the rest is
// there: a client that must go on may ignore the error, but not RetryAfter.
//
// Fields of a response that comes out of a cache are of no use (draft 11, section 7.3).
//
// A Retry-After that is a date, and an X-RateLimit-Reset that is a Unix time (anything from 10^9), are counted
// from the response's own Date, and so by no other clock than the server's.
func Parse(h http.Header) (Report, error) {
	p := parser{header: h, report: Report{Dialect: dialectOf(h)}}
	switch p.report.Dialect {
	case Draft:
		p.report.Policies = parseList(&p, fieldPolicy, draftPolicy)
		p.report.Limits = parseList(&p, fieldLimit, draftLimit)
	case Draft6:
		p.report.Policies = parseList(&p, fieldPolicy, draft6Policy)
		p.numbers(&numbers6)
	case XRateLimit:
		p.numbers(&numbersX)
	}
	p.retryAfter()
	return p.report, errors.Join(p.faults...)
}

func dialectOf(h http.Header) Dialect {
	has := func(f string) bool { return len(h[f]) > 0 }
	switch {
	case has(fieldLimit):
		return Draft
	case has(numbers6.limit), has(numbers6.remaining), has(numbers6.reset):
		return Draft6
	case has(fieldPolicy) && strings.HasPrefix(strings.TrimLeft(h[fieldPolicy][0], " "), `"`):
		return Draft
	case has(fieldPolicy):
		return Draft6
	case has(numbersX.limit), has(numbersX.remaining), has(numbersX.reset):
		return XRateLimit
	}
	return None
}

// parser collects a Report and everything that is wrong with it.
type parser struct {
	header http.Header
	report Report
	faults []error
}

func (p *parser) fault(field string, err error) {
	p.faults = append(p.faults, fmt.Errorf("headers: parse: %s: %w", wireNames[field], err))
}

// wireNames are the fields as documents write them.
var wireNames = map[string]string{
	fieldPolicy:        "RateLimit-Policy",
	fieldLimit:         "RateLimit",
	numbers6.limit:     "RateLimit-Limit",
	numbers6.remaining: "RateLimit-Remaining",
	numbers6.reset:     "RateLimit-Reset",
	numbersX.limit:     "X-RateLimit-Limit",
	numbersX.remaining: "X-RateLimit-Remaining",
	numbersX.reset:     "X-RateLimit-Reset",
	fieldRetryAfter:    "Retry-After",
}

// numbers reads the fields of a dialect with three numbers.
func (p *parser) numbers(fields *numberFields) {
	limit, hasLimit := p.number(fields.limit)
	left, hasLeft := p.number(fields.remaining)
	reset, hasReset := p.number(fields.reset)
	if hasLimit && len(p.report.Policies) == 0 {
		p.report.Policies = []PolicyItem{{Quota: limit}}
	}
	if !hasLeft {
		return
	}
	item := LimitItem{Remaining: left}
	switch {
	case hasReset && fields == &numbersX && reset >= epoch:
		item.ResetAfter = p.untilUnix(fields.reset, reset)
	case hasReset:
		item.ResetAfter = duration(reset)
	}
	p.report.Limits = []LimitItem{item}
}

// number reads one number, if it is there and well-formed.
func (p *parser) number(field string) (n int64, found bool) {
	n, err := readNumber(p.header, field)
	if err != nil && err != errAbsent {
		p.fault(field, err)
	}
	return n, err == nil
}

// retryAfter reads Retry-After: seconds, or a date (RFC 9110, section 10.2.3).
func (p *parser) retryAfter() {
	values := p.header[fieldRetryAfter]
	if len(values) == 1 {
		if at, err := http.ParseTime(values[0]); err == nil {
			p.report.RetryAfter = p.until(fieldRetryAfter, at)
			return
		}
	}
	n, err := readNumber(p.header, fieldRetryAfter)
	switch {
	case err == nil:
		p.report.RetryAfter = duration(n)
	case err != errAbsent:
		p.fault(fieldRetryAfter, fmt.Errorf("%w, or a date", err))
	}
}

// untilUnix is until for a Unix time in seconds.
func (p *parser) untilUnix(field string, at int64) time.Duration {
	if at >= 100*epoch { // in the year 5138
		p.fault(field, fmt.Errorf("%d is neither seconds from now nor a Unix time in seconds", at))
		return 0
	}
	return p.until(field, time.Unix(at, 0))
}

// until is how long after the response's Date a point in time is.
func (p *parser) until(field string, at time.Time) time.Duration {
	date, err := http.ParseTime(p.header.Get(fieldDate))
	if err != nil {
		p.fault(field, errors.New("it is a point in time, and the response has no Date to count from"))
		return 0
	}
	return max(at.Sub(date), 0)
}

// parseList reads the items of a list field, all or none.
func parseList[T any](p *parser, field string, parse func(httpsfv.Item) (T, error)) []T {
	list, err := readList(p.header, field, parse)
	if err != nil {
		p.fault(field, err)
	}
	var items []T
	for _, l := range list {
		items = append(items, l.value)
	}
	return items
}
