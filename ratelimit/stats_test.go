package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

func ExampleLimiter_Stats() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	store := ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time { return now }})
	lim, err := ratelimit.New(ratelimit.Config{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 40 { // four a second, of which three are allowed
		if _, err := lim.Allow(context.Background(), "login", ratelimit.Limit{MaxRequests: 3, Window: time.Second}); err != nil {
			fmt.Println(err)
		}
		now = now.Add(250 * time.Millisecond)
	}
	now = now.Add(-time.Millisecond) // at the end of the tenth second: then the first one leaves
	s := lim.Stats()
	fmt.Println("in all:", s.Allowed[ratelimit.Counted], "allowed,", s.Denied[ratelimit.Exhausted], "denied")
	fmt.Printf("in a second of the last %v: %.1f allowed, %.1f denied\n", s.Recent.Span.Round(time.Second), s.Recent.AllowedPerSecond, s.Recent.DeniedPerSecond)
	// Output:
	// in all: 30 allowed, 10 denied
	// in a second of the last 10s: 3.0 allowed, 1.0 denied
}

var (
	plenty = ratelimit.Limit{MaxRequests: 1_000_000, Window: time.Hour}
	hourly = ratelimit.Limit{MaxRequests: 1, Window: time.Hour}
)

// book is a Limiter in memory on a clock that the test moves.
type book struct {
	*testing.T
	*ratelimit.Limiter
	since atomic.Int64
}

func newBook(t *testing.T) *book {
	t.Helper()
	b := &book{T: t}
	origin := time.Unix(1_763_671_412, 345_678_901)
	b.Limiter = newLimiter(t, ratelimit.Config{Store: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{
		Now: func() time.Time { return origin.Add(time.Duration(b.since.Load())) },
	})})
	return b
}

func (b *book) at(since time.Duration) { b.since.Store(int64(since)) }

