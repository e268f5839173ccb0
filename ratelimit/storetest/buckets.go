package storetest

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

func in(buckets int, window time.Duration, maxRequests int) ratelimit.Limit {
	return ratelimit.Limit{MaxRequests: maxRequests, Window: window, Buckets: buckets}
}

const most = ratelimit.MaxInBuckets

// counted are cases of limits in Buckets. The first step comes so long after a whole hour on the store's clock, which is
// an edge of all their sub-windows.
var counted = []Case{
	{
		Name:   "in buckets a request exactly on an edge counts for the window and the sub-window that it begins",
		Limits: []ratelimit.Limit{in(6, minute, 1)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: 70 * second},
			{After: 70*second - tick, Cost: 1, RetryAfter: tick, ResetAfter: tick},
			{After: tick, Cost: 1, Allowed: true, ResetAfter: 70 * second},
		},
	},
	{
		Name:   "in buckets a request one tick before an edge counts for the window and a tick",
		Limits: []ratelimit.Limit{in(6, minute, 1)},
		Steps: []Step{
			{After: 10*second - tick, Cost: 1, Allowed: true, ResetAfter: minute + tick},
			{After: minute, Cost: 1, RetryAfter: tick, ResetAfter: tick},
			{After: tick, Cost: 1, Allowed: true, ResetAfter: 70 * second},
		},
	},
	{
		Name:   "in one bucket requests leave when the window after theirs is over",
		Limits: []ratelimit.Limit{in(1, minute, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 1, ResetAfter: 2 * minute},
			{After: minute, Cost: 1, Allowed: true, ResetAfter: minute},
			{After: minute - tick, Cost: 1, RetryAfter: tick, ResetAfter: tick},
			{Cost: 2, RetryAfter: minute + tick, ResetAfter: tick},
			{After: tick, Cost: 1, Allowed: true, ResetAfter: minute},
			{After: minute, Cost: 1, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "in buckets a limit is as high as a thousand million",
		Limits: []ratelimit.Limit{in(6, minute, most)},
		Steps: []Step{
			{Cost: most + 1, Remaining: most, Reason: ratelimit.TooCostly},
			{Cost: most - 1, Allowed: true, Remaining: 1, ResetAfter: 70 * second},
			{After: 10 * second, Cost: 2, Remaining: 1, RetryAfter: minute, ResetAfter: minute},
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{Cost: 1, RetryAfter: minute, ResetAfter: minute},
			{Cost: most, RetryAfter: 70 * second, ResetAfter: minute},
			{After: minute, Cost: most - 1, Allowed: true, ResetAfter: 10 * second},
			{Refund: 7},
			{Cost: most - 2, Allowed: true, Remaining: 1, ResetAfter: 10 * second},
		},
	},
	{
		Name:   "in buckets two limits hold together, and a denial by one charges neither",
		Limits: []ratelimit.Limit{in(6, minute, 2), in(60, hour, 3)},
		Steps: []Step{
			{Cost: 2, Allowed: true, ResetAfter: 70 * second},
			{After: second, Cost: 1, RetryAfter: 69 * second, ResetAfter: 69 * second},
			{After: 69 * second, Cost: 1, Allowed: true, Limit: 1, ResetAfter: hour + minute - 70*second},
			{Cost: 1, Limit: 1, RetryAfter: hour + minute - 70*second, ResetAfter: hour + minute - 70*second},
			{After: hour + minute - 70*second, Cost: 1, Allowed: true, ResetAfter: 70 * second, Remaining: 1},
		},
	},
	{
		Name:   "two limits in the same buckets share one count",
		Limits: []ratelimit.Limit{in(6, minute, 3), in(6, minute, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Limit: 1, Remaining: 1, ResetAfter: 70 * second},
			{Cost: 1, Allowed: true, Limit: 1, Remaining: 0, ResetAfter: 70 * second},
			{Refund: 1},
			{Cost: 1, Allowed: true, Limit: 1, Remaining: 0, ResetAfter: 70 * second},
		},
	},
	{
		Name:   "an exact limit and one in buckets hold together, and a denial by one charges neither",
		Limits: []ratelimit.Limit{per(minute, 2), in(60, hour, 3)},
		Steps: []Step{
			{Cost: 2, Allowed: true, ResetAfter: minute},
			{After: second, Cost: 1, RetryAfter: 59 * second, ResetAfter: 59 * second},
			{After: 59 * second, Cost: 1, Allowed: true, Limit: 1, ResetAfter: hour},
			{Cost: 1, Limit: 1, RetryAfter: hour, ResetAfter: hour},
			{Allowed: false, Limit: 1, RetryAfter: hour, ResetAfter: hour},
			{Refund: 3},
			{Allowed: true, Limit: 1, Remaining: 1, ResetAfter: hour, Reason: ratelimit.Looked},
			{Refund: 1},
			{Allowed: true, Limit: 0, Remaining: 2, Reason: ratelimit.Looked},
		},
	},
	{
		Name:   "in buckets a second refund changes nothing",
		Limits: []ratelimit.Limit{in(6, minute, 4)},
		Steps: []Step{
			{Cost: 2, Allowed: true, Remaining: 2, ResetAfter: 70 * second},
			{Cost: 2, Allowed: true, ResetAfter: 70 * second},
			{Refund: 1},
			{Refund: 1},
			{Allowed: true, Remaining: 2, ResetAfter: 70 * second, Reason: ratelimit.Looked},
			{Cost: 2, Allowed: true, ResetAfter: 70 * second},
			{Refund: 1},
			{Cost: 1, RetryAfter: 70 * second, ResetAfter: 70 * second},
		},
	},
	{
		Name:   "in buckets a refund of what has left changes nothing",
		Limits: []ratelimit.Limit{in(6, minute, 1)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: 70 * second},
			{After: 70 * second, Cost: 1, Allowed: true, ResetAfter: 70 * second},
			{Refund: 1},
			{Cost: 1, RetryAfter: 70 * second, ResetAfter: 70 * second},
		},
	},
	{
		Name:   "in buckets a refund after a reset takes nothing off what came since",
		Limits: []ratelimit.Limit{in(6, minute, 1)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: 70 * second},
			{Reset: true},
			{Cost: 1, Allowed: true, ResetAfter: 70 * second},
			{Refund: 1},
			{Cost: 1, RetryAfter: 70 * second, ResetAfter: 70 * second},
			{After: 70 * second, Cost: 1, Allowed: true, ResetAfter: 70 * second},
			{Refund: 6}, // of the first sub-window that began after the reset
			{Allowed: true, Remaining: 1, Reason: ratelimit.Looked},
		},
	},
}

