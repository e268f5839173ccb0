package sash

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// answer is the problem document for a request that one policy denies, written when the policy is declared but for the
// seconds.
type answer struct {
	before, after string    // the seconds
	lengths       []string  // Content-Length, by the digits of the seconds, from one
	documents     sync.Pool // of *[]byte, which begin with before; a Writer must not keep what it writes
}

// maxSecondsDigits is for ratelimit.MaxWindow, and some.
const maxSecondsDigits = 9

func newAnswer(policy string) (*answer, error) {
	some := Verdict{Decision: ratelimit.Decision{RetryAfter: ratelimit.MaxWindow, Violated: []string{policy}}}
	document, err := json.Marshal(some.problem())
	if err != nil { // strings and an int: it cannot be
		return nil, err
	}
	before, after, _ := strings.Cut(string(document), strconv.FormatInt(headers.Seconds(some.RetryAfter), 10))
	a := &answer{before: before, after: after}
	for digits := 1; digits <= maxSecondsDigits; digits++ {
		a.lengths = append(a.lengths, strconv.Itoa(len(before)+digits+len(after)))
	}
	return a, nil
}

// fits reports whether the document is the one for that wait. "1 second" and "never" are other words.
func (a *answer) fits(v *Verdict) bool {
	return a != nil && v.Err == nil && v.Reason != ratelimit.TooCostly && headers.Seconds(v.RetryAfter) != 1
}

func (a *answer) write(w http.ResponseWriter, seconds int64, room *headers.Room) {
	kept, ok := a.documents.Get().(*[]byte)
	if !ok {
		first := append(make([]byte, 0, len(a.before)+maxSecondsDigits+len(a.after)), a.before...)
		kept = &first
	}
	document := strconv.AppendInt((*kept)[:len(a.before)], seconds, 10)
	digits := len(document) - len(a.before)
	document = append(document, a.after...)
	length := ""
	if digits <= len(a.lengths) {
		length = a.lengths[digits-1]
	} else {
		length = strconv.Itoa(len(document))
	}
	h := w.Header()
	h["Content-Length"] = room.Value(length)
	h["Content-Type"] = room.Value(problemType)
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write(document) // an error is the client's hanging up
	*kept = document
	a.documents.Put(kept)
}
