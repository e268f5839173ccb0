package redisstore

import (
	"errors"
	"slices"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// call is the arguments of take.lua for some questions.
type call struct {
	groups []group
	keys   []any
	args   []any
}

// group is questions that take.lua decides as one: several of one claim of cost 1 that are equal, in order, or one. Each
// leads to the next.
type group struct {
	first, last *question
	size        int
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
	requests := make([]any, 0, len(questions)+argsOfRun)
	for rest := c.groups; len(rest) > 0; {
		run := rest[:alike(rest)]
		rest = rest[len(run):]
		requests = append(requests, len(run), len(run[0].first.claims))
		for i := range run[0].first.claims {
			c := &run[0].first.claims[i]
			requests = append(requests, number(ruleOf(c)), c.Cost, flags(c.Counts, c.Replaces))
		}
		requests = append(requests, run[0].size)
		for i := range run {
			for q := run[i].first; q != nil; q = q.next {
				requests = append(requests, q)
			}
		}
	}
	c.keys = make([]any, 0, len(c.groups))
	for i := range c.groups {
		for _, key := range c.groups[i].first.keys {
			c.keys = append(c.keys, key)
		}
	}
	c.args = make([]any, 0, len(requests)+argsOfRule*(1+len(rules)))
	c.args = append(c.args, flags(again), len(rules))
	for _, r := range rules {
		c.args = r.appendTo(c.args)
	}
	c.args = append(c.args, requests...)
	return c
}

// How many arguments a run of requests and a rule have, beside ids: mostly.
const (
	argsOfRun  = 6
	argsOfRule = 6
)

// flags is a number for each of which holds: 1, 2, … in sum.
func flags(all ...bool) (sum int) {
	for i, set := range all {
		if set {
			sum |= 1 << i
		}
	}
	return sum
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

func (r rule) appendTo(args []any) []any {
	// Twice, and rounded up: Redis counts a TTL from a clock that may lag TIME by a millisecond.
	ttl := (2*r.kept + time.Millisecond - 1).Milliseconds()
	args = append(args, r.kept.Microseconds(), ttl, len(r.limits))
	for i := range r.limits {
		if l := &r.limits[i]; l.Buckets == 0 {
			args = append(args, l.MaxRequests, l.Window.Microseconds(), 0)
		} else {
			args = append(args, l.MaxRequests, l.Width().Microseconds(), l.Buckets, ringOf(l))
		}
	}
	return args
}

// alike returns how many groups at the front differ in their keys and ids alone.
func alike(list []group) int {
	n := 1
	for n < len(list) && list[n].size == list[0].size && slices.EqualFunc(list[n].first.claims, list[0].first.claims, sameShape) {
		n++
	}
	return n
}

func sameShape(a, b ratelimit.Claim) bool {
	return a.Cost == b.Cost && a.Counts == b.Counts && a.Replaces == b.Replaces && ruleOf(&a).equal(ruleOf(&b))
}

// joins reports whether a question can be decided as one with others that are equal.
func (q *question) joins() bool {
	return len(q.claims) == 1 && q.claims[0].Cost == 1 && !q.claims[0].Counts && !q.claims[0].Replaces
}

// groups finds the questions that can be decided as one, each of them where the first of them stood.
func groups(questions []*question, apart bool) []group {
	list := make([]group, 0, len(questions))
	latest := make(map[string]int, len(questions)) // the group that was the last to ask for a key
	for _, q := range questions {
		q.next = nil
		if len(questions) > 1 && !apart {
			if i, ok := latest[q.keys[0]]; ok && list[i].takes(q, latest) {
				list[i].last.next = q
				list[i].last = q
				list[i].size++
				continue
			}
			for _, key := range q.keys {
				latest[key] = len(list)
			}
		}
		list = append(list, group{q, q, 1})
	}
	return list
}

// takes reports whether a question is like those of a group, and nobody has asked for one of its keys since.
func (g *group) takes(q *question, latest map[string]int) bool {
	first := g.first
	if !q.joins() || len(first.claims) != 1 || !sameShape(first.claims[0], q.claims[0]) {
		return false
	}
	for i, key := range q.keys {
		if first.keys[i] != key || latest[key] != latest[q.keys[0]] {
			return false
		}
	}
	return true
}

const (
	fields = 5 // of an answer
	noLog  = -1
	known  = -2
)

// answer gives every question what take.lua has replied, or an error.
func (c call) answer(reply []int64) error {
	if len(reply) == 0 || reply[0] != tail(c.groups[len(c.groups)-1].last.id) {
		return errors.New("redisstore: the answer is to another request: the client has mixed up its replies")
	}
	if len(reply) == 1 {
		return errTooShort
	}
	r := reader{now: time.Duration(reply[1]) * time.Microsecond, rest: reply[2:]}
	for _, g := range c.groups {
		for n := range g.first.claims {
			if err := r.claim(g, n); err != nil {
				return err
			}
		}
		for q := g.first; q != nil; q = q.next {
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
type reader struct {
	now  time.Duration // on the server's clock
	rest []int64
}

// next returns the next n integers, or nil.
func (r *reader) next(n int) []int64 {
	if len(r.rest) < n {
		return nil
	}
	ints := r.rest[:n]
	r.rest = r.rest[n:]
	return ints
}

// claim reads what became of the n-th claim of a group: of so many questions that they were counted, and of the others.
func (r *reader) claim(g group, n int) error {
	counts := r.next(1)
	if counts == nil {
		return errTooShort
	}
	counted, q := int(counts[0]), g.first
	if counted == noLog {
		for ; q != nil; q = q.next {
			q.err = errNoLog
		}
		return nil
	}
	before := counted == known
	if before {
		counted = 1
	}
	if counted > 0 {
		values := r.next(fields)
		for i := 0; i < counted && q != nil; i, q = i+1, q.next {
			if err := q.decide(n, values); err != nil {
				return err
			}
			q.count(n, i, r.now)
			if before {
				q.forgetCounters(n)
			}
		}
	}
	if q == nil {
		return r.counts(g.first, n)
	}
	for values := r.next(fields); q != nil; q = q.next {
		if err := q.decide(n, values); err != nil {
			return err
		}
	}
	return r.counts(g.first, n)
}

// counts reads how many requests count under each limit of the n-th claim, if it asks for that.
func (r *reader) counts(q *question, n int) error {
	if !q.claims[n].Counts {
		return nil
	}
	counts := r.next(len(q.claims[n].Limits))
	if counts == nil {
		return errTooShort
	}
	for _, count := range counts {
		q.answers[n].Counts = append(q.answers[n].Counts, int(count))
	}
	return nil
}
