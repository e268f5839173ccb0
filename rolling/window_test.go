package rolling_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sashlimit/sash/rolling"
)

const half = 500 * time.Millisecond

func TestSumsOfThreeBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: half})
		for _, step := range []struct {
			add  []int64
			want int64
		}{
			{nil, 0},
			{[]int64{1}, 1},
			{[]int64{2, 3}, 6},
			{[]int64{4, 5, 6}, 21},
			{[]int64{7}, 27}, // 1 has left
		} {
			if step.add != nil && step.add[0] > 1 {
				time.Sleep(half)
			}
			for _, v := range step.add {
				w.Add(v)
			}
			if got := w.Stats().Sum; got != step.want {
				t.Errorf("after %v the sum is %d, want %d", step.add, got, step.want)
			}
		}
	})
}

func TestTheFirstOfFourBucketsHasLeftWhenTheFifthBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWindow[int64](t, rolling.Config{Buckets: 4, Width: half})
		for v := int64(10); v <= 40; v += 10 {
			w.Add(v)
			time.Sleep(half)
		}
		if got := w.Stats().Sum; got != 90 {
			t.Errorf("the sum is %d, want 90", got)
		}
	})
}

func TestTheUnfinishedBucketCanBeLeftOut(t *testing.T) {
	t.Parallel()
	for ignore, want := range map[bool]float64{false: 10, true: 4} {
		clock := newClock()
		w := newWindow[float64](t, rolling.Config{Buckets: 4, Width: half, IgnoreCurrent: ignore, Now: clock.Now})
		for last := range 4 {
			if last > 0 {
				clock.advance(half)
			}
			for v := range last + 1 {
				w.Add(float64(v))
			}
		}
		if got := w.Stats().Sum; got != want {
			t.Errorf("IgnoreCurrent %v: the sum is %v, want %v", ignore, got, want)
		}
	}
}

func TestAFinishedBucketCountsUntilItIsAWindowOld(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: half, IgnoreCurrent: true, Now: clock.Now})
	w.Add(1)
	for i, want := range []int64{0, 1, 1, 0} {
		if got := w.Stats().Sum; got != want {
			t.Errorf("%d edges later the sum is %d, want %d", i, got, want)
		}
		clock.advance(half)
	}
	w.Add(1)
	clock.advance(10 * half)
	if got := w.Stats().Sum; got != 0 {
		t.Errorf("after a pause of ten buckets the sum is %d, want 0", got)
	}
}

// An edge that was moved to the time of the first use in a bucket would lie at 45 ms, and not at 30.
func TestEdgesStayOnTheGridHoweverOddlyTheWindowIsUsed(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: 30 * time.Millisecond, Now: clock.Now})
	for _, step := range []struct {
		wait time.Duration
		add  []int64
		want int64
	}{
		{0, []int64{1}, 1},
		{45 * time.Millisecond, []int64{2, 3}, 6},
		{20 * time.Millisecond, []int64{4, 5, 6}, 21}, // 65 ms: the third bucket
		{24*time.Millisecond + 999_999, nil, 21},
		{1, nil, 20},                                  // 90 ms: 1 has left
		{75 * time.Millisecond, []int64{7, 8, 9}, 24}, // 165 ms
	} {
		clock.advance(step.wait)
		for _, v := range step.add {
			w.Add(v)
		}
		if got := w.Stats().Sum; got != step.want {
			t.Errorf("%v later the sum is %d, want %d", step.wait, got, step.want)
		}
	}
}

func TestEdgesDoNotDrift(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 2, Width: time.Second, Now: clock.Now})
	for range 10_000 {
		clock.advance(1300*time.Millisecond + 7)
		w.Add(1)
	}
	now := time.Duration(clock.since.Load())
	clock.advance(time.Second - now%time.Second - 1) // the last moment of the bucket
	if s := w.Stats(); s.Span != 2*time.Second-1 {
		t.Errorf("a nanosecond before an edge the span is %v, want 2s less a nanosecond", s.Span)
	}
	clock.advance(1)
	if s := w.Stats(); s.Span != time.Second {
		t.Errorf("at an edge the span is %v, want 1s", s.Span)
	}
}

