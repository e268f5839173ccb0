package ratelimit_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// one slow answer blunts the proof of a loss for its key for as long as the log is not empty.
func TestOneSlowAnswerDoesNotLetALaterLossThrough(t *testing.T) {
	for _, once := range []time.Duration{0, 90 * time.Millisecond} {
		inWorld(t, func(w *world) {
			lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
			limit := ratelimit.Limit{MaxRequests: 4, Window: time.Second}
			w.allow(lim, "warm", limit) // the script is known
			w.slowly(once)
			w.allow(lim, "k", limit)
			w.slowly(0)
			for range 20 { // the slow one is long gone, the log never empty
				time.Sleep(950 * time.Millisecond)
				w.allow(lim, "k", limit)
			}
			if n := w.flood(lim, 3, "k", limit); n != 2 {
				t.Fatalf("%d", n)
			}
			time.Sleep(950 * time.Millisecond) // far more than 1/1000 is left of the window
			w.redis.Del("rate_limit:k")
			if n := w.flood(lim, 8, "k", limit); n != 1 {
				t.Errorf("slow once by %v: %d more allowed 950 ms after 3, limit 4/1s, one process, FailLocal", once, n)
			}
		})
	}
}

// a reset of one key forgets the grants in flight of all other keys of its shard.
func TestAResetOfAnotherKeyForgetsNoGrantInFlight(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal, LocalKeys: 1000})
		w.allow(lim, "other", threePerMinute)
		lim.Reset(context.Background(), "warm") // the script is known
		w.slowly(40 * time.Millisecond)
		var n atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if w.allow(lim, "k", threePerMinute).Allowed {
					n.Add(1)
				}
			})
		}
		wg.Go(func() {
			time.Sleep(10 * time.Millisecond)
			if err := lim.Reset(context.Background(), "other"); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		w.set(silent)
		w.slowly(0)
		n.Add(int64(w.flood(lim, 10, "k", threePerMinute)))
		if n.Load() != 3 {
			t.Errorf("%d allowed in one window, limit 3, one process", n.Load())
		}
	})
}

// a refund by another process is taken for a loss, and undone.
func TestARefundByAnotherProcessIsNotUndone(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process(ratelimit.Config{AskAlways: true}), w.process(ratelimit.Config{AskAlways: true})
		var ticket ratelimit.Ticket
		for range 3 {
			ticket = w.allow(a, "k", threePerMinute).Ticket
		}
		time.Sleep(5 * time.Second)
		if err := b.Refund(context.Background(), "k", ticket); err != nil {
			t.Fatal(err)
		}
		if d := w.allow(a, "k", threePerMinute); !d.Allowed {
			t.Errorf("2 of 3 are counted: %+v", d)
		}
		members, _ := w.redis.ZMembers("rate_limit:k")
		for _, m := range members {
			if m == ticket.ID.String() {
				t.Errorf("the refunded entry is in the log again")
			}
		}
	})
}

// an allowance by the store does not end a remembered denial.
func TestAnAllowanceEndsARememberedDenial(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.process(ratelimit.Config{}), w.process(ratelimit.Config{})
		one := w.allow(b, "k", threePerMinute).Ticket
		two := w.allow(b, "k", threePerMinute).Ticket
		w.allow(b, "k", threePerMinute)
		w.allow(a, "k", threePerMinute) // denied, remembered
		b.Refund(context.Background(), "k", one)
		b.Refund(context.Background(), "k", two)
		d, _ := a.AllowAll(context.Background(), ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{threePerMinute}, Cost: 1, AskAlways: true})
		if !d[0].Allowed || d[0].Remaining != 1 {
			t.Fatalf("%+v", d)
		}
		if d := w.allow(a, "k", threePerMinute); !d.Allowed {
			t.Errorf("the store has just said that 1 remains: %+v", d)
		}
	})
}

// onServers is a store on two servers, that of a key told by its first letter, which does as redisstore does on a Cluster.
type onServers struct {
	*ratelimit.MemoryStore
	mu       sync.Mutex
	silent   string
	rtt      time.Duration
	reminded int
}

