package sash

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
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
	if v.answer.fits(&v) {
		v.answer.write(w, headers.Seconds(v.RetryAfter))
		return
	}
	v.problem().write(w)
}

// WritePlain writes {"code":429,"message":"…","data":null}, the envelope of many an API, with code as the status.
func WritePlain(w http.ResponseWriter, code int, message string) {
	body, err := json.Marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{code, message, nil})
	if err != nil { // an int, a string and null: it cannot be
		http.Error(w, message, code)
		return
	}
	write(w, code, plainType, body)
}

// WriteReply writes what a typed handler returned: out as JSON with 200, or what WriteError writes for err.
func WriteReply(w http.ResponseWriter, out any, err error) {
	var body []byte
	if err == nil {
		body, err = json.Marshal(out)
	}
	if err != nil {
		WriteError(w, err)
		return
	}
	write(w, http.StatusOK, plainType, body)
}

// WriteError answers for a typed handler that returned err: with the status that err, or one that it wraps, tells by
// a method StatusCode() int, if it is 400 or more, else with 500. A *DeniedError is answered as a denial is. The text
// of the error is not the client's to read, and is not written.
func WriteError(w http.ResponseWriter, err error) {
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		headers.RetryAfter(w.Header(), denied.Decision.RetryAfter)
		Verdict{Decision: denied.Decision}.Answer(w)
		return
	}
	if unavailable, ok := errors.AsType[*UnavailableError](err); ok {
		headers.RetryAfter(w.Header(), unavailable.RetryAfter)
		Verdict{Err: err}.Answer(w)
		return
	}
	status := http.StatusInternalServerError
	var coded interface{ StatusCode() int }
	if errors.As(err, &coded) && coded.StatusCode() >= 400 && http.StatusText(coded.StatusCode()) != "" {
		status = coded.StatusCode()
	}
	problem{Title: http.StatusText(status), Status: status}.write(w)
}

func (p problem) write(w http.ResponseWriter) {
	if p.Status == http.StatusRequestTimeout { // RFC 9110, section 15.5.9
		w.Header().Set("Connection", "close")
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and an int: it cannot be
		http.Error(w, p.Title, p.Status)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	write(w, p.Status, problemType, body)
}

const (
	problemType = "application/problem+json"
	plainType   = "application/json; charset=utf-8"
)

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	w.Write(body) // an error is the client's hanging up
}

// UnavailableError is the error of a request that a rule refuses because the store cannot decide it: the rule, or the
// Limiter, fails closed (ratelimit.FailClosed). Its Status is 503.
type UnavailableError struct {
	RetryAfter time.Duration // when to ask again
}

// StatusCode is that of a typed handler that returns the error: 503.
func (e *UnavailableError) StatusCode() int { return http.StatusServiceUnavailable }

func (e *UnavailableError) Error() string {
	return "sash: the rate limit store cannot decide, and a rule fails closed"
}

// Status is the HTTP status for an error that an adapter's Failed gets: 413 for a body over the cap, 408 for one that
// does not come within the server's ReadTimeout, 400 for any other request that has no key, or is not what a typed handler takes, and 503 if the server is at fault: a rule fails
// closed, the Limiter is closed, or LimitsFunc has failed.
func Status(err error) int {
	keyError, noKey := errors.AsType[*keyexpr.KeyError](err)
	_, unbound := errors.AsType[*BindError](err)
	_, cut := errors.AsType[*http.MaxBytesError](err)
	switch {
	case noKey && keyError.Problem == keyexpr.TooLarge, unbound && cut:
		return http.StatusRequestEntityTooLarge
	case (noKey && keyError.Problem == keyexpr.Unreadable || unbound) && timedOut(err):
		return http.StatusRequestTimeout
	case noKey, unbound:
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// timedOut reports whether a body did not come in the time that the server gives it (http.Server.ReadTimeout).
func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Detail is one sentence about such an error that is fit for the client, "" if it is none of the client's business.
// It never repeats what the client has sent.
func Detail(err error) string {
	if keyError, ok := errors.AsType[*keyexpr.KeyError](err); ok {
		return keyError.Detail()
	}
	if _, ok := errors.AsType[*BindError](err); ok {
		return "The request is not what this handler takes."
	}
	return ""
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
	p := problem{Status: Status(v.Err), Detail: Detail(v.Err)}
	p.Title = http.StatusText(p.Status)
	if p.Status == http.StatusServiceUnavailable {
		p.Type, p.Title = typeReducedCapacity, "Request cannot be satisfied due to temporary server capacity constraints"
	}
	return p
}

// detail tells a denied client what to do.
func (v Verdict) detail() string {
	if v.Reason == ratelimit.TooCostly {
		return "The request costs more than the quota, and will never be allowed."
	}
	wait := headers.Seconds(v.RetryAfter) // as Retry-After says it
	if wait == 1 {
		return "Try again in 1 second."
	}
	return "Try again in " + strconv.FormatInt(wait, 10) + " seconds."
}
