package storetest

import (
	"math"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

const (
	tick   = time.Microsecond
	second = time.Second
	minute = time.Minute
	hour   = time.Hour
)

func per(window time.Duration, maxRequests int) ratelimit.Limit {
	return ratelimit.Limit{MaxRequests: maxRequests, Window: window}
}

// cases use windows of a minute and more: where keys expire by a real clock, they outlive the test.
var cases = []Case{
	{
		Name:   "a log that is longer than what can be read at a glance",
		Limits: []ratelimit.Limit{{MaxRequests: 40, Window: minute}},
		Steps: []Step{
			{Cost: 10, Allowed: true, Remaining: 30, ResetAfter: minute},
			{After: second, Cost: 20, Allowed: true, Remaining: 10, ResetAfter: 59 * second},
			{After: second, Cost: 1, Allowed: true, Remaining: 9, ResetAfter: 58 * second},
			{After: second, Cost: 10, Remaining: 9, RetryAfter: 57 * second, ResetAfter: 57 * second},
			{After: second, Cost: 9, Allowed: true, ResetAfter: 56 * second},
			{Cost: 11, RetryAfter: 57 * second, ResetAfter: 56 * second},
			{After: 56 * second, Cost: 1, Allowed: true, Remaining: 9, ResetAfter: second},
		},
	},
	{
		Name:   "requests up to the limit are allowed and the next is denied",
		Limits: []ratelimit.Limit{per(minute, 3)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 2, ResetAfter: minute},
			{Cost: 1, Allowed: true, Remaining: 1, ResetAfter: minute},
			{Cost: 1, Allowed: true, Remaining: 0, ResetAfter: minute},
			{Cost: 1, RetryAfter: minute, ResetAfter: minute},
		},
	},
	{
		Name:   "a request exactly Window old has left, one tick earlier it has not",
		Limits: []ratelimit.Limit{per(minute, 1)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{After: minute - tick, Cost: 1, RetryAfter: tick, ResetAfter: tick},
			{After: tick, Cost: 1, Allowed: true, ResetAfter: minute},
			{After: minute - tick, Cost: 1, RetryAfter: tick, ResetAfter: tick},
		},
	},
	{
		Name:   "the window slides: no interval holds more than the limit, wherever it starts",
		Limits: []ratelimit.Limit{per(minute, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 1, ResetAfter: minute},
			{After: 59 * second, Cost: 1, Allowed: true, ResetAfter: second},
			{After: 1 * second, Cost: 1, Allowed: true, ResetAfter: 59 * second}, // a fixed window would allow two here
			{After: 1 * second, Cost: 1, RetryAfter: 58 * second, ResetAfter: 58 * second},
			{After: 58 * second, Cost: 1, Allowed: true, ResetAfter: second},
		},
	},
	{
		Name:   "a denied request leaves no trace: a client that keeps knocking gets in on time",
		Limits: []ratelimit.Limit{per(minute, 1)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{After: 20 * second, Cost: 1, RetryAfter: 40 * second, ResetAfter: 40 * second},
			{After: 20 * second, Cost: 1, RetryAfter: 20 * second, ResetAfter: 20 * second},
			{After: 20 * second, Cost: 1, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "requests of one microsecond are all counted",
		Limits: []ratelimit.Limit{per(minute, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 1, ResetAfter: minute},
			{Cost: 1, Allowed: true, Remaining: 0, ResetAfter: minute},
			{Cost: 1, RetryAfter: minute, ResetAfter: minute},
			{After: minute, Cost: 2, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "a cost of n waits for the n-th oldest to leave",
		Limits: []ratelimit.Limit{per(minute, 3)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 2, ResetAfter: minute},
			{After: 10 * second, Cost: 1, Allowed: true, Remaining: 1, ResetAfter: 50 * second},
			{After: 10 * second, Cost: 1, Allowed: true, Remaining: 0, ResetAfter: 40 * second},
			{Cost: 1, RetryAfter: 40 * second, ResetAfter: 40 * second},
			{Cost: 2, RetryAfter: 50 * second, ResetAfter: 40 * second},
			{Cost: 3, RetryAfter: 60 * second, ResetAfter: 40 * second},
			{After: 50*second - tick, Cost: 2, Remaining: 1, RetryAfter: tick, ResetAfter: tick},
			{After: tick, Cost: 2, Allowed: true, ResetAfter: 10 * second},
		},
	},
	{
		Name:   "a cost is taken whole or not at all",
		Limits: []ratelimit.Limit{per(minute, 3)},
		Steps: []Step{
			{Cost: 2, Allowed: true, Remaining: 1, ResetAfter: minute},
			{Cost: 2, Remaining: 1, RetryAfter: minute, ResetAfter: minute},
			{Cost: 1, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "a cost above the limit is never allowed, and no wait is promised",
		Limits: []ratelimit.Limit{per(hour, 9), per(minute, 3)},
		Steps: []Step{
			{Cost: 4, Limit: 1, Remaining: 3, Reason: ratelimit.TooCostly},
			{Cost: 1, Allowed: true, Limit: 1, Remaining: 2, ResetAfter: minute},
			{Cost: 4, Limit: 1, Remaining: 2, ResetAfter: minute, Reason: ratelimit.TooCostly},
		},
	},
	{
		Name:   "no cost is so large that it fits by overflowing",
		Limits: []ratelimit.Limit{per(minute, 3)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 2, ResetAfter: minute},
			{Cost: math.MaxInt, Remaining: 2, ResetAfter: minute, Reason: ratelimit.TooCostly},
			{Cost: math.MaxInt - 1, Remaining: 2, ResetAfter: minute, Reason: ratelimit.TooCostly},
			{Cost: 2, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "a cost of exactly the limit is allowed on an empty log",
		Limits: []ratelimit.Limit{per(minute, 3)},
		Steps:  []Step{{Cost: 3, Allowed: true, ResetAfter: minute}},
	},
	{
		Name:   "a look answers as a request would be answered, and counts nothing",
		Limits: []ratelimit.Limit{per(minute, 1)},
		Steps: []Step{
			{Allowed: true, Remaining: 1, Reason: ratelimit.Looked},
			{Allowed: true, Remaining: 1, Reason: ratelimit.Looked},
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{After: second, RetryAfter: 59 * second, ResetAfter: 59 * second},
			{After: 59 * second, Allowed: true, Remaining: 1, Reason: ratelimit.Looked},
		},
	},
	{
		Name:   "of two limits the one with the longest wait binds a denial",
		Limits: []ratelimit.Limit{per(minute, 2), per(hour, 3)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 1, ResetAfter: minute},
			{Cost: 1, Allowed: true, Remaining: 0, ResetAfter: minute},
			{Cost: 1, RetryAfter: minute, ResetAfter: minute},
			{After: minute, Cost: 1, Allowed: true, Limit: 1, Remaining: 0, ResetAfter: 59 * minute},
			{Cost: 1, Limit: 1, RetryAfter: 59 * minute, ResetAfter: 59 * minute},
			{Cost: 2, Limit: 1, RetryAfter: 59 * minute, ResetAfter: 59 * minute},
		},
	},
	{
		Name:   "of two limits with as much left the one that gives some back last binds",
		Limits: []ratelimit.Limit{per(minute, 2), per(hour, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Limit: 1, Remaining: 1, ResetAfter: hour},
			{Cost: 1, Allowed: true, Limit: 1, Remaining: 0, ResetAfter: hour},
		},
	},
	{
		Name:   "a denial by one limit charges none",
		Limits: []ratelimit.Limit{per(minute, 1), per(hour, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{Cost: 1, RetryAfter: minute, ResetAfter: minute},
			{After: minute, Cost: 1, Allowed: true, Limit: 1, ResetAfter: 59 * minute}, // the second of the hour, not the third
		},
	},
	{
		Name:   "a refund gives back exactly its own entries, wherever they lie",
		Limits: []ratelimit.Limit{per(minute, 3)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 2, ResetAfter: minute},
			{After: 10 * second, Cost: 2, Allowed: true, Remaining: 0, ResetAfter: 50 * second},
			{Refund: 2},
			{Allowed: true, Remaining: 2, ResetAfter: 50 * second, Reason: ratelimit.Looked},
			{Refund: 1},
			{Allowed: true, Remaining: 3, Reason: ratelimit.Looked},
		},
	},
	{
		Name:   "a second refund changes nothing",
		Limits: []ratelimit.Limit{per(minute, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 1, ResetAfter: minute},
			{Cost: 1, Allowed: true, Remaining: 0, ResetAfter: minute},
			{Refund: 1},
			{Refund: 1},
			{Allowed: true, Remaining: 1, ResetAfter: minute, Reason: ratelimit.Looked},
		},
	},
	{
		Name:   "a refund of what has left changes nothing",
		Limits: []ratelimit.Limit{per(minute, 1)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{After: minute, Cost: 1, Allowed: true, ResetAfter: minute},
			{Refund: 1},
			{Cost: 1, RetryAfter: minute, ResetAfter: minute},
		},
	},
	{
		Name:   "a reset forgets the key, and an absent key can be reset",
		Limits: []ratelimit.Limit{per(minute, 1)},
		Steps: []Step{
			{Reset: true},
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{Reset: true},
			{Cost: 1, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "when the clock steps back no entry is forgotten, and none counts longer than a window from then on",
		Limits: []ratelimit.Limit{per(minute, 2)},
		Steps: []Step{
			{Cost: 1, Allowed: true, Remaining: 1, ResetAfter: minute},
			{After: 10 * second, Cost: 1, Allowed: true, Remaining: 0, ResetAfter: 50 * second},
			{After: -30 * second, Cost: 1, RetryAfter: minute, ResetAfter: minute},
			{After: minute - tick, Cost: 1, RetryAfter: tick, ResetAfter: tick},
			{After: tick, Cost: 2, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "when the clock was an hour ahead a key is shut for one window, not for an hour",
		Limits: []ratelimit.Limit{per(minute, 1)},
		Steps: []Step{
			{After: hour, Cost: 1, Allowed: true, ResetAfter: minute},
			{After: -hour, RetryAfter: minute, ResetAfter: minute},
			{Cost: 1, RetryAfter: minute, ResetAfter: minute},
			{After: 30 * second, Cost: 1, RetryAfter: 30 * second, ResetAfter: 30 * second},
			{After: 30 * second, Cost: 1, Allowed: true, ResetAfter: minute},
		},
	},
	{
		Name:   "an entry that counts longer because the clock stepped back is kept as long",
		Limits: []ratelimit.Limit{per(minute, 1)},
		Steps: []Step{
			{Cost: 1, Allowed: true, ResetAfter: minute},
			{After: -hour, RetryAfter: minute, ResetAfter: minute},
			{After: 90 * second, Cost: 1, RetryAfter: minute, ResetAfter: minute},
			{After: 45 * second, Cost: 1, RetryAfter: 15 * second, ResetAfter: 15 * second},
		},
	},
}
