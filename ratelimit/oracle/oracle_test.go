package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/ratelimit/oracle"
)

// limiter decides one request at t, which never decreases.
type limiter func(t time.Duration) bool

func exact(limit int, window time.Duration) limiter {
	var log []time.Duration
	return func(t time.Duration) bool {
		for len(log) > 0 && log[0] <= t-window {
			log = log[1:]
		}
		if len(log) >= limit {
			return false
		}
		log = append(log, t)
		return true
	}
}

// fixed counts from zero at every multiple of the window.
func fixed(limit int, window time.Duration) limiter {
	var current time.Duration
	n := 0
	return func(t time.Duration) bool {
		if w := t / window; w != current {
			current, n = w, 0
		}
		n++
		return n <= limit
	}
}

// twoCounters weighs the previous fixed window by how much of it the sliding
// one still covers, as if its requests had been spread evenly.
func twoCounters(limit int, window time.Duration) limiter {
	var current time.Duration
	before, now := 0, 0
	return func(t time.Duration) bool {
		switch w := t / window; w {
		case current:
		case current + 1:
			current, before, now = w, now, 0
		default:
			current, before, now = w, 0, 0
		}
		covered := 1 - float64(t%window)/float64(window)
		if float64(before)*covered+float64(now)+1 > float64(limit) {
			return false
		}
		now++
		return true
	}
}

// tooEager is exact, but lets a request in while one more is counted; tooShy
// denies one too many.
func tooEager(limit int, window time.Duration) limiter { return exact(limit+1, window) }
func tooShy(limit int, window time.Duration) limiter   { return exact(limit-1, window) }

// observe has the limiter decide at the given instants, and records each
// request with up to slack before and after its decision.
func observe(l limiter, at []time.Duration, slack func() time.Duration) (h oracle.History) {
	for _, t := range at {
		i := oracle.Interval{Begin: t - slack(), End: t + slack()}
		switch {
		case l(t):
			h.Allowed = append(h.Allowed, i)
		default:
			h.Denied = append(h.Denied, i)
		}
	}
	return h
}

// boundaryBurst is a burst just before and just after the end of a window, the
// worst case for whoever counts by fixed windows; then another, half a window
// on, the worst case for estimates.
func boundaryBurst(n int, window time.Duration) (at []time.Duration) {
	for _, start := range []time.Duration{window - window/20, window + window/20, 3 * window / 2, 2*window - window/50} {
		for i := range n {
			at = append(at, start+time.Duration(i)*window/time.Duration(100*n))
		}
	}
	return at
}

func TestALimiterIsJudgedByWhatItDid(t *testing.T) {
	const limit, window = 100, time.Second
	for _, c := range []struct {
		name    string
		limiter limiter
		want    oracle.Verdict
		denials bool // that are false
	}{
		{"an exact limiter is acquitted", exact(limit, window), oracle.Lawful, false},
		{"a fixed window lets two quotas through around its end", fixed(limit, window), oracle.Violated, false},
		{"two counters take requests for evenly spread that are not", twoCounters(limit, window), oracle.Violated, true},
		{"one request too many is noticed", tooEager(limit, window), oracle.Violated, false},
		{"one request too few is noticed", tooShy(limit, window), oracle.Lawful, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := observe(c.limiter, boundaryBurst(limit+20, window), func() time.Duration { return time.Millisecond })
			r := oracle.Check(h, limit, window)
			if r.Verdict != c.want || (len(r.FalseDenials) > 0) != c.denials {
				t.Errorf("want %v, false denials %v; got %v", c.want, c.denials, r)
			}
			if r.OK() != (c.want == oracle.Lawful && !c.denials) {
				t.Errorf("OK is %v", r.OK())
			}
		})
	}
}

func TestExactlyOneWindowApartIsLawful(t *testing.T) {
	for _, c := range []struct {
		apart time.Duration
		want  oracle.Verdict
	}{
		{time.Second - 1, oracle.Violated},
		{time.Second, oracle.Lawful},
		{time.Second + 1, oracle.Lawful},
	} {
		h := oracle.History{Allowed: []oracle.Interval{{0, 0}, {c.apart, c.apart}}}
		if r := oracle.Check(h, 1, time.Second); r.Verdict != c.want {
			t.Errorf("%v apart: %v", c.apart, r)
		}
	}
}

