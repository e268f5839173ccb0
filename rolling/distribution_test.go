package rolling_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sashlimit/sash/rolling"
)

func TestQuantilesOfLatencies(t *testing.T) {
	t.Parallel()
	clock := newClock()
	d := newDistribution(t, rolling.DistributionConfig{Now: clock.Now})
	for ms := time.Duration(1000); ms > 0; ms-- {
		d.Add(ms * time.Millisecond)
		clock.advance(time.Millisecond)
	}
	s := d.Summary(0.5, 0.99, 0, 1)
	for i, want := range []time.Duration{500 * time.Millisecond, 990 * time.Millisecond, time.Millisecond, time.Second} {
		if got := s.Quantiles[i]; got < want || got > want+want/100 || i > 1 && got != want {
			t.Errorf("quantile %d is %v, want %v", i, got, want)
		}
	}
	if s.Count != 1000 || s.Mean != 500.5e6 || s.Frequency != 1000 || s.Clamped != 0 {
		t.Errorf("%+v", s)
	}
	if p50 := d.Quantile(0.5); p50 != s.Quantiles[0] {
		t.Errorf("alone the median is %v, with others %v", p50, s.Quantiles[0])
	}
}

func TestQuantilesOfNothingAreZero(t *testing.T) {
	t.Parallel()
	clock := newClock()
	d := newDistribution(t, rolling.DistributionConfig{Now: clock.Now})
	d.Add(time.Second)
	clock.advance(10 * time.Second)
	if s := d.Summary(0, 0.5, 1); !slices.Equal(s.Quantiles, []time.Duration{0, 0, 0}) || s.Count != 0 || s.Max != 0 {
		t.Errorf("%+v", s)
	}
}

func TestOddQuantilesMeanTheNearerEnd(t *testing.T) {
	t.Parallel()
	d := newDistribution(t, rolling.DistributionConfig{})
	d.Add(3)
	d.Add(200)
	for q, want := range map[float64]time.Duration{-1: 3, math.Inf(-1): 3, 1e-300: 3, 1.5: 200, math.Inf(1): 200} {
		if got := d.Quantile(q); got != want {
			t.Errorf("for %v it tells %d, want %d", q, got, want)
		}
	}
	if got := d.Quantile(math.NaN()); got != 3 {
		t.Errorf("for NaN it tells %d, want 3", got)
	}
}

func TestValuesOutsideTheRangeAreClampedAndTold(t *testing.T) {
	t.Parallel()
	d := newDistribution(t, rolling.DistributionConfig{Highest: int64(time.Second)})
	for _, v := range []time.Duration{-time.Second, time.Millisecond, 5 * time.Second, time.Hour, time.Hour} {
		d.Add(v)
	}
	s := d.Summary(0, 0.3, 0.7, 1)
	if s.Clamped != 4 || s.Count != 5 || s.Min != -time.Second || s.Max != time.Hour || s.Sum != 2*time.Hour+4*time.Second+time.Millisecond {
		t.Errorf("%+v", s)
	}
	if q := s.Quantiles; q[0] != -time.Second || q[1] < time.Millisecond || q[1] > 1010*time.Microsecond || q[2] != time.Second || q[3] != time.Hour {
		t.Errorf("%v", q)
	}

	above := newDistribution(t, rolling.DistributionConfig{Highest: int64(time.Second)})
	above.Add(2 * time.Second)
	above.Add(math.MaxInt64)
	if q := above.Quantile(0.5); q != 2*time.Second {
		t.Errorf("the median of values that are all above the range is %v, want the least of them", q)
	}
	below := newDistribution(t, rolling.DistributionConfig{})
	below.Add(math.MinInt64)
	below.Add(-1)
	if q := below.Quantile(0.9); q != -1 {
		t.Errorf("the 90th percentile of values that are all below the range is %d, want the greatest of them", q)
	}
}

func TestADistributionForgetsWithItsWindow(t *testing.T) {
	t.Parallel()
	clock := newClock()
	d := newDistribution(t, rolling.DistributionConfig{Buckets: 2, Now: clock.Now})
	d.Add(time.Millisecond)
	clock.advance(time.Second)
	d.Add(time.Second)
	d.AddAt(origin, 2*time.Millisecond)
	d.AddAt(origin.Add(-1), time.Hour)
	if s := d.Summary(0.5); s.Count != 3 || s.Quantiles[0] < 2*time.Millisecond || s.Quantiles[0] > 2020*time.Microsecond {
		t.Errorf("%+v", s)
	}
	clock.advance(time.Second) // into the place of the first
	if s := d.Summary(0.01); s.Count != 1 || s.Quantiles[0] != time.Second {
		t.Errorf("%+v", s)
	}
	d.Add(time.Minute)
	clock.advance(time.Second)
	if s := d.Summary(0.01); s.Count != 1 || s.Quantiles[0] != time.Minute {
		t.Errorf("%+v", s)
	}
}

