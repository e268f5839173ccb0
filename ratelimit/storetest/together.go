package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

// claim is a claim of one request on key under one limit.
func claim(key string, limit ratelimit.Limit) ratelimit.Claim {
	return ratelimit.Claim{Key: key, Limits: []ratelimit.Limit{limit}, Cost: 1}
}

// together are the rules that need several keys, or several callers.
var together = map[string]func(bench){
	"keys do not share": func(b bench) {
		for _, key := range []string{"a", "b", "a:b", "b:a", "a%3Ab", "#a"} {
			if d := b.take(claim(key, per(minute, 1)))[0]; !d.Allowed {
				b.Errorf("%q was denied for what another key has used", key)
			}
		}
	},

	"claims of one request are all counted": func(b bench) {
		got := b.take(claim("user", per(minute, 2)), claim("ip", per(hour, 3)))
		b.equal(1, got[0], ratelimit.Decision{Allowed: true, Limit: per(minute, 2), Remaining: 1, ResetAfter: minute, Reason: ratelimit.Counted})
		b.equal(1, got[1], ratelimit.Decision{Allowed: true, Limit: per(hour, 3), Remaining: 2, ResetAfter: hour, Reason: ratelimit.Counted})
	},

	"a claim that asks for counts is told what counts under each limit": func(b bench) {
		c := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{per(minute, 4), per(hour, 5)}, Cost: 2, Counts: true}
		steps := []struct {
			after  time.Duration
			cost   int
			counts []int
		}{
			{0, 2, []int{2, 2}},
			{minute, 2, []int{2, 4}}, // the first have left the minute
			{0, 0, []int{2, 4}},
			{0, 2, []int{2, 4}}, // denied
			{0, 1, []int{3, 5}},
			{hour, 0, []int{0, 0}},
		}
		for i, s := range steps {
			b.Advance(s.after)
			c.Cost = s.cost
			if got := b.take(c)[0].Counts; !slices.Equal(got, s.counts) {
				b.Errorf("step %d: %v are told, want %v", i+1, got, s.counts)
			}
		}
	},

	"an entry of the same id is replaced": func(b bench) {
		c := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{per(minute, 2)}, Cost: 1, Counts: true, Replaces: true}
		one, other := uuid.New(), uuid.New()
		for i, s := range []struct {
			after time.Duration
			id    uuid.UUID
			want  int
		}{
			{0, one, 1},
			{30 * second, one, 1},
			{0, other, 2},
			{30 * second, one, 2}, // its first entry would have left
			{29 * second, other, 2},
			{minute - tick, other, 1},
		} {
			b.Advance(s.after)
			if got := b.takeAs(s.id, c)[0]; !got.Allowed || !slices.Equal(got.Counts, []int{s.want}) {
				b.Errorf("step %d: %+v, want %d counted", i+1, got, s.want)
			}
		}
	},

	"a claim that does not fit withholds the others, before and behind it": func(b bench) {
		b.take(claim("ip", per(minute, 1)))
		b.Advance(10 * second)
		got := b.take(claim("user", per(minute, 2)), claim("ip", per(minute, 1)), claim("route", per(hour, 2)))
		b.equal(2, got[0], ratelimit.Decision{Allowed: true, Limit: per(minute, 2), Remaining: 2, Reason: ratelimit.Withheld})
		b.equal(2, got[1], ratelimit.Decision{Limit: per(minute, 1), RetryAfter: 50 * second, ResetAfter: 50 * second, Reason: ratelimit.Exhausted})
		b.equal(2, got[2], ratelimit.Decision{Allowed: true, Limit: per(hour, 2), Remaining: 2, Reason: ratelimit.Withheld})

		after := b.take(look("user", per(minute, 2)), look("route", per(hour, 2)))
		b.equal(3, after[0], ratelimit.Decision{Allowed: true, Limit: per(minute, 2), Remaining: 2, Reason: ratelimit.Looked})
		b.equal(3, after[1], ratelimit.Decision{Allowed: true, Limit: per(hour, 2), Remaining: 2, Reason: ratelimit.Looked})
	},

	"every claim that does not fit says so": func(b bench) {
		user, ip := claim("user", per(minute, 1)), claim("ip", per(hour, 1))
		b.take(user, ip)
		for i, d := range b.take(user, ip) {
			if d.Allowed || d.RetryAfter != d.Limit.Window {
				b.Errorf("claim %d: got %+v, want a denial for a whole window", i, d)
			}
		}
	},

	"a look beside a claim vetoes it but counts nothing": func(b bench) {
		b.take(claim("failures", per(minute, 1)))
		got := b.take(claim("attempts", per(minute, 1)), look("failures", per(minute, 1)))
		if got[0].Reason != ratelimit.Withheld || got[1].Allowed {
			b.Errorf("got %v and %v, want withheld and exhausted", got[0].Reason, got[1].Reason)
		}
	},

	"a refund of one claim leaves the others": func(b bench) {
		user, ip := claim("user", per(minute, 1)), claim("ip", per(minute, 1))
		b.refund("user", b.take(user, ip)[0].Ticket)
		got := b.take(look("user", per(minute, 1)), look("ip", per(minute, 1)))
		if got[0].Remaining != 1 || got[1].Remaining != 0 {
			b.Errorf("%d and %d are left, want 1 and 0", got[0].Remaining, got[1].Remaining)
		}
	},

	"a limit that was lowered counts the same log, and says when it gives back": func(b bench) {
		b.take(claim("key", per(minute, 3)))
		b.Advance(10 * second)
		b.take(claim("key", per(minute, 3)))
		b.take(claim("key", per(minute, 3)))
		got := b.take(claim("key", per(minute, 1)))[0]
		b.equal(4, got, ratelimit.Decision{Limit: per(minute, 1), RetryAfter: minute, ResetAfter: minute, Reason: ratelimit.Exhausted})
		got = b.take(claim("key", per(minute, 4)))[0]
		b.equal(5, got, ratelimit.Decision{Allowed: true, Limit: per(minute, 4), ResetAfter: 50 * second, Reason: ratelimit.Counted})
	},

	"a claim that keeps entries longer than its window finds them again under a longer one": func(b bench) {
		pro, free := claim("key", per(hour, 2)), claim("key", per(minute, 1))
		pro.Keep, free.Keep = hour, hour
		b.take(pro)
		b.Advance(2 * minute)
		if d := b.take(free)[0]; d.Reason != ratelimit.Counted || d.ResetAfter != minute {
			b.Errorf("the short window counts what it should not: %+v", d)
		}
		b.Advance(57 * minute)
		b.equal(3, b.take(pro)[0], ratelimit.Decision{Limit: per(hour, 2), RetryAfter: minute, ResetAfter: minute, Reason: ratelimit.Exhausted})
	},

	"a look under a shorter window forgets nothing": func(b bench) {
		b.take(claim("key", per(hour, 1)))
		b.Advance(2 * minute)
		b.take(look("key", per(minute, 1)))
		if d := b.take(claim("key", per(hour, 1)))[0]; d.Allowed {
			b.Error("the look dropped an entry that still counted")
		}
	},

	"callers at once are allowed exactly as many as the limit": func(b bench) {
		const limit, callers, each = 20, 8, 10
		var allowed atomic.Int64
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				for range each {
					claims := []ratelimit.Claim{claim("hot", per(minute, limit)), claim("wide", per(minute, 1000))}
					decisions := make([]ratelimit.Decision, 2)
					if err := b.Store.Take(b.Context(), uuid.New(), claims, decisions); err != nil {
						b.Errorf("Take: %v", err)
					}
					if decisions[0].Allowed && decisions[1].Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		wait.Wait()
		if allowed.Load() != limit {
			b.Errorf("%d of %d were allowed, want %d", allowed.Load(), callers*each, limit)
		}
		if d := b.take(look("wide", per(minute, 1000)))[0]; d.Remaining != 1000-limit {
			b.Errorf("the denied ones were charged to another key: %d are left, want %d", d.Remaining, 1000-limit)
		}
	},
}

// look is a claim that counts nothing.
func look(key string, limit ratelimit.Limit) ratelimit.Claim {
	return ratelimit.Claim{Key: key, Limits: []ratelimit.Limit{limit}}
}

// testRepeated sends a Take a second time, as after a lost reply: even where it used the whole limit, it is
// answered as admitted, with what is left at that moment, and charges nothing.
func testRepeated(b bench) {
	id := uuid.New()
	user, ip := claim("user", per(minute, 1)), claim("ip", per(minute, 3))
	user.Cost, ip.Cost = 1, 2
	first := b.takeAs(id, user, ip)
	b.Advance(second)
	again := make([]ratelimit.Decision, 2)
	if err := b.Resend(b.Context(), id, []ratelimit.Claim{user, ip}, again); err != nil {
		b.Fatalf("Resend: %v", err)
	}
	for i, want := range first {
		want.ResetAfter -= second
		b.equal(2, again[i], want)
	}
	if d := b.take(claim("user", per(minute, 1)))[0]; d.Allowed {
		b.Error("another request was taken for the repeated one")
	}
}
