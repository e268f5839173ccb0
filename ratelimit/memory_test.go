package ratelimit_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/storetest"
)

func TestContractInMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Backend {
		m := newMemory(0)
		return storetest.Backend{Store: m, Advance: m.advance, Now: m.since}
	})
}

func TestModelInMemory(t *testing.T) {
	storetest.Model(t, func(*testing.T) storetest.Backend {
		m := newMemory(0)
		return storetest.Backend{Store: m, Advance: m.advance, Now: m.since}
	})
}

func TestBoundInMemory(t *testing.T) {
	storetest.Bound(t, func(*testing.T) storetest.Backend {
		m := newMemory(0)
		return storetest.Backend{Store: m, Advance: m.advance, Now: m.since}
	})
}

// began is when the clocks of tests begin.
var began = time.Unix(1_763_671_412, 345_678_000)

// memory is a MemoryStore whose clock the test moves.
type memory struct {
	*ratelimit.MemoryStore
	now time.Time
}

func newMemory(maxKeys int) *memory {
	m := &memory{now: began}
	m.MemoryStore = ratelimit.NewMemoryStore(ratelimit.MemoryConfig{
		MaxKeys: maxKeys,
		Now:     func() time.Time { return m.now },
	})
	return m
}

func (m *memory) advance(d time.Duration) { m.now = m.now.Add(d) }

// since is what the store's clock shows.
func (m *memory) since() time.Duration { return m.now.Sub(began) }

// allow takes one request on key.
func (m *memory) allow(key string, limits ...ratelimit.Limit) ratelimit.Decision {
	decisions := make([]ratelimit.Decision, 1)
	m.Take(context.Background(), uuid.New(), []ratelimit.Claim{{Key: key, Limits: limits, Cost: 1}}, decisions) // cannot fail
	if d := decisions[0]; d.Allowed != (d.Reason == ratelimit.Counted) || d.Allowed != (d.Ticket.Cost == 1) {
		panic(fmt.Sprintf("counted and denied at once: %+v", d))
	}
	return decisions[0]
}

// flood sends one request for each of n keys that were never seen before.
func (m *memory) flood(n int, limits ...ratelimit.Limit) {
	for range n {
		m.allow(uuid.NewString(), limits...)
	}
}

var (
	twoPerTenSeconds = ratelimit.Limit{MaxRequests: 2, Window: 10 * time.Second}
	threePerMinute   = ratelimit.Limit{MaxRequests: 3, Window: time.Minute}
	fivePerHour      = ratelimit.Limit{MaxRequests: 5, Window: time.Hour}
)

func TestAFloodOfNewKeysDoesNotGrowTheStorePastItsBound(t *testing.T) {
	t.Parallel()
	for _, maxKeys := range []int{1, 2, 3, 63, 64, 100, 1000} {
		m := newMemory(maxKeys)
		m.flood(5*maxKeys+100, threePerMinute, fivePerHour)
		if n := m.Len(); n > maxKeys || n < maxKeys/2 {
			t.Errorf("MaxKeys %d: it holds %d logs", maxKeys, n)
		}
	}
}

func TestAFloodOfNewKeysDoesNotGiveAnExhaustedKeyItsQuotaBack(t *testing.T) {
	t.Parallel()
	m := newMemory(64)
	for range 3 {
		m.allow("victim", threePerMinute)
	}
	m.flood(10_000, threePerMinute)
	if d := m.allow("victim", threePerMinute); d.Allowed {
		t.Error("the exhausted key was forgotten")
	}
}

func TestWhenTheStoreIsFullNewKeysAreLimitedTogether(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	allowed := 0
	for i := range 100 {
		if m.allow(fmt.Sprint("new", i), threePerMinute).Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d requests of new keys were allowed, want the 3 of one log", allowed)
	}
	if d := m.allow("old", threePerMinute); !d.Allowed || d.Remaining != 1 {
		t.Errorf("the key that has a log of its own must not notice: %+v", d)
	}
	if d := m.allow("slow", fivePerHour); !d.Allowed || d.Remaining != 4 {
		t.Errorf("a limit with another window has another overflow log: %+v", d)
	}
}

func TestAKeyThatGetsItsOwnLogKeepsWhatItUsedInTheOverflow(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	m.advance(30 * time.Second)
	for range 2 { // in the overflow log
		m.allow("new", threePerMinute)
	}
	m.advance(30 * time.Second) // old has left, and its place is free
	if d := m.allow("new", threePerMinute); !d.Allowed || d.Remaining != 0 {
		t.Errorf("the third request in a minute: %+v", d)
	}
	if d := m.allow("new", threePerMinute); d.Allowed {
		t.Error("a fourth request within 30 s")
	}
}