func (s *onServers) down(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return key[:1] == s.silent
}
func (s *onServers) Server(key string) string { return key[:1] }
func (s *onServers) Together() bool           { return false }
func (s *onServers) Take(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	errs, failed := make(ratelimit.ClaimErrors, len(claims)), false
	for i, c := range claims {
		if s.down(c.Key) {
			<-ctx.Done()
			errs[i], failed = ctx.Err(), true
		}
	}
	if failed {
		return errs
	}
	return s.MemoryStore.Take(ctx, id, claims, decisions)
}
func (s *onServers) Remind(ctx context.Context, logs []ratelimit.Past) ([]time.Duration, error) {
	var r []time.Duration
	for _, p := range logs {
		if s.down(p.Key) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		select {
		case <-time.After(s.rtt):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		r = append(r, -1)
		s.mu.Lock()
		s.reminded++
		s.mu.Unlock()
	}
	return r, nil
}
func (s *onServers) Life(context.Context) (ratelimit.Life, error) {
	return ratelimit.Life{ID: "1"}, nil
}

// requests on two servers, one of which is silent, open the breaker of the other.
func TestASilentServerDoesNotOpenTheBreakerOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &onServers{MemoryStore: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{}), silent: "b"}
		lim := newLimiter(t, ratelimit.Config{Store: s})
		on := func(k string) ratelimit.Claim {
			return ratelimit.Claim{Key: k, Limits: []ratelimit.Limit{fivePerHour}, Cost: 1}
		}
		for i := range 3 {
			lim.AllowAll(t.Context(), on(fmt.Sprint("a", i)), on(fmt.Sprint("b", i)))
		}
		if d, _ := lim.Allow(t.Context(), "a9", fivePerHour); d.Reason != ratelimit.Counted {
			t.Errorf("server a is well: %+v", d)
		}
		// and later, by the probes alone
		time.Sleep(250 * time.Millisecond)
		lim.Allow(t.Context(), "a9", fivePerHour)
		synctest.Wait()
		if d, _ := lim.Allow(t.Context(), "a9", fivePerHour); d.Reason != ratelimit.Counted {
			t.Fatalf("server a is well, and was probed: %+v", d)
		}
		for i := range 5 {
			time.Sleep(350 * time.Millisecond)
			lim.AllowAll(t.Context(), on(fmt.Sprint("a", i)), on(fmt.Sprint("b", i)))
		}
		time.Sleep(150 * time.Millisecond)
		if d, _ := lim.Allow(t.Context(), "a9", fivePerHour); d.Reason != ratelimit.Counted {
			t.Errorf("after five probes of b: server a is well: %+v", d)
		}
	})
}

// on many servers a round of reminding takes one round trip a log, 64 in one Timeout: at 2 ms it never succeeds.
func TestManyLogsAreToldToAStoreOfManyServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &onServers{MemoryStore: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{}), rtt: 2 * time.Millisecond}
		lim := newLimiter(t, ratelimit.Config{Store: s, OnFailure: ratelimit.FailLocal, LocalKeys: 1000})
		lim.Allow(t.Context(), "a", fivePerHour)
		s.mu.Lock()
		s.silent = "a"
		s.mu.Unlock()
		for i := range 640 {
			lim.Allow(t.Context(), fmt.Sprint("a", i), fivePerHour)
		}
		s.mu.Lock()
		s.silent = ""
		s.mu.Unlock()
		time.Sleep(time.Second)
		lim.Allow(t.Context(), "a", fivePerHour) // probe
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		before := s.reminded
		s.mu.Unlock()
		bad := 0
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if d, _ := lim.Allow(t.Context(), "a-well", fivePerHour); d.Reason != ratelimit.Counted && d.Reason != ratelimit.Exhausted && d.Reason != ratelimit.CachedExhausted {
				bad++
			}
		}
		s.mu.Lock()
		if n := s.reminded - before; n > 0 {
			t.Errorf("10 s after it is back, with everything well, it still is reminded: %d logs in 10 s", n)
		}
		s.mu.Unlock()
		if bad > 0 {
			t.Errorf("the breaker of a healthy server was open for %d of 100 requests", bad)
		}
	})
}