func TestWhatIsExactlyAWindowOldHasLeft(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 5, Width: time.Second, Now: clock.Now})
	w.Add(1) // on an edge
	clock.advance(5*time.Second - 1)
	if n := w.Stats().Count; n != 1 {
		t.Errorf("a nanosecond before it is a Window old, %d are counted", n)
	}
	clock.advance(1)
	if n := w.Stats().Count; n != 0 {
		t.Errorf("once it is a Window old, %d are counted", n)
	}
}

func TestNothingOldIsShownAfterAPause(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{10 * time.Second, 10*time.Second + 1, 11 * time.Second, 20 * time.Second, 25 * time.Second, time.Hour, 100 * 365 * 24 * time.Hour} {
		clock := newClock()
		w := newWindow[int64](t, rolling.Config{Now: clock.Now})
		for range 10 {
			w.Add(5)
			clock.advance(time.Second)
		}
		clock.advance(pause)
		if s := w.Stats(); s.Count != 0 || s.Sum != 0 || s.Max != 0 {
			t.Errorf("after %v: %+v", pause, s)
		}
		w.Add(-3)
		if s := w.Stats(); s.Count != 1 || s.Sum != -3 || s.Min != -3 || s.Max != -3 {
			t.Errorf("after %v and one more: %+v", pause, s)
		}
	}
}

func TestStatsOfNothingAreZero(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[float64](t, rolling.Config{Now: clock.Now})
	if s := w.Stats(); s != (rolling.Stats[float64]{}) {
		t.Errorf("%+v", s)
	}
	clock.advance(time.Hour)
	if s := w.Stats(); s != (rolling.Stats[float64]{Span: 9 * time.Second}) {
		t.Errorf("%+v", s)
	}
}

func TestRatesAreOverTheTimeThatWasLookedAt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		ignore    bool
		lived     time.Duration
		span      time.Duration
		rate, per float64
	}{
		{"at once: no time to divide by", false, 0, 0, 0, 0},
		{"a Window that has just begun", false, 500 * time.Millisecond, 500 * time.Millisecond, 20, 4},
		{"half a Window later", false, 5 * time.Second, 5 * time.Second, 2, 0.4},
		{"as long as it counts", false, 9999 * time.Millisecond, 9999 * time.Millisecond, 10 / 9.999, 2 / 9.999},
		{"no bucket has finished", true, 500 * time.Millisecond, 0, 0, 0},
		{"one bucket has finished", true, 1500 * time.Millisecond, time.Second, 10, 2},
		{"nine have finished", true, 9500 * time.Millisecond, 9 * time.Second, 10 / 9.0, 2 / 9.0},
	} {
		clock := newClock()
		w := newWindow[int64](t, rolling.Config{IgnoreCurrent: row.ignore, Now: clock.Now})
		w.Add(3)
		w.Add(7)
		clock.advance(row.lived)
		if s := w.Stats(); s.Span != row.span || s.Rate != row.rate || s.Frequency != row.per {
			t.Errorf("%s: span %v, rate %v, frequency %v, want %v, %v, %v", row.name, s.Span, s.Rate, s.Frequency, row.span, row.rate, row.per)
		}
	}
}

func TestASteadyRateIsToldRightWhereverTheEdgeIs(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Now: clock.Now})
	for i := range 3000 {
		clock.advance(10 * time.Millisecond)
		w.Add(1)
		if s := w.Stats(); i > 100 && math.Abs(s.Rate-100) > 1 {
			t.Fatalf("after %d of 100 a second the rate is %v", i, s.Rate)
		}
	}
}