func TestAKeyWhoseLogHasLeftWhileTheStoreIsFullIsNotDeniedForOthers(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	m.advance(59 * time.Second)
	m.flood(3, threePerMinute) // fills the overflow log
	m.advance(time.Second)
	if d := m.allow("old", threePerMinute); !d.Allowed || d.Remaining != 2 {
		t.Errorf("its only entry has left: %+v", d)
	}
}

func TestInAFullStoreAKeyIsCountedUnderAnyWindow(t *testing.T) {
	t.Parallel()
	onePerMinute, onePerHour := ratelimit.Limit{MaxRequests: 1, Window: time.Minute}, ratelimit.Limit{MaxRequests: 1, Window: time.Hour}
	m := newMemory(1)
	m.allow("old", threePerMinute)
	if !m.allow("k", onePerMinute).Allowed || m.allow("k", onePerHour).Allowed {
		t.Error("its entry in one overflow log is not counted in another")
	}
}

func TestAnEntryThatAKeyTakesAlongNoLongerWeighsOnOthers(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	m.advance(30 * time.Second)
	m.allow("k", threePerMinute) // in the overflow log
	m.advance(30 * time.Second)
	m.allow("k", threePerMinute) // in a log of its own
	m.allow("x", threePerMinute)
	m.allow("y", threePerMinute)
	if d := m.allow("z", threePerMinute); !d.Allowed || d.Remaining != 0 {
		t.Errorf("the third of the overflow log: %+v", d)
	}
}

func TestWhatHasLeftAnOverflowLogIsForgotten(t *testing.T) {
	t.Parallel()
	m := newMemory(1000)
	wide := ratelimit.Limit{MaxRequests: 100_000, Window: time.Minute}
	m.flood(5000, wide)
	for range 20 { // never idle, and with room for all
		m.advance(6 * time.Second)
		m.flood(20, wide)
	}
	if n := m.Entries(); n > 1000 {
		t.Errorf("it holds %d entries two windows after the flood", n)
	}
}

func TestRemainingInAFullStoreIsWhatTheNextRequestFinds(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	m.allow("k", fivePerHour)
	m.allow("k", fivePerHour)
	if d := m.allow("k", threePerMinute); d.Remaining != 0 {
		t.Errorf("told that %d are left", d.Remaining)
	}
	if d := m.allow("k", threePerMinute); d.Allowed {
		t.Error("a fourth request in a minute")
	}
}

func TestAnOverflowLogSurvivesAClockThatStepsBack(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", fivePerHour)
	m.allow("k", fivePerHour)
	m.advance(100 * time.Second)
	m.allow("z", threePerMinute)
	m.allow("z", threePerMinute)
	m.advance(-90 * time.Second)
	m.allow("k", threePerMinute) // the first claim that follows the step
	m.advance(time.Minute)
	if d := m.allow("q", threePerMinute); !d.Allowed || d.Remaining != 2 {
		t.Errorf("a window later: %+v", d)
	}
}

func TestTheFirstNewKeyAfterALogHasLeftFindsItsRoom(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	m.advance(59 * time.Second)
	m.flood(3, threePerMinute) // fills the overflow log
	m.advance(time.Second)
	if d := m.allow("new", threePerMinute); !d.Allowed || d.Remaining != 2 {
		t.Errorf("there is room for it: %+v", d)
	}
}

func TestClaimsThatShareAnOverflowLogAreStillTakenTogether(t *testing.T) {
	t.Parallel()
	m := newMemory(1)
	m.allow("old", threePerMinute)
	m.flood(2, threePerMinute)
	claims := []ratelimit.Claim{{Key: "a", Limits: []ratelimit.Limit{threePerMinute}, Cost: 1}, {Key: "b", Limits: []ratelimit.Limit{threePerMinute}, Cost: 1}}
	decisions := make([]ratelimit.Decision, 2)
	m.Take(t.Context(), uuid.New(), claims, decisions)
	for i, d := range decisions {
		if !d.Allowed || d.Reason != ratelimit.Counted {
			t.Errorf("claim %d: %+v", i, d)
		}
	}
	if d := m.allow("c", threePerMinute); d.Allowed {
		t.Error("the overflow log is full, and lets another one in")
	}
}

func TestAnOverflowIsNotCopiedIntoEveryNewLog(t *testing.T) {
	t.Parallel()
	m := newMemory(1000)
	wide := ratelimit.Limit{MaxRequests: 1000, Window: time.Minute}
	m.flood(1000, wide)
	m.advance(30 * time.Second)
	m.flood(1000, wide) // in the overflow log
	m.advance(30 * time.Second)
	m.flood(1000, wide) // there is room again
	if n := m.Entries(); n > 2001 {
		t.Errorf("it holds %d entries for 2000 requests in the last minute", n)
	}
}