// where keys lie apart, what a request of several claims takes for a moment denies another for a whole window.
func TestATransientDenialOnAClusterIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &onServers{MemoryStore: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{})}
		lim := newLimiter(t, ratelimit.Config{Store: s})
		// another process' request on two keys has taken its part of this one, and gives it back a round trip later
		id := uuid.New()
		var ds [1]ratelimit.Decision
		s.MemoryStore.Take(t.Context(), id, []ratelimit.Claim{{Key: "a", Limits: []ratelimit.Limit{onePerMinute}, Cost: 1}}, ds[:])
		lim.Allow(t.Context(), "a", onePerMinute)
		s.MemoryStore.Refund(t.Context(), "a", ratelimit.Ticket{ID: id, Cost: 1})
		time.Sleep(30 * time.Second)
		if d, _ := lim.Allow(t.Context(), "a", onePerMinute); !d.Allowed {
			t.Errorf("nothing is counted for 30 s: %+v", d)
		}
	})
}

// a key that holds no log keeps the rounds of reminding going, and others from being told.
func TestAKeyThatHoldsNoLogKeepsNoOtherFromBeingTold(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal, LocalKeys: 1000})
		w.allow(lim, "x", fivePerHour)
		w.redis.Set("rate_limit:poisoned", "x")
		w.set(silent)
		w.trip(lim)
		w.allow(lim, "poisoned", fivePerHour)
		w.set("")
		w.recover(lim)
		time.Sleep(10 * time.Second)
		w.asked()
		time.Sleep(60 * time.Second)
		if n := w.asked(); n > 2 {
			t.Errorf("%d remindings in a minute without a request", n)
		}
	})
}

// apart is a client whose store decides each key by itself, as on a Cluster.
type apart struct{ c *redis.Client }

func (a apart) Process(ctx context.Context, cmd redis.Cmder) error { return a.c.Process(ctx, cmd) }

// the same with redisstore itself.
func TestManyLogsAreToldByRedisstoreWhereKeysLieApart(t *testing.T) {
	inWorld(t, func(w *world) {
		client := redis.NewClient(&redis.Options{
			Addr:                  "127.0.0.1:1",
			Dialer:                func(context.Context, string, string) (net.Conn, error) { return w.redis.Dial() },
			ContextTimeoutEnabled: true, DialerRetries: 1, DisableIdentity: true, Protocol: 2,
		})
		w.Cleanup(func() { client.Close() })
		lim := newLimiter(w.T, ratelimit.Config{Store: redisstore.New(apart{client}), OnFailure: ratelimit.FailLocal, LocalKeys: 1000})
		w.allow(lim, "k", fivePerHour)
		w.set(silent)
		w.trip(lim)
		for i := range 200 {
			w.allow(lim, fmt.Sprint("k", i), fivePerHour)
		}
		w.set("")
		w.slowly(2 * time.Millisecond)
		w.recover(lim)
		time.Sleep(time.Minute)
		w.asked()
		time.Sleep(time.Minute)
		if n := w.asked(); n > 0 {
			t.Errorf("two minutes after Redis is back, and without a request, it is reminded %d times a minute", n)
		}
	})
}

// a Close waits for a whole round of reminding.
func TestACloseDoesNotWaitForAWholeRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &onServers{MemoryStore: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{}), rtt: time.Millisecond}
		lim := newLimiter(t, ratelimit.Config{Store: s, OnFailure: ratelimit.FailLocal})
		s.mu.Lock()
		s.silent = "a"
		s.mu.Unlock()
		for i := range 20_000 {
			lim.Allow(t.Context(), fmt.Sprint("a", i), fivePerHour)
		}
		s.mu.Lock()
		s.silent = ""
		s.mu.Unlock()
		time.Sleep(time.Second)
		lim.Allow(t.Context(), "a", fivePerHour) // probe
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		lim.Close()
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
	})
}