func (b *book) allow(n int) {
	b.Helper()
	for range n {
		if d, err := b.Allow(context.Background(), "k", plenty); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// mustShow compares what the window holds with counts.
func mustShow(t *testing.T, got ratelimit.Recent, span time.Duration, allowed, denied, failed int) {
	t.Helper()
	count := func(rate float64) int { return int(math.Round(rate * got.Span.Seconds())) }
	want := []int{allowed, denied, failed}
	if have := []int{count(got.AllowedPerSecond), count(got.DeniedPerSecond), count(got.FailedPerSecond)}; fmt.Sprint(have) != fmt.Sprint(want) || got.Span != span {
		t.Errorf("allowed, denied, failed: %v in %v, want %v in %v (%+v)", have, got.Span, want, span, got)
	}
}

func TestADecisionIsShownUntilTheEdgeTenSecondsAfterItsOwn(t *testing.T) {
	t.Parallel()
	const tick = time.Nanosecond
	for _, read := range []bool{false, true} { // reading on the way changes nothing
		b := newBook(t)
		look := func() {
			if read {
				b.Stats()
			}
		}
		mustShow(t, b.Stats().Recent, 0, 0, 0, 0)
		b.allow(1)
		b.at(time.Second - tick)
		look()
		b.allow(2)
		b.at(time.Second)
		b.allow(4)
		look()
		b.at(2*time.Second - tick)
		b.allow(8)
		look()
		b.at(5 * time.Second)
		b.allow(16)
		mustShow(t, b.Stats().Recent, 5*time.Second, 31, 0, 0)
		b.at(10*time.Second - tick)
		mustShow(t, b.Stats().Recent, 10*time.Second-tick, 31, 0, 0)
		b.at(10 * time.Second)
		mustShow(t, b.Stats().Recent, 9*time.Second, 28, 0, 0)
		b.at(11*time.Second - tick)
		mustShow(t, b.Stats().Recent, 10*time.Second-tick, 28, 0, 0)
		b.at(11 * time.Second)
		b.allow(32)
		mustShow(t, b.Stats().Recent, 9*time.Second, 48, 0, 0)
		b.at(15 * time.Second)
		mustShow(t, b.Stats().Recent, 9*time.Second, 32, 0, 0)
		b.at(21 * time.Second)
		mustShow(t, b.Stats().Recent, 9*time.Second, 0, 0, 0)
		if n := b.Stats().Allowed[ratelimit.Counted]; n != 63 {
			t.Errorf("%d in all, want 63", n)
		}
	}
}

func TestRatesAreForASecondOfTheSpan(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.allow(5)
	if got := b.Stats().Recent; got != (ratelimit.Recent{}) {
		t.Errorf("at the moment when it was made: %+v, want nothing", got)
	}
	b.at(500 * time.Millisecond)
	if got, want := b.Stats().Recent, (ratelimit.Recent{Span: 500 * time.Millisecond, AllowedPerSecond: 10}); got != want {
		t.Errorf("after half a second: %+v, want %+v", got, want)
	}
	b.at(9500 * time.Millisecond)
	b.allow(90)
	if got, want := b.Stats().Recent, (ratelimit.Recent{Span: 9500 * time.Millisecond, AllowedPerSecond: 10}); got != want {
		t.Errorf("later: %+v, want %+v", got, want)
	}
}

// What came before a pause belongs to the second in which it came, whoever notices, and whenever.
func TestAfterAPauseOnlyWhatCameAfterItIsShown(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{time.Second, 9 * time.Second, 10 * time.Second, time.Hour} {
		for _, decides := range []bool{false, true} {
			b := newBook(t)
			b.allow(100)
			b.at(pause)
			want := 0
			if pause < 10*time.Second {
				want = 100
			}
			if decides {
				b.allow(1)
				want++
			}
			mustShow(t, b.Stats().Recent, min(pause, 9*time.Second), want, 0, 0)
		}
	}
}

func TestAClockThatStepsBackLosesNothingAndRatesGoOnThere(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.at(time.Hour)
	b.allow(7)
	b.at(time.Minute)
	for range 20 { // nobody reads meanwhile
		b.since.Add(int64(time.Second))
		b.allow(1)
	}
	mustShow(t, b.Stats().Recent, 9*time.Second, 10, 0, 0)
	if n := b.Stats().Allowed[ratelimit.Counted]; n != 27 {
		t.Errorf("%d in all, want 27", n)
	}
}

func TestAClockThatStepsBackBeginsASecondThere(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.at(time.Hour)
	b.allow(8)
	back := 10*time.Minute + 700*time.Millisecond
	b.at(back)
	b.allow(1)
	b.at(back + 1100*time.Millisecond)
	b.allow(2)
	b.at(back + 10*time.Second)
	mustShow(t, b.Stats().Recent, 9*time.Second, 2, 0, 0)
}

// Each verb has a way of its own through the Limiter.
func TestEveryVerbCountsInTheSecondOfItsDecision(t *testing.T) {
	t.Parallel()
	one := func(key string) ratelimit.Claim {
		return ratelimit.Claim{Key: key, Limits: []ratelimit.Limit{hourly}, Cost: 1}
	}
	for _, test := range []struct {
		name            string
		ask             func(context.Context, *ratelimit.Limiter) error
		allowed, denied int
	}{
		{"Allow", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.Allow(ctx, "new", hourly)
			return err
		}, 1, 0},
		{"Allow, of a key that is known", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.Allow(ctx, "known", plenty)
			return err
		}, 1, 0},
		{"Allow, denied", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.Allow(ctx, "full", hourly)
			return err
		}, 0, 1},
		{"Allow, two limits", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.Allow(ctx, "new", hourly, plenty)
			return err
		}, 1, 0},
		{"AllowN, too costly", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.AllowN(ctx, "new", 2, hourly)
			return err
		}, 0, 1},
		{"Peek", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.Peek(ctx, "new", hourly)
			return err
		}, 1, 0},
		{"AllowAll", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.AllowAll(ctx, one("a"), one("b"))
			return err
		}, 2, 0},
		{"AllowAll, one is denied and the other withheld or unasked", func(ctx context.Context, l *ratelimit.Limiter) error {
			_, err := l.AllowAll(ctx, one("new"), one("full"))
			return err
		}, 0, 1},
		{"Denied", func(ctx context.Context, l *ratelimit.Limiter) error {
			l.Denied(ctx, true, one("new"), one("full"))
			return nil
		}, 0, 1},
		{"Denied, and it is not", func(ctx context.Context, l *ratelimit.Limiter) error {
			l.Denied(ctx, true, one("new"))
			return nil
		}, 0, 0},
		{"an invalid one", func(ctx context.Context, l *ratelimit.Limiter) error {
			l.Allow(ctx, "new")
			return nil
		}, 0, 0},
	} {
		for name, config := range map[string]func() ratelimit.Config{
			"in memory": func() ratelimit.Config { return ratelimit.Config{} },
			"secret":    func() ratelimit.Config { return ratelimit.Config{KeySecret: make([]byte, 16)} },
			"remote":    func() ratelimit.Config { return ratelimit.Config{Store: newDistant()} },
			"asked":     func() ratelimit.Config { return ratelimit.Config{Store: newDistant(), AskAlways: true} },
		} {
			synctest.Test(t, func(t *testing.T) {
				lim := newLimiter(t, config())
				if _, err := lim.Allow(t.Context(), "known", plenty); err != nil {
					t.Fatal(err)
				}
				for range 3 { // the last denial is published, or remembered
					if _, err := lim.Allow(t.Context(), "full", hourly); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * time.Second) // what is asked now, must begin a bucket
				if err := test.ask(t.Context(), lim); err != nil {
					t.Fatal(err)
				}
				time.Sleep(9500 * time.Millisecond) // what came before, has left
				t.Log(name, test.name)              // shown if it fails
				mustShow(t, lim.Stats().Recent, 9500*time.Millisecond, test.allowed, test.denied, 0)
			})
		}
	}
}