func TestADenialIsExcusedUntilExactlyOneWindowLater(t *testing.T) {
	for _, c := range []struct {
		at   time.Duration
		want int
	}{
		{time.Second - 1, 0},
		{time.Second, 1}, // the request at 0 has left
	} {
		h := oracle.History{Allowed: []oracle.Interval{{0, 0}}, Denied: []oracle.Interval{{c.at, c.at}}}
		if r := oracle.Check(h, 1, time.Second); len(r.FalseDenials) != c.want {
			t.Errorf("denied at %v: %v", c.at, r)
		}
		h.Clock.Tick = time.Nanosecond
		if r := oracle.Check(h, 1, time.Second); !r.OK() {
			t.Errorf("denied at %v by a clock one tick behind: %v", c.at, r)
		}
	}
}

func TestTheClocksErrorIsNotHeldAgainstTheLimiter(t *testing.T) {
	h := oracle.History{Allowed: []oracle.Interval{{0, 0}, {time.Second - 500*time.Microsecond, time.Second - 500*time.Microsecond}}}
	if r := oracle.Check(h, 1, time.Second); r.Verdict != oracle.Violated {
		t.Errorf("by the same clock: %v", r)
	}
	h.Clock = oracle.Clock{Drift: 499e-6, Tick: time.Microsecond}
	if r := oracle.Check(h, 1, time.Second); r.Verdict != oracle.Lawful {
		t.Errorf("by a clock that runs 499 ppm fast and ticks in microseconds: %v", r)
	}
}

// A limiter that keeps the law must be acquitted however its requests are
// delayed: that is what makes an accusation a proof.
func TestACorrectLimiterIsNeverAccused(t *testing.T) {
	t.Parallel()
	unknown := 0
	for seed := range uint64(1_500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit, window := 1+rng.IntN(12), time.Duration(10+rng.IntN(1000))
		var at []time.Duration
		var now time.Duration
		for range rng.IntN(300) {
			if rng.IntN(3) > 0 { // else: at the same instant
				now += time.Duration(rng.Int64N(int64(window)))/time.Duration(limit) + 1
			}
			at = append(at, now)
		}
		longest := 1 + rng.Int64N(4*int64(window))
		h := observe(exact(limit, window), at, func() time.Duration {
			if rng.IntN(2) == 0 {
				return 0
			}
			return time.Duration(rng.Int64N(longest))
		})
		hide(&h, rng)
		r := oracle.Check(h, limit, window)
		if r.Verdict == oracle.Violated || len(r.FalseDenials) > 0 {
			t.Fatalf("seed %d: %v", seed, r)
		}
		if r.Verdict == oracle.Unknown {
			unknown++
		}
	}
	if unknown > 0 {
		t.Errorf("%d lawful histories undecided", unknown)
	}
}

func TestAContradictionIsFoundInALongHistory(t *testing.T) {
	const window = 3
	var h oracle.History
	for i := range 1_000 { // long enough that complete cannot take it whole
		t := time.Duration(i * window)
		h.Allowed = append(h.Allowed, oracle.Interval{Begin: t, End: t + 2})
	}
	if r := oracle.Check(h, 1, window); r.Verdict != oracle.Lawful {
		t.Fatal(r)
	}
	gap := time.Duration(1_000*window + 100)
	h.Allowed = append(h.Allowed, oracle.Interval{Begin: gap, End: gap + 3}, oracle.Interval{Begin: gap + 1, End: gap + 2})
	if r := oracle.Check(h, 1, window); r.Verdict != oracle.Violated {
		t.Error(r)
	}
}

// hide loses the answer of some requests.
func hide(h *oracle.History, rng *rand.Rand) {
	for _, seen := range []*[]oracle.Interval{&h.Allowed, &h.Denied} {
		all := *seen
		*seen = nil
		for _, i := range all {
			if rng.IntN(20) == 0 {
				h.Doubtful = append(h.Doubtful, i)
			} else {
				*seen = append(*seen, i)
			}
		}
	}
}

