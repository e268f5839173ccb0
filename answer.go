package sash

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// answer is the problem document for a request that one policy denies, written when the policy is declared but for the
// seconds.
type answer struct {
	before, after string   // the seconds
	violated      []string // the policy

	// written are documents, each in the place of its seconds: clients that are denied ask again and again.
	written [64]atomic.Pointer[document]
}

// problemTypeValue is never changed, and all responses have it in common.
var problemTypeValue = []string{problemType}

// document is an answer with its seconds. It is never changed, and a Writer must not change what it writes.
type document struct {
	seconds int64
	body    []byte
	length  []string    // of body, as the value of a field
	fields  http.Header // those of headers.RetryAfter
}

func newAnswer(policy string) (*answer, error) {
	some := Verdict{Decision: ratelimit.Decision{RetryAfter: ratelimit.MaxWindow, Violated: []string{policy}}}
	text, err := json.Marshal(some.problem())
	if err != nil { // strings and an int: it cannot be
		return nil, err
	}
	before, after, _ := strings.Cut(string(text), strconv.FormatInt(headers.Seconds(some.RetryAfter), 10))
	return &answer{before: before, after: after, violated: some.Violated}, nil
}

// fits reports whether the document is the one for that wait. "1 second" and "never" are other words.
func (a *answer) fits(v *Verdict) bool {
	return a != nil && v.Err == nil && v.Reason != ratelimit.TooCostly && headers.Seconds(v.RetryAfter) != 1
}

func (a *answer) write(w http.ResponseWriter, seconds int64) {
	d := a.document(seconds)
	h := w.Header()
	h["Content-Length"] = d.length
	h["Content-Type"] = problemTypeValue
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write(d.body) // an error is the client's hanging up
}

// retryAfter is headers.RetryAfter, once for all.
func (a *answer) retryAfter(h http.Header, seconds int64) { maps.Copy(h, a.document(seconds).fields) }

func (a *answer) document(seconds int64) *document {
	place := &a.written[uint64(seconds)%uint64(len(a.written))]
	if d := place.Load(); d != nil && d.seconds == seconds {
		return d
	}
	body := strconv.AppendInt(append(make([]byte, 0, len(a.before)+20+len(a.after)), a.before...), seconds, 10)
	body = append(body, a.after...)
	d := &document{seconds, body, []string{strconv.Itoa(len(body))}, make(http.Header)}
	headers.RetryAfter(d.fields, time.Duration(seconds)*time.Second)
	place.Store(d)
	return d
}