// entries that came from an overflow log are told as one request, at the time of the oldest.
func TestEntriesFromTheOverflowAreToldAtTheirOwnTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal, LocalKeys: 1})
		short := ratelimit.Limit{MaxRequests: 5, Window: 10 * time.Second}
		fivePerMinute := ratelimit.Limit{MaxRequests: 5, Window: time.Minute}
		w.set(silent)
		start := time.Now()
		at := func(s int) { time.Sleep(time.Until(start.Add(time.Duration(s) * time.Second))) }
		w.allow(lim, "full", short)
		at(1)
		w.allow(lim, "k", fivePerMinute)
		at(9)
		w.allow(lim, "full", short)
		at(17)
		w.allow(lim, "full", short)
		at(25)
		w.allow(lim, "full", short)
		at(30)
		w.allow(lim, "k", fivePerMinute)
		at(45)
		if d := w.allow(lim, "k", fivePerMinute); d.Remaining != 2 {
			t.Fatalf("%+v", d)
		}
		w.set("")
		time.Sleep(250 * time.Millisecond)
		w.allow(lim, "k", fivePerMinute)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		members, _ := w.redis.SortedSet("rate_limit:k")
		for m, score := range members {
			t.Logf("%s at %.0f s", m, (score-float64(start.UnixMicro()))/1e6)
		}
		at(62) // what was granted at 1 s has left; at 30, 45 (and 45.25) have not
		other := w.process(ratelimit.Config{})
		d, _ := other.Peek(context.Background(), "k", fivePerMinute)
		if d.Remaining > 2 {
			t.Errorf("%d remain for another process, want 2, for those at 30 s, 45 s and 45.25 s: %+v", d.Remaining, d)
		}
	})
}

// the mark of a reset that lies ahead of a clock that stepped back hides all later grants from reminding.
func TestAResetBeforeAClockStepDoesNotHideLaterGrants(t *testing.T) {
	for _, reset := range []bool{false, true} {
		inWorld(t, func(w *world) {
			lim := w.process(ratelimit.Config{OnFailure: ratelimit.FailLocal})
			limit := ratelimit.Limit{MaxRequests: 3, Window: 10 * time.Second}
			w.allow(lim, "k", limit)
			if reset {
				if err := lim.Reset(context.Background(), "k"); err != nil {
					t.Fatal(err)
				}
			} else {
				time.Sleep(11 * time.Second)
			}
			w.jump(-30 * time.Second)
			time.Sleep(time.Second)
			n := w.flood(lim, 3, "k", limit)
			time.Sleep(time.Second)
			w.jump(15 * time.Second)
			n += w.flood(lim, 4, "k", limit)
			if n > 3 {
				t.Errorf("reset %t: %d allowed in 2 s, limit 3/10s, one process", reset, n)
			}
		})
	}
}

// It minds no context.
func TestAStoreThatNeverReturnsHoldsABoundedNumberOfGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		var calls atomic.Int64
		store := &fake{take: func(ctx context.Context) error { calls.Add(1); <-block; return nil }} // ignores ctx
		lim := newLimiter(t, ratelimit.Config{Store: store})
		for range 10_000 {
			lim.Allow(t.Context(), "k", threePerMinute)
			time.Sleep(10 * time.Millisecond)
		}
		if n := calls.Load(); n > 100 {
			t.Errorf("%d goroutines hang in the store after 100 s of silence", n)
		}
		close(block)
	})
}

// where a round trip takes more than half the Timeout, a loss is never made good, and opens the breaker for all.
func TestALossIsMadeGoodWhereARoundTripTakesMoreThanHalfTheTimeout(t *testing.T) {
	inWorld(t, func(w *world) {
		lim := w.process(ratelimit.Config{}) // Timeout 100 ms
		w.flood(lim, 3, "k", threePerMinute)
		lim.Allow(context.Background(), "well", fivePerHour)
		time.Sleep(5 * time.Second)
		w.slowly(55 * time.Millisecond)
		if d := w.allow(lim, "well", fivePerHour); d.Reason != ratelimit.Counted {
			t.Fatalf("%+v", d)
		}
		w.redis.Del("rate_limit:k")
		got := map[ratelimit.Reason]int{}
		for range 100 {
			got[w.allow(lim, "k", threePerMinute).Reason]++
			time.Sleep(300 * time.Millisecond)
		}
		if got[ratelimit.FailedOpen] > 5 {
			t.Errorf("30 s on one key that was evicted, the store well: %v", got)
		}
	})
}