func TestAProofCanBeCheckedByHand(t *testing.T) {
	t.Run("by counting", func(t *testing.T) {
		h := oracle.History{
			Allowed: []oracle.Interval{{0, 10}, {500, 510}, {900, 990}, {2000, 2010}},
			Denied:  []oracle.Interval{{3500, 3501}},
		}
		got := oracle.Check(h, 2, 1000).String()
		want := `violated: 2 per 1µs; 4 allowed, 1 denied, 0 doubtful; at most 3 allowed for certain in one window
3 requests were allowed within [0s, 1µs), which is 1 × 1µs long and has room for 2:
  request 0 [0s, 10ns]
  request 1 [500ns, 510ns]
  request 2 [900ns, 990ns]
1 denials are false:
  denial 0 [3.5µs, 3.501µs]: at most 0 of 2 could be counted`
		if got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
	t.Run("by adding up, where no interval by itself is overfull", func(t *testing.T) {
		// Wherever in [1, 2] request 1 is decided, it is less than a window
		// from everywhere in [0, 3].
		h := oracle.History{Allowed: []oracle.Interval{{0, 3}, {1, 2}}}
		got := oracle.Check(h, 1, 3).Proof
		want := `no instants obey the law, not even with every request decided as early as possible:
  2 requests within [0s, 3ns]
  1 requests within [1ns, 2ns]
ask for 3 places in all, but the windows that cover these intervals, each as often, hold 2:
  at most 1 in (0s, 3ns]
  at most 1 in (-2ns, 1ns]`
		if got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestARecorderSeesWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := oracle.NewRecorder()
		time.Sleep(time.Second)
		a, d, q, open := rec.Begin(), rec.Begin(), rec.Begin(), rec.Begin()
		time.Sleep(time.Second)
		a.Allowed()
		time.Sleep(time.Second)
		d.Denied()
		q.Doubtful()
		time.Sleep(time.Second)

		h := rec.History()
		want := fmt.Sprint([]oracle.Interval{{1e9, 2e9}}, []oracle.Interval{{1e9, 3e9}}, []oracle.Interval{{1e9, 4e9}, {1e9, 4e9}})
		if got := fmt.Sprint(h.Allowed, h.Denied, h.Doubtful); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		open.Allowed()
		if h := rec.History(); len(h.Allowed) != 2 || len(h.Doubtful) != 1 {
			t.Errorf("a call that ended later: %v", h)
		}
	})
}

func TestARecorderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	const limit, window, clients = 50, time.Hour, 200
	rec := oracle.NewRecorder()
	var mu sync.Mutex
	decide := exact(limit, window)
	start := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			call := rec.Begin()
			mu.Lock()
			ok := decide(time.Since(start))
			mu.Unlock()
			if ok {
				call.Allowed()
			} else {
				call.Denied()
			}
		})
	}
	wg.Wait()
	h := rec.History()
	if len(h.Allowed) != limit || len(h.Denied) != clients-limit {
		t.Errorf("%d allowed, %d denied", len(h.Allowed), len(h.Denied))
	}
	if r := oracle.Check(h, limit, window); !r.OK() {
		t.Error(r)
	}
}

func TestAQuestionWithoutAnAnswerPanics(t *testing.T) {
	backwards := oracle.History{Denied: []oracle.Interval{{2, 1}}}
	coarse := oracle.History{Clock: oracle.Clock{Tick: time.Second}}
	for name, ask := range map[string]func(){
		"no limit":                      func() { oracle.Check(oracle.History{}, 0, time.Second) },
		"no window":                     func() { oracle.Check(oracle.History{}, 1, 0) },
		"an end before its begin":       func() { oracle.Check(backwards, 1, time.Second) },
		"a clock coarser than a window": func() { oracle.Check(coarse, 1, time.Second) },
		"an outcome told twice": func() {
			call := oracle.NewRecorder().Begin()
			call.Allowed()
			call.Denied()
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			ask()
		}()
	}
}

func TestNothingIsLawful(t *testing.T) {
	if r := oracle.Check(oracle.History{}, 1, time.Second); !r.OK() {
		t.Error(r)
	}
}

// BenchmarkCheck judges 100 000 grants, and as many denials, of an exact
// limiter under twice the load it allows.
func BenchmarkCheck(b *testing.B) {
	const limit, window = 100, time.Second
	rng := rand.New(rand.NewPCG(1, 1))
	var at []time.Duration
	for i := range 200_000 {
		at = append(at, time.Duration(i)*window/(2*limit))
	}
	h := observe(exact(limit, window), at, func() time.Duration { return time.Duration(rng.Int64N(int64(20 * time.Millisecond))) })
	if len(h.Allowed) != 100_000 {
		b.Fatalf("%d allowed", len(h.Allowed))
	}
	for b.Loop() {
		if r := oracle.Check(h, limit, window); !r.OK() {
			b.Fatal(r)
		}
	}
}