func TestWhatCameEarlierLandsInTheBucketOfItsTime(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: time.Second, Now: clock.Now})
	clock.advance(2500 * time.Millisecond)
	w.AddAt(origin.Add(100*time.Millisecond), 1)
	w.AddAt(origin.Add(time.Second), 10)
	w.AddAt(origin.Add(2*time.Second-1), 100)
	w.AddAt(origin.Add(2500*time.Millisecond), 1000)
	for _, want := range []int64{1111, 1110, 1000, 0} {
		if got := w.Stats().Sum; got != want {
			t.Errorf("at %v the sum is %d, want %d", time.Duration(clock.since.Load()), got, want)
		}
		clock.advance(time.Second)
	}
}

func TestWhatIsTooOldIsDropped(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: time.Second, Now: clock.Now})
	for _, before := range []time.Time{origin.Add(-1), origin.Add(-time.Second), origin.Add(-time.Hour), {}} {
		w.AddAt(before, 1)
	}
	if n := w.Stats().Count; n != 0 {
		t.Errorf("%d from before the Window are counted", n)
	}
	clock.advance(10 * time.Second)
	w.AddAt(origin.Add(8*time.Second-1), 1)
	w.AddAt(origin, 1)
	w.AddAt(time.Time{}, 1)
	if n := w.Stats().Count; n != 0 {
		t.Errorf("%d that are older than the Window are counted", n)
	}
	w.AddAt(origin.Add(8*time.Second), 1)
	if n := w.Stats().Count; n != 1 {
		t.Errorf("of the oldest bucket %d are counted, want 1", n)
	}
}

func TestWhatLiesAheadOfTheClockCountsAsComeNow(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: time.Second, Now: clock.Now})
	w.AddAt(origin.Add(time.Hour), 1)
	w.AddAt(origin.Add(200*365*24*time.Hour), 1)
	if n := w.Stats().Count; n != 2 {
		t.Errorf("%d are counted, want 2", n)
	}
	clock.advance(3 * time.Second)
	if n := w.Stats().Count; n != 0 {
		t.Errorf("a Window later %d are counted, want none", n)
	}
}

func TestWhatIsNoNumberIsIgnoredAndCountedAsSuch(t *testing.T) {
	t.Parallel()
	w := newWindow[float64](t, rolling.Config{Now: newClock().Now})
	for _, v := range []float64{math.NaN(), 1.5, math.Inf(1), math.Inf(-1), -0.5} {
		w.Add(v)
	}
	s := w.Stats()
	if s.Count != 2 || s.Sum != 1 || s.Mean != 0.5 || s.Min != -0.5 || s.Max != 1.5 || s.Ignored != 3 {
		t.Errorf("%+v", s)
	}
}

func TestExtremesOfNegativeValues(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Now: clock.Now})
	for _, v := range []int64{-5, -2, math.MinInt64 / 4, -9} {
		w.Add(v)
		clock.advance(time.Second)
	}
	if s := w.Stats(); s.Min != math.MinInt64/4 || s.Max != -2 {
		t.Errorf("%+v", s)
	}
}

func TestAWindowOfDurations(t *testing.T) {
	t.Parallel()
	w := newWindow[time.Duration](t, rolling.Config{})
	w.Add(time.Second)
	w.Add(2 * time.Second)
	if s := w.Stats(); s.Sum != 3*time.Second || s.Max != 2*time.Second || time.Duration(s.Mean) != 1500*time.Millisecond {
		t.Errorf("%+v", s)
	}
}

func TestAddAndStatsAllocateNothing(t *testing.T) {
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Now: clock.Now})
	if n := testing.AllocsPerRun(1000, func() {
		clock.advance(700 * time.Millisecond)
		w.Add(1)
		w.AddAt(clock.Now(), 1)
		w.Stats()
	}); n != 0 {
		t.Errorf("%v allocations, also where buckets begin", n)
	}
}
