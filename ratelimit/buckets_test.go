package ratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/sashlimit/sash/ratelimit"
)

// What limits in Buckets need of the memory store, and of the Limiter before another store, beside what storetest says.

var (
	onePerMinuteInOne   = ratelimit.Limit{MaxRequests: 1, Window: time.Minute, Buckets: 1}
	threePerMinuteInSix = ratelimit.Limit{MaxRequests: 3, Window: time.Minute, Buckets: 6}
	fivePerHourInSixty  = ratelimit.Limit{MaxRequests: 5, Window: time.Hour, Buckets: 60}
)

func (m *memory) refund(t *testing.T, key string, ticket ratelimit.Ticket) {
	t.Helper()
	if err := m.Refund(t.Context(), key, ticket); err != nil {
		t.Fatal(err)
	}
}

// A log is forgotten once all has left, or was refunded: but not that it was.
func TestASecondRefundChangesNothingHoweverLittleIsLeftOfTheLog(t *testing.T) {
	t.Parallel()
	m := newMemory(0)
	m.advance(30 * time.Second)
	m.allow("k", onePerMinuteInOne)
	m.advance(119 * time.Second)
	first := m.allow("k", onePerMinuteInOne)
	m.refund(t, "k", first.Ticket)
	m.advance(time.Second)
	for i := range 1000 { // of every shard
		m.allow(fmt.Sprint("other", i), onePerMinuteInOne)
	}
	m.advance(time.Second)
	m.allow("k", onePerMinuteInOne)
	m.refund(t, "k", first.Ticket)
	if d := m.allow("k", onePerMinuteInOne); d.Allowed {
		t.Errorf("it took another request off: %+v", d)
	}
}

func TestARefundFromBeforeAClockThatSteppedBackTakesNothingOffWhatCameSince(t *testing.T) {
	t.Parallel()
	m := newMemory(0)
	m.advance(time.Hour)
	first := m.allow("k", onePerMinuteInOne)
	m.advance(-time.Hour)
	if err := m.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	m.advance(time.Hour)
	m.allow("k", onePerMinuteInOne)
	m.refund(t, "k", first.Ticket)
	if d := m.allow("k", onePerMinuteInOne); d.Allowed {
		t.Errorf("it took another request off: %+v", d)
	}
}

func TestAMillionRequestsInBucketsTakeNoMoreMemoryThanAFew(t *testing.T) {
	t.Parallel()
	m := newMemory(0)
	limit := ratelimit.Limit{MaxRequests: 1_000_000, Window: time.Minute, Buckets: 60}
	for range 1_000_000 {
		m.allow("k", limit)
		m.advance(50 * time.Microsecond)
	}
	counters, entries := m.Counters(), m.Entries()
	if counters != 61 || entries != 0 {
		t.Errorf("it holds %d counters and %d entries, want 61 and none", counters, entries)
	}
}

func TestWhatWasRefundedInBucketsIsForgottenOnceItWouldHaveLeft(t *testing.T) {
	t.Parallel()
	m := newMemory(0)
	for range 10_000 {
		m.refund(t, "k", m.allow("k", threePerMinuteInSix).Ticket)
		m.advance(time.Second)
	}
	if n := m.Counters(); n > 7+4*70 { // what is in a span, while it is swept at twice that
		t.Errorf("it holds %d numbers and ids, 70 s of one a second", n)
	}
	m.advance(3 * time.Minute)
	m.flood(1000, threePerMinute)
	m.advance(3 * time.Minute)
	m.flood(1000, threePerMinute)
	if n := m.Counters(); n != 0 {
		t.Errorf("it holds %d numbers and ids of a key that is silent", n)
	}
}

func TestWhenTheStoreIsFullNewKeysInBucketsAreLimitedTogether(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", fivePerHour)
	allowed := 0
	for i := range 100 {
		if m.allow(fmt.Sprint("new", i), threePerMinuteInSix).Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d requests of new keys were allowed, want the 3 of one limit", allowed)
	}
	if d := m.allow("old", fivePerHour, threePerMinuteInSix); !d.Allowed {
		t.Errorf("the key that has a log of its own must not notice: %+v", d)
	}
	m.advance(time.Hour) // now there is room
	if d := m.allow("new1", threePerMinuteInSix); !d.Allowed || d.Remaining != 2 {
		t.Errorf("what new keys have used has left: %+v", d)
	}
}

func TestAKeyInBucketsThatGetsALogOfItsOwnKeepsWhatItUsedWithoutOne(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	m.advance(59 * time.Second)
	for range 2 {
		m.allow("new", threePerMinuteInSix)
	}
	m.advance(time.Second) // old has left, and its place is free
	if d := m.allow("new", threePerMinuteInSix); !d.Allowed || d.Remaining != 0 {
		t.Errorf("the third request in a minute: %+v", d)
	}
	if d := m.allow("new", threePerMinuteInSix); d.Allowed {
		t.Error("a fourth request within two seconds")
	}
}

