package sash

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
)

// Problem types that IANA registers for quotas.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// problem is a problem document (RFC 9457). Its title is constant for its type; what varies is in the detail.
type problem struct {
	Type     string   `json:"type,omitempty"` // absent: about:blank, and the title is that of the status
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// Answer writes the answer to a request that may not go on, as a problem document: 429 for a denial, else
// what Status says. Nothing of the request is repeated in it, and no error text of the server's.
func (v Verdict) Answer(w http.ResponseWriter) {
	p := v.problem()
	body, err := json.Marshal(p)
	if err != nil { // strings and an int: it cannot be
		http.Error(w, p.Title, p.Status)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	w.Write(body) // an error is the client's hanging up
}

// Status is the HTTP status for a Verdict's Err: 413 for a body over the cap, 400 for any other request that
// has no key, 503 if the Limiter is closed.
func Status(err error) int {
	keyError, ok := errors.AsType[*keyexpr.KeyError](err)
	switch {
	case ok && keyError.Problem == keyexpr.TooLarge:
		return http.StatusRequestEntityTooLarge
	case ok:
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func (v Verdict) problem() problem {
	if v.Err == nil {
		return problem{
			Type:     typeQuotaExceeded,
			Title:    "Request cannot be satisfied as assigned quota has been exceeded",
			Status:   http.StatusTooManyRequests,
			Detail:   v.detail(),
			Violated: v.Violated,
		}
	}
	p := problem{Status: Status(v.Err)}
	p.Title = http.StatusText(p.Status)
	if keyError, ok := errors.AsType[*keyexpr.KeyError](v.Err); ok {
		p.Detail = keyError.Detail()
	} else {
		p.Type, p.Title = typeReducedCapacity, "Request cannot be satisfied due to temporary server capacity constraints"
	}
	return p
}

// detail tells a denied client what to do.
func (v Verdict) detail() string {
	if v.Reason == ratelimit.TooCostly {
		return "The request costs more than the quota, and will never be allowed."
	}
	wait := seconds(v.RetryAfter)
	if wait == 1 {
		return "Try again in 1 second."
	}
	return "Try again in " + strconv.FormatInt(wait, 10) + " seconds."
}