// The clock is read under the lock, or a request that waited for the lock would be timed before one that did not.
func TestTheClockIsReadByOneRequestAtATime(t *testing.T) {
	t.Parallel()
	var inside atomic.Int32
	start := time.Now()
	m := ratelimit.NewMemoryStore(ratelimit.MemoryConfig{MaxKeys: 1, Now: func() time.Time {
		if inside.Add(1) > 1 {
			t.Error("two requests read the clock at once")
		}
		runtime.Gosched()
		inside.Add(-1)
		return start
	}})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			decisions := make([]ratelimit.Decision, 1)
			for range 200 {
				m.Take(t.Context(), uuid.New(), []ratelimit.Claim{{Key: "k", Limits: []ratelimit.Limit{threePerMinute}, Cost: 1}}, decisions)
			}
		})
	}
	wait.Wait()
}

func TestRoomComesBackWhenLogsHaveLeft(t *testing.T) {
	t.Parallel()
	m := newMemory(6400)
	m.flood(20_000, threePerMinute)
	m.advance(time.Minute)
	for i := range 20 {
		if d := m.allow(fmt.Sprint("late", i), threePerMinute); d.Remaining != 2 {
			t.Errorf("late%d: %d left, want 2: a new key has its full quota once the flood is a window old", i, d.Remaining)
		}
	}
}

func TestLogsThatHaveLeftAreCleanedUpAsOtherKeysAreUsed(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	m := newMemory(10 * keys)
	m.flood(keys, threePerMinute)
	m.advance(time.Minute)
	m.flood(keys, threePerMinute)
	if n := m.Len(); n > keys+keys/10 {
		t.Errorf("it holds %d logs, of which %d have left", n, n-keys)
	}
}

func TestAClockThatWasAheadDoesNotKeepLogsFromBeingForgotten(t *testing.T) {
	t.Parallel()
	m := newMemory(1000)
	m.advance(1000 * time.Hour)
	m.flood(1, threePerMinute) // it is in front
	m.advance(-1000 * time.Hour)
	m.flood(500, threePerMinute)
	m.advance(time.Minute)
	for range 500 {
		m.allow("k", threePerMinute)
	}
	if n := m.Len(); n > 2 {
		t.Errorf("it holds %d logs: one that is ahead holds up those that have left", n)
	}
}

// A tiny store under random traffic is full most of the time. However requests of a key are spread over
// its own log and the overflow logs, it is never allowed more than its limit.
func TestNoKeyExceedsItsLimitHoweverFullTheStore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(rapid.IntRange(1, 4).Draw(t, "MaxKeys"))
		start, allowed := m.now, map[string][]time.Duration{}
		for range rapid.IntRange(1, 120).Draw(t, "requests") {
			m.advance(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "key")
			if m.allow(key, threePerMinute, twoPerTenSeconds).Allowed {
				allowed[key] = append(allowed[key], m.now.Sub(start))
			}
		}
		for key, times := range allowed {
			for _, limit := range []ratelimit.Limit{threePerMinute, twoPerTenSeconds} {
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

func TestAClockThatStepsBackByYearsHoldsUpNoDecision(t *testing.T) {
	t.Parallel()
	m := newMemory(0)
	limit := ratelimit.Limit{MaxRequests: 2, Window: time.Second, Buckets: 1000}
	m.allow("k", limit)
	m.advance(-10 * 365 * 24 * time.Hour)
	begun := time.Now() // of real time: a look at every sub-window in between took minutes
	if d := m.allow("k", limit); !d.Allowed || d.Remaining != 0 {
		t.Errorf("%+v, want what was counted before to count", d)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a decision took %v", took)
	}
}

func TestALogIsKeptForItsLongestWindowWhereManyWindowsShareAQueue(t *testing.T) {
	t.Parallel()
	m := newMemory(1024)
	per := func(window time.Duration) ratelimit.Limit { return ratelimit.Limit{MaxRequests: 3, Window: window} }
	for i := range ratelimit.MaxQueues - 1 {
		m.allow(fmt.Sprint("w", i), per(time.Hour+time.Duration(i)*time.Minute))
	}
	m.allow("k", per(time.Second)) // in the last queue
	allowed := 0
	knock := func() {
		for range 5 {
			if m.allow("k", per(24*time.Hour)).Allowed {
				allowed++
			}
		}
	}
	knock()
	m.advance(3 * time.Second)
	for i := range 10 {
		m.allow(fmt.Sprint("x", i), per(time.Hour))
	}
	knock()
	if allowed != 2 {
		t.Errorf("%d were allowed beside 1, want 2: a log that still counts was forgotten", allowed)
	}
}
