package sash

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// answer is the problem document for a request that one policy denies, written when the policy is declared but for the
// seconds.
type answer struct {
	before, after string // the seconds

	// written are documents, each in the place of its seconds: clients that are denied ask again and again.
	written [64]atomic.Pointer[document]
}

// document is an answer with its seconds. It is never changed, and a Writer must not change what it writes.
type document struct {
	seconds int64
	body    []byte
	length  string // of body
}

func newAnswer(policy string) (*answer, error) {
	some := Verdict{Decision: ratelimit.Decision{RetryAfter: ratelimit.MaxWindow, Violated: []string{policy}}}
	text, err := json.Marshal(some.problem())
	if err != nil { // strings and an int: it cannot be
		return nil, err
	}
	before, after, _ := strings.Cut(string(text), strconv.FormatInt(headers.Seconds(some.RetryAfter), 10))
	return &answer{before: before, after: after}, nil
}

// fits reports whether the document is the one for that wait. "1 second" and "never" are other words.
func (a *answer) fits(v *Verdict) bool {
	return a != nil && v.Err == nil && v.Reason != ratelimit.TooCostly && headers.Seconds(v.RetryAfter) != 1
}

func (a *answer) write(w http.ResponseWriter, seconds int64, room *headers.Room) {
	d := a.document(seconds)
	h := w.Header()
	h["Content-Length"] = room.Value(d.length)
	h["Content-Type"] = room.Value(problemType)
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write(d.body) // an error is the client's hanging up
}

func (a *answer) document(seconds int64) *document {
	place := &a.written[uint64(seconds)%uint64(len(a.written))]
	if d := place.Load(); d != nil && d.seconds == seconds {
		return d
	}
	body := strconv.AppendInt(append(make([]byte, 0, len(a.before)+20+len(a.after)), a.before...), seconds, 10)
	body = append(body, a.after...)
	d := &document{seconds, body, strconv.Itoa(len(body))}
	place.Store(d)
	return d
}
