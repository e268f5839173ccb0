package sash

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// The header fields, as net/http writes them.
const (
	fieldLimit      = "Ratelimit"
	fieldPolicy     = "Ratelimit-Policy"
	fieldRetryAfter = "Retry-After"
	fieldCache      = "Cache-Control"
)

// setFields describes decisions in the terms of draft-ietf-httpapi-ratelimit-headers-11.
func (a *Aspect) setFields(header http.Header, v Verdict, decisions []ratelimit.Decision) {
	appendList(header, fieldPolicy, a.policy)
	appendList(header, fieldLimit, a.limitField(decisions))
	if v.Allowed {
		return
	}
	if v.RetryAfter > 0 { // a request that can never fit is promised nothing
		header.Set(fieldRetryAfter, strconv.FormatInt(seconds(v.RetryAfter), 10)) // RFC 9110, section 10.2.3
	}
	header.Set(fieldCache, "no-store") // RFC 6585, section 4: a 429 must not be cached
}

// policyField lists every limit of every rule: "name";q=3;w=60.
func policyField(rules []rule) string {
	var items []string
	for _, r := range rules {
		for i, l := range r.Limits {
			item := r.policies[i].quoted + ";q=" + strconv.Itoa(l.MaxRequests)
			if l.Window%time.Second == 0 { // w is whole seconds, and may be left out
				item += ";w=" + strconv.FormatInt(int64(l.Window/time.Second), 10)
			}
			items = append(items, item)
		}
	}
	return strings.Join(items, ", ")
}

// limitField lists for every rule what its binding limit has left, and when that grows: "name";r=2;t=57.
func (a *Aspect) limitField(decisions []ratelimit.Decision) string {
	var field []byte
	for i, d := range decisions {
		if d.Reason == ratelimit.FailedOpen {
			continue // nothing is known
		}
		if len(field) > 0 {
			field = append(field, ", "...)
		}
		field = append(field, a.rules[i].policy(d.Limit).quoted...)
		field = append(field, ";r="...)
		field = strconv.AppendInt(field, int64(d.Remaining), 10)
		if d.ResetAfter > 0 {
			field = append(field, ";t="...)
			field = strconv.AppendInt(field, seconds(d.ResetAfter), 10)
		}
	}
	return string(field)
}

// policy is how headers and problem documents call one limit of a rule.
type policy struct {
	name   string
	quoted string // as a Structured-Field String
}

// policies names each limit of a rule. A rule of several needs a name for each: its own and the window.
func policies(r Rule) []policy {
	list := make([]policy, len(r.Limits))
	for i, l := range r.Limits {
		name := r.label()
		if len(r.Limits) > 1 {
			name += "-" + windowName(l.Window)
		}
		list[i] = policy{name, quote(name)}
	}
	return list
}

func windowName(window time.Duration) string {
	if window%time.Second == 0 {
		return strconv.FormatInt(int64(window/time.Second), 10) + "s"
	}
	return window.String()
}

// policy returns that of one of the rule's limits.
func (r *rule) policy(l ratelimit.Limit) policy { return r.policies[slices.Index(r.Limits, l)] }

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quote writes s, which is printable ASCII, as a Structured-Field String (RFC 9651, section 4.1.6).
func quote(s string) string { return `"` + quoter.Replace(s) + `"` }

// appendList adds items to a list field, which rules further out may have begun.
func appendList(header http.Header, field, items string) {
	switch before := header[field]; {
	case items == "":
	case len(before) == 0:
		header[field] = []string{items}
	default:
		header[field] = []string{strings.Join(before, ", ") + ", " + items}
	}
}

// seconds rounds up to whole seconds, so that nobody is sent back too early.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
