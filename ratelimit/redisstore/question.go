package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// question is a Take on its way. Its answers are its own: whoever asked may have given up.
type question struct {
	id      uuid.UUID
	keys    []string // of Redis, for each claim
	claims  []ratelimit.Claim
	answers []ratelimit.Decision
	err     error
	done    chan struct{}   // closed with the answers, or the error
	ctx     context.Context // of whoever asks
}

// deadline is when nobody waits for the answers any more.
func (q *question) deadline() time.Time {
	if d, ok := q.ctx.Deadline(); ok {
		return d
	}
	return time.Now().Add(patience)
}

// rule is what take.lua calls a rule: the part of a claim that most claims have in common.
type rule struct {
	kept   time.Duration
	limits []ratelimit.Limit
}

func ruleOf(c *ratelimit.Claim) rule { return rule{c.Kept(), c.Limits} }

func (r rule) equal(other rule) bool {
	return r.kept == other.kept && slices.Equal(r.limits, other.limits)
}

// group is questions that take.lua decides as one: several of one claim of cost 1 that are equal, in order, or one.
type group []*question

// call is the arguments of take.lua for some questions.
type call struct {
	groups []group
	keys   []string
	args   []any
}

// newCall puts questions into one call. A call that may have been sent before asks for each by itself.
func newCall(questions []*question, again bool) call {
	c := call{groups: groups(questions, again)}
	var rules []rule
	number := func(r rule) int { // from 1
		i := slices.IndexFunc(rules, r.equal)
		if i < 0 {
			i = len(rules)
			rules = append(rules, r)
		}
		return i + 1
	}
	var requests []any
	for i := 0; i < len(c.groups); {
		n := alike(c.groups[i:])
		first := c.groups[i][0]
		requests = append(requests, n, len(first.claims))
		for j := range first.claims {
			requests = append(requests, number(ruleOf(&first.claims[j])), first.claims[j].Cost)
		}
		requests = append(requests, len(c.groups[i]))
		for _, g := range c.groups[i : i+n] {
			c.keys = append(c.keys, g[0].keys...)
			for _, q := range g {
				requests = append(requests, q.id.String())
			}
		}
		i += n
	}
	resent := 0
	if again {
		resent = 1
	}
	c.args = append(c.args, resent, len(rules))
	for _, r := range rules {
		c.args = append(c.args, r.kept.Microseconds(), len(r.limits))
		for _, l := range r.limits {
			c.args = append(c.args, l.MaxRequests, l.Window.Microseconds())
		}
	}
	c.args = append(c.args, requests...)
	return c
}

// alike returns how many groups at the front differ in their keys and ids alone.
func alike(list []group) int {
	n := 1
	for n < len(list) && len(list[n]) == len(list[0]) && slices.EqualFunc(list[n][0].claims, list[0][0].claims, sameShape) {
		n++
	}
	return n
}

func sameShape(a, b ratelimit.Claim) bool { return a.Cost == b.Cost && ruleOf(&a).equal(ruleOf(&b)) }

// groups finds the questions that can be decided as one, each of them where the first of them stood.
func groups(questions []*question, apart bool) []group {
	list := make([]group, 0, len(questions))
	place := make(map[string]int)
	for _, q := range questions {
		if len(questions) > 1 && !apart && len(q.claims) == 1 && q.claims[0].Cost == 1 {
			i, known := place[q.keys[0]]
			if known && ruleOf(&list[i][0].claims[0]).equal(ruleOf(&q.claims[0])) {
				list[i] = append(list[i], q)
				continue
			}
			place[q.keys[0]] = len(list)
		} else {
			for _, key := range q.keys { // what comes later is decided later
				delete(place, key)
			}
		}
		list = append(list, group{q})
	}
	return list
}

// The verdicts of take.lua.
const (
	denied = iota
	fits
	tooCostly
)

const (
	fields = 5 // of an answer
	noLog  = -1
)

// answer gives every question what take.lua has replied, or an error.
func (c call) answer(reply []int64) error {
	last := c.groups[len(c.groups)-1]
	if len(reply) == 0 || reply[0] != tail(last[len(last)-1].id) {
		return errors.New("redisstore: the answer is to another request: the client has mixed up its replies")
	}
	r := reader{reply[1:]}
	for _, g := range c.groups {
		for n := range g[0].claims {
			if err := r.claim(g, n); err != nil {
				return err
			}
		}
		for _, q := range g {
			q.complete()
		}
	}
	if len(r.rest) > 0 {
		return errTooShort
	}
	return nil
}

var errTooShort = errors.New("redisstore: the script's reply is not as long as the questions make it")

// reader reads the reply of take.lua.
type reader struct{ rest []int64 }

// next returns the next n integers, or nil.
func (r *reader) next(n int) []int64 {
	if len(r.rest) < n {
		return nil
	}
	ints := r.rest[:n]
	r.rest = r.rest[n:]
	return ints
}

// claim reads what became of the n-th claim of a group.
func (r *reader) claim(g group, n int) error {
	counts := r.next(1)
	if counts == nil {
		return errTooShort
	}
	counted := counts[0]
	if counted == noLog {
		for _, q := range g {
			q.err = errNoLog
		}
		return nil
	}
	if counted > 0 {
		if err := r.decide(g[:min(counted, int64(len(g)))], n, true); err != nil {
			return err
		}
	}
	if counted < int64(len(g)) {
		return r.decide(g[max(0, counted):], n, false)
	}
	return nil
}

// decide reads one answer, to the n-th claims of questions.
func (r *reader) decide(questions []*question, n int, counted bool) error {
	values := r.next(fields)
	if values == nil {
		return errTooShort
	}
	c := &questions[0].claims[n]
	d, err := decision(c, values)
	if err != nil {
		return err
	}
	for i, q := range questions {
		q.answers[n] = d
		if counted {
			q.answers[n].Remaining -= i * c.Cost // those before it are counted as well
			q.answers[n].Reason, q.answers[n].Ticket = ratelimit.Counted, ratelimit.Ticket{ID: q.id, Cost: c.Cost}
		}
	}
	return nil
}

// complete tells the claims that fit, and were not counted, why.
func (q *question) complete() {
	for n := range q.answers {
		switch d := &q.answers[n]; {
		case !d.Allowed || d.Reason == ratelimit.Counted:
		case q.claims[n].Cost == 0:
			d.Reason = ratelimit.Looked
		default:
			d.Reason = ratelimit.Withheld
		}
	}
}

// decision is what the limit that binds says.
func decision(c *ratelimit.Claim, values []int64) (ratelimit.Decision, error) {
	verdict, limit := values[0], values[1]
	if limit < 0 || limit >= int64(len(c.Limits)) || verdict < denied || verdict > tooCostly {
		return ratelimit.Decision{}, fmt.Errorf("redisstore: the script answered with verdict %d and limit %d of %d", verdict, limit, len(c.Limits))
	}
	d := ratelimit.Decision{
		Allowed:    verdict == fits,
		Limit:      c.Limits[limit],
		Remaining:  int(values[2]),
		RetryAfter: time.Duration(values[3]) * time.Microsecond,
		ResetAfter: time.Duration(values[4]) * time.Microsecond,
	}
	switch verdict {
	case denied:
		d.Reason = ratelimit.Exhausted
	case tooCostly:
		d.Reason = ratelimit.TooCostly
	}
	return d, nil
}

// tail is what the script makes of the last 12 hex digits of an id.
func tail(id uuid.UUID) int64 {
	return int64(binary.BigEndian.Uint64(id[8:]) & (1<<48 - 1))
}