// onTheHour brings the store's clock to one.
func (b bench) onTheHour() { b.Advance(hour - b.Now()%hour) }

// counters are rules of limits in Buckets that need several keys, or tickets that no store has made.
var counters = map[string]func(bench){
	"claims in buckets and in logs are all counted": func(b bench) {
		b.onTheHour()
		user, ip := claim("user", in(6, minute, 2)), claim("ip", per(hour, 3))
		got := b.take(user, ip)
		b.equal(1, got[0], ratelimit.Decision{Allowed: true, Limit: user.Limits[0], Remaining: 1, ResetAfter: 70 * second, Reason: ratelimit.Counted})
		b.equal(1, got[1], ratelimit.Decision{Allowed: true, Limit: ip.Limits[0], Remaining: 2, ResetAfter: hour, Reason: ratelimit.Counted})
	},

	"a claim that does not fit withholds those in buckets, and one in buckets withholds others": func(b bench) {
		b.onTheHour()
		counted, listed, both := in(6, minute, 2), per(minute, 2), []ratelimit.Limit{per(minute, 2), in(60, hour, 2)}
		b.take(claim("full log", per(minute, 1)), claim("full buckets", in(6, minute, 1)))
		for _, full := range []ratelimit.Claim{claim("full log", per(minute, 1)), claim("full buckets", in(6, minute, 1))} {
			for range 3 {
				mixed := claim("both", both[0])
				mixed.Limits = both
				got := b.take(claim("counted", counted), claim("listed", listed), full, mixed)
				for i, want := range []ratelimit.Reason{ratelimit.Withheld, ratelimit.Withheld, ratelimit.Exhausted, ratelimit.Withheld} {
					if got[i].Reason != want {
						b.Errorf("beside %s claim %d is %v, want %v", full.Key, i, got[i].Reason, want)
					}
				}
			}
		}
		mixed := look("both", both[0])
		mixed.Limits = both
		for i, d := range b.take(look("counted", counted), look("listed", listed), mixed) {
			if d.Remaining != 2 || d.ResetAfter != 0 {
				b.Errorf("claim %d was charged: %+v", i, d)
			}
		}
	},

	"a ticket that no store has made is an error": func(b bench) {
		for _, counters := range []string{
			"x", "log x", "60x1m0s", "60x1m0s.", "x1m0s.5", "60x.5", "0x1m0s.5", "-1x1m0s.5", "7x1m0s.5", "60x1ms.5", "60x1m0s.5 60x1m0s.?", ".", "log.",
		} {
			ticket := ratelimit.Ticket{ID: uuid.New(), Cost: 1, Counters: counters}
			if err := b.Store.Refund(b.Context(), "key", ticket); !errors.Is(err, ratelimit.ErrInvalid) {
				b.Errorf("%q: got %v, want it invalid", counters, err)
			}
		}
	},

	"a ticket of a sub-window that never was changes nothing": func(b bench) {
		b.onTheHour()
		c := claim("key", in(60, minute, 1))
		b.take(c)
		for _, counters := range []string{"60x1m0s.-5", "60x1m0s.-1y2p0ij32e8e8", "60x1m0s.1y2p0ij32e8e7", "60x1m0s.0", "6x1m0s.5"} {
			b.refund("key", ratelimit.Ticket{ID: uuid.New(), Cost: 1, Counters: counters})
		}
		if d := b.take(c)[0]; d.Allowed {
			b.Errorf("a request was taken off: %+v", d)
		}
	},
}