// On one clock that never falls nothing leaves within nine seconds, whoever samples.
func TestRatesAtOnceAddUpToTheCounts(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 2000
	b := newBook(t)
	var askers sync.WaitGroup
	for g := range goroutines {
		askers.Go(func() {
			for i := range each {
				b.since.Add(int64(9*time.Second) / (goroutines * each))
				for key, limit := range map[string]ratelimit.Limit{fmt.Sprint("k", g): plenty, "full": hourly} {
					if _, err := b.Allow(context.Background(), key, limit); err != nil {
						b.Error(err)
					}
				}
				if i%500 == 0 {
					b.Stats()
				}
			}
		})
	}
	askers.Wait()
	got := b.Stats()
	mustShow(t, got.Recent, 9*time.Second, goroutines*each+1, goroutines*each-1, 0)
	if a, d := got.Allowed[ratelimit.Counted], got.Denied[ratelimit.Exhausted]; a != goroutines*each+1 || d != goroutines*each-1 {
		t.Errorf("got %+v", got)
	}
}

// One of them takes the sample, and no other is counted before. Alone, so that the second one gets as far as it can.
func TestDecisionsThatEndAPauseTogetherAreAllShown(t *testing.T) {
	var now atomic.Int64
	var asked atomic.Int32 // how often the clock was
	slowly := make(chan struct{})
	const sample = 2  // the first decision reads the clock, and then for its sample
	asked.Store(-100) // whatever is made below may read it
	origin := time.Now()
	store := ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time {
		if asked.Add(1) == sample {
			<-slowly
		}
		return origin.Add(time.Duration(now.Load()))
	}})
	lim := newLimiter(t, ratelimit.Config{Store: store})
	now.Store(int64(time.Hour))
	asked.Store(0)
	var askers sync.WaitGroup
	for key := range int32(2) {
		askers.Go(func() {
			if _, err := lim.Allow(context.Background(), fmt.Sprint("k", key), plenty); err != nil {
				t.Error(err)
			}
		})
		for asked.Load() < sample+key {
			runtime.Gosched()
		}
	}
	for range 1000 { // the second one could be counted meanwhile
		runtime.Gosched()
	}
	close(slowly)
	askers.Wait()
	mustShow(t, lim.Stats().Recent, 9*time.Second, 2, 0, 0)
}

