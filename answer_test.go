package sash

import (
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// TestAnswerWrittenAheadIsTheOneWrittenNow compares the document that is written with the policy to the one that is
// written for the request.
func TestAnswerWrittenAheadIsTheOneWrittenNow(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"login", "ip", `header("X")`, `a\b <&> ~`, "31622400", "Try again in 31622400 seconds."} {
		a, err := newAnswer(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range []ratelimit.Reason{ratelimit.Exhausted, ratelimit.CachedExhausted, ratelimit.TooCostly} {
			for _, wait := range []time.Duration{0, 1, time.Second, time.Second + 1, 9 * time.Second, 57 * time.Second, 100 * time.Second,
				time.Hour, ratelimit.MaxWindow, 100 * ratelimit.MaxWindow, 1<<63 - 1} {
				v := Verdict{Decision: ratelimit.Decision{RetryAfter: wait, Reason: reason, Violated: []string{name}}, answer: a}
				want, err := json.Marshal(v.problem())
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second has the memory of the first
					w := httptest.NewRecorder()
					v.Answer(w)
					h := w.Header()
					if got := w.Body.String(); got != string(want) || w.Code != 429 ||
						h.Get("Content-Length") != strconv.Itoa(len(want)) || h.Get("Content-Type") != problemType {
						t.Errorf("%q, %v, %v: %d %v\n%s\nwant\n%s", name, reason, wait, w.Code, h, got, want)
					}
				}
			}
		}
	}
}

// TestWorkKeepsNothingOfARequest looks into what is lent to the next one.
func TestWorkKeepsNothingOfARequest(t *testing.T) {
	t.Parallel()
	a := &Aspect{rules: make([]rule, 2)}
	w := a.begin()
	w.parts[3] = "bob@example.com"
	w.add(&rule{shown: "r", plans: &plans{}}, &plan{}, "r:bob@example.com", 1)
	w.add(&rule{shown: "s", plans: &plans{}, Rule: Rule{DryRun: true}}, &plan{}, "s:bob@example.com", 1)
	w.decisions[0] = ratelimit.Decision{Allowed: true, Violated: []string{"r"}}
	w.giveUp()
	var v Verdict
	a.end(w, &v)
	if len(v.Outcomes) != 2 || v.Outcomes[0].Rule != "r" || v.Outcomes[0].Violated[0] != "r" || v.Outcomes[1].Rule != "s" {
		t.Errorf("the verdict has the outcomes %+v, want two, of its own", v.Outcomes)
	}
	if w.parts != [4]string{} || w.live+len(w.applied)+len(w.claims)+len(w.decisions)+len(w.undecided) != 0 {
		t.Errorf("it is not empty: %+v", w)
	}
	for i, kept := range w.applied[:2] {
		if c, d := w.claims[:2][i], w.decisions[:2][i]; kept != (applied{}) || c.Key != "" || d.Allowed || d.Violated != nil {
			t.Errorf("of the one at %d is kept: %+v, %+v, %+v", i, kept, c, d)
		}
	}
	if r := w.undecided[:1][0]; r != nil {
		t.Errorf("an undecided rule is kept: %+v", r)
	}
}