func TestTheUnfinishedBucketOfADistributionCanBeLeftOut(t *testing.T) {
	t.Parallel()
	clock := newClock()
	d := newDistribution(t, rolling.DistributionConfig{IgnoreCurrent: true, Now: clock.Now})
	d.Add(1)
	if s := d.Summary(0.5); s.Count != 0 || s.Quantiles[0] != 0 {
		t.Errorf("%+v", s)
	}
	clock.advance(time.Second)
	d.Add(100)
	if s := d.Summary(0.9); s.Count != 1 || s.Quantiles[0] != 1 {
		t.Errorf("%+v", s)
	}
}

// The oracle keeps every value and sorts them.
func TestModelOfQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newClock()
		o := oracle[int64]{config: drawConfig(t, clock)}
		digits := rapid.IntRange(1, rolling.MaxDigits).Draw(t, "digits")
		highest := rapid.SampledFrom([]int64{1, 1000, int64(time.Minute), math.MaxInt64}).Draw(t, "highest")
		d, err := rolling.NewDistribution[int64](rolling.DistributionConfig{Buckets: o.config.Buckets, Width: o.config.Width,
			IgnoreCurrent: o.config.IgnoreCurrent, Now: clock.Now, Digits: digits, Highest: highest})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 80).Draw(t, "operations") {
			now := time.Duration(clock.since.Load())
			switch rapid.IntRange(0, 4).Draw(t, "operation") {
			case 0:
				clock.advance(max(0, drawTime(t, o.config, 0, 4, "wait")))
			case 1, 2:
				at, v := now+drawTime(t, o.config, -3, 1, "at"), rapid.Int64Range(0, highest).Draw(t, "value")
				d.AddAt(origin.Add(at), v)
				o.add(at, now, v)
			case 3:
				v := rapid.Int64Range(0, highest).Draw(t, "value")
				d.Add(v)
				o.add(now, now, v)
			case 4:
				q := rapid.Float64Range(0, 1).Draw(t, "quantile")
				s := d.Summary(q)
				if want := o.stats(now); s.Stats != want || s.Clamped != 0 {
					t.Fatalf("at %v\n got %+v\nwant %+v", now, s, want)
				}
				values, _ := o.in(o.interval(now))
				if got, want := s.Quantiles[0], ranked(values, q); got < want || float64(got-want) > float64(want)*math.Pow10(-digits) {
					t.Fatalf("of %v the %v-quantile is %d, want %d to %d digits", values, q, got, want, digits)
				}
			}
		}
	})
}

// ranked is the value of rank max(1, ⌊qn + ½⌋), and of nothing 0.
func ranked(values []int64, q float64) int64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := max(1, int(100*q/100*float64(len(values))+0.5))
	return values[rank-1]
}

func TestADistributionAllocatesNothingOnceItIsWarm(t *testing.T) {
	clock := newClock()
	d := newDistribution(t, rolling.DistributionConfig{Now: clock.Now})
	values := latencies(1000)
	round := func() {
		clock.advance(time.Second)
		for _, v := range values {
			d.Add(v)
		}
	}
	for range 10 {
		round()
	}
	if n := testing.AllocsPerRun(20, round); n != 0 {
		t.Errorf("%v allocations for a bucket of %d values", n, len(values))
	}
}

func TestADistributionIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	clock := newClock()
	d := newDistribution(t, rolling.DistributionConfig{Buckets: 60, Now: clock.Now})
	together(func(g, i int) {
		d.AddAt(clock.Now(), time.Duration(g*each+i))
	}, func() {
		s := d.Summary(0, 0.5, 1)
		if s.Quantiles[0] != s.Min || s.Quantiles[2] != s.Max || s.Quantiles[1] < s.Min || s.Quantiles[1] > s.Max {
			t.Errorf("%+v", s)
		}
	}, func(i int) {
		if i < 50 {
			clock.advance(time.Second)
		}
	})
	if s := d.Summary(0.5); s.Count != writers*each || s.Quantiles[0] < 9_999 || s.Quantiles[0] > 10_100 {
		t.Errorf("%+v", s)
	}
}

func newDistribution(t testing.TB, config rolling.DistributionConfig) *rolling.Distribution[time.Duration] {
	t.Helper()
	d, err := rolling.NewDistribution[time.Duration](config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// latencies are n of them around 200 µs, the same each time: two thirds lie within a factor of e.
func latencies(n int) []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = time.Duration(200e3 * math.Exp(random.NormFloat64()))
	}
	return list
}