func TestAnOutageIsShownAsFailedWhateverThePolicy(t *testing.T) {
	for policy, want := range map[ratelimit.Policy][3]int{ // of five that are asked under a limit of three
		ratelimit.FailOpen:   {5, 0, 5},
		ratelimit.FailClosed: {0, 5, 5},
		ratelimit.FailLocal:  {3, 2, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			lim := newLimiter(t, ratelimit.Config{Store: &fake{take: failing}, OnFailure: policy})
			for range 5 {
				if _, err := lim.Allow(t.Context(), "k", ratelimit.Limit{MaxRequests: 3, Window: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			got := lim.Stats().Recent
			mustShow(t, got, time.Second, want[0], want[1], want[2])
			if got.Latency.Count != 3 { // then the breaker is open, and nobody waits
				t.Errorf("%v: %d have waited for the store, want 3", policy, got.Latency.Count)
			}
		})
	}
}

// One way through an outage is a failure, one the open breaker, and one a probe.
func TestADecisionBeforeAStoreCountsInTheSecondInWhichItIsMade(t *testing.T) {
	for _, test := range []struct {
		name              string
		fails             bool
		tripped, at, took time.Duration
	}{
		{name: "an answer", at: 950 * time.Millisecond, took: 90 * time.Millisecond},
		{name: "a failure", fails: true, at: time.Second},
		{name: "a late failure", fails: true, at: 950 * time.Millisecond, took: 90 * time.Millisecond},
		{name: "the breaker is open", fails: true, tripped: 950 * time.Millisecond, at: 1050 * time.Millisecond},
		{name: "a probe", fails: true, tripped: 500 * time.Millisecond, at: 1050 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			takes := time.Duration(0)
			lim := newLimiter(t, ratelimit.Config{Store: &fake{take: func(context.Context) error {
				time.Sleep(takes)
				if test.fails {
					return errors.New("the store is down")
				}
				return nil
			}}})
			ask := func() {
				if _, err := lim.Allow(t.Context(), "k", plenty); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			if test.tripped > 0 {
				time.Sleep(test.tripped)
				for range 3 {
					ask()
				}
			}
			time.Sleep(time.Until(began.Add(test.at)))
			takes = test.took
			ask()
			time.Sleep(time.Until(began.Add(10500 * time.Millisecond))) // what came in the first second has left
			failed := 0
			if test.fails {
				failed = 1
			}
			t.Log(test.name) // shown if it fails
			mustShow(t, lim.Stats().Recent, 9500*time.Millisecond, 1, 0, failed)
		})
	}
}

func TestTheLatencyIsOfWhatTheStoreWasAskedAndOfNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newDistant()
		lim := newLimiter(t, ratelimit.Config{Store: store})
		ask := func(n int, key string, takes time.Duration) {
			t.Helper()
			store.home.Store(int64(takes))
			for range n {
				if _, err := lim.Allow(t.Context(), key, hourly); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range 60 {
			ask(1, fmt.Sprint("k", i), 2*time.Millisecond)
		}
		for i := range 38 {
			ask(1, fmt.Sprint("later", i), 3*time.Millisecond)
		}
		ask(1, "full", 50*time.Millisecond)
		ask(1, "full", 60*time.Millisecond) // denied
		ask(900, "full", time.Millisecond)  // from memory
		got := lim.Stats().Recent.Latency
		if got.Count != 100 || !near(got.P50, 2*time.Millisecond) || !near(got.P99, 50*time.Millisecond) {
			t.Errorf("got %+v, want 100, 2ms and 50ms", got)
		}

		time.Sleep(11 * time.Second)
		if got := lim.Stats().Recent; got != (ratelimit.Recent{Span: got.Span}) || got.Span < 9*time.Second {
			t.Errorf("when idle: %+v, want nothing but the Span", got)
		}
		store.home.Store(int64(time.Second)) // beyond the Timeout
		if d, err := lim.Allow(t.Context(), "slow", hourly); err != nil || d.Reason != ratelimit.FailedOpen {
			t.Fatal(d, err)
		}
		if got := lim.Stats().Recent.Latency; got.Count != 1 || !near(got.P99, ratelimit.DefaultTimeout) {
			t.Errorf("of one that times out: %+v, want the Timeout", got)
		}
		time.Sleep(time.Second) // until the store returns
	})
}

func TestADecisionInMemoryIsNotTimed(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.allow(10)
	if got := b.Stats().Recent.Latency; got != (ratelimit.Latency{}) {
		t.Errorf("got %+v", got)
	}
}

func newDistant() *distant {
	return &distant{MemoryStore: ratelimit.NewMemoryStore(ratelimit.MemoryConfig{})}
}

// near reports whether a quantile is as far from the exact one as it may be.
func near(got, exact time.Duration) bool { return exact <= got && got <= exact+exact/100 }