// As TestNoKeyExceedsItsLimitHoweverFullTheStore, with limits of both kinds.
func TestNoKeyInBucketsExceedsItsLimitHoweverFullTheStore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(rapid.IntRange(1, 4).Draw(t, "MaxKeys"))
		start, allowed := m.now, map[string][]time.Duration{}
		limits := []ratelimit.Limit{threePerMinuteInSix, twoPerTenSeconds, {MaxRequests: 2, Window: 20 * time.Second, Buckets: 1}}
		for range rapid.IntRange(1, 120).Draw(t, "requests") {
			m.advance(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "key")
			if m.allow(key, limits...).Allowed {
				allowed[key] = append(allowed[key], m.now.Sub(start))
			}
		}
		for key, times := range allowed {
			for _, limit := range limits {
				for i, at := range times {
					first := slices.IndexFunc(times, func(s time.Duration) bool { return s > at-limit.Window })
					if n := i - first + 1; n > limit.MaxRequests {
						t.Fatalf("%s: %d requests in the %v before %v", key, n, limit.Window, at)
					}
				}
			}
		}
	})
}

func TestUnderFailLocalLimitsInBucketsGoOnWhereTheyStand(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
		if n := w.flood(lim, 3, "k", fivePerHourInSixty); n != 3 {
			t.Fatalf("%d of 3 were allowed", n)
		}
		w.set("LOADING Redis is loading the dataset in memory")
		if n := w.flood(lim, 10, "k", fivePerHourInSixty); n != 2 {
			t.Errorf("%d were allowed alone, want the 2 that were left", n)
		}
	})
}

// Counters know no ids: a store that has lost them is believed, and not asked twice.
func TestAStoreThatHasLostItsCountersIsNotContradicted(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{})
		w.flood(lim, 3, "k", fivePerHourInSixty)
		w.begin()
		w.asked()
		if d := w.allow(lim, "k", fivePerHourInSixty); d.Reason != ratelimit.Counted || d.Remaining != 4 {
			t.Errorf("got %+v", d)
		}
		if n := w.asked(); n != 1 {
			t.Errorf("%d scripts for one decision", n)
		}
		mixed := []ratelimit.Limit{{MaxRequests: 100, Window: time.Hour}, fivePerHourInSixty}
		w.flood(lim, 3, "mixed", mixed...)
		w.redis.Del("{rate_limit:mixed}~")
		w.asked()
		if d := w.allow(lim, "mixed", mixed...); d.Reason != ratelimit.Counted || d.Remaining != 4 {
			t.Errorf("the log is there, and the counters are not: %+v", d)
		}
		if n := w.asked(); n != 1 {
			t.Errorf("%d scripts for one decision beside a log", n)
		}
	})
}

// What requests are counted in buckets for says nothing about a log.
func TestMixedClaimsThroughALimiterContradictNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
		user := ratelimit.Claim{Key: "user", Limits: []ratelimit.Limit{threePerMinute, fivePerHourInSixty}, Cost: 1}
		ip := ratelimit.Claim{Key: "ip", Limits: []ratelimit.Limit{{MaxRequests: 4, Window: time.Minute, Buckets: 6}}, Cost: 1}
		all := func(want ...ratelimit.Reason) []ratelimit.Decision {
			t.Helper()
			decisions, err := lim.AllowAll(context.Background(), user, ip)
			if err != nil || decisions[0].Reason != want[0] || decisions[1].Reason != want[1] {
				t.Fatalf("got %+v, %v, want %v", decisions, err, want)
			}
			return decisions
		}
		w.asked()
		first := all(ratelimit.Counted, ratelimit.Counted)
		for i, key := range []string{"user", "ip"} {
			if err := lim.Refund(t.Context(), key, first[i].Ticket); err != nil {
				t.Fatal(err)
			}
		}
		w.asked()
		for range 3 {
			all(ratelimit.Counted, ratelimit.Counted)
		}
		if n := w.asked(); n != 3 {
			t.Errorf("%d scripts for three decisions", n)
		}
		all(ratelimit.Exhausted, ratelimit.Withheld)
		if d := w.allow(lim, "ip", ip.Limits...); d.Remaining != 0 {
			t.Errorf("after three of four and one more: %+v", d)
		}
	})
}

// The numbers of sub-windows on the clock of Redis say nothing on that of this process.
func TestALimiterRemembersRefundsInBucketsNoLongerThanTheyMatter(t *testing.T) {
	t.Parallel()
	m := newMemory(0)
	m.advance(time.Second)
	redis := ratelimit.Ticket{Cost: 1, Counters: "6x1m0s." + strconv.FormatInt(1_763_671_412/10, 36)}
	for range 10_000 {
		m.allow("k", threePerMinuteInSix)
		redis.ID = uuid.New()
		m.refund(t, "k", redis)
		m.advance(time.Second)
	}
	if n := m.Counters(); n > 7+4*70 {
		t.Errorf("it holds %d numbers and ids, 70 s of one a second", n)
	}
}
