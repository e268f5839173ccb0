package rolling_test

import (
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sashlimit/sash/rolling"
)

// A clock that falls and jumps: time passes only while it advances. Nothing counts for less than that, nor for longer than a
// Width more for each fall.
func TestModelOfAClockThatStepsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newClock()
		config := drawConfig(t, clock)
		config.IgnoreCurrent = false
		w, err := rolling.NewWindow[int64](config)
		if err != nil {
			t.Fatal(err)
		}
		type added struct {
			passed time.Duration
			falls  int
		}
		var all []added
		var now added
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				d := max(0, drawTime(t, config, 0, 4, "wait"))
				now.passed += d
				clock.advance(d)
			case 1:
				d := max(0, drawTime(t, config, 0, rapid.SampledFrom([]int{1, 20, 1e6}).Draw(t, "far"), "fall"))
				now.falls++
				clock.advance(-d)
			case 2:
				w.Add(1)
				all = append(all, now)
			}
			s := w.Stats() // every step of the clock is seen
			var least, most int64
			for _, a := range all {
				age := now.passed - a.passed
				if age < time.Duration(config.Buckets-1)*config.Width || age == 0 {
					least++
				}
				if age < time.Duration(config.Buckets+now.falls-a.falls)*config.Width {
					most++
				}
			}
			if s.Count < least || s.Count > most || s.Sum != s.Count || s.Span < 0 || s.Rate < 0 {
				t.Fatalf("%+v: want %d to %d", s, least, most)
			}
		}
	})
}

func TestAClockThatHasSteppedBackDoesNotStandStill(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Second / 2, 3 * time.Second, time.Hour, 100 * 365 * 24 * time.Hour} {
		clock := newClock()
		w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: time.Second, Now: clock.Now})
		clock.advance(90 * time.Minute)
		w.Add(1)
		clock.advance(-step)
		w.Add(10)
		w.AddAt(clock.Now().Add(step), 100) // a time from before the step, later than now
		if got := w.Stats().Sum; got != 111 {
			t.Errorf("after a step of %v the sum is %d, want 111", step, got)
		}
		clock.advance(2*time.Second - 1)
		if got := w.Stats().Sum; got != 111 {
			t.Errorf("two Widths after a step of %v the sum is %d, want 111", step, got)
		}
		w.Add(1000)
		clock.advance(2 * time.Second)
		if got := w.Stats().Sum; got != 1000 {
			t.Errorf("four Widths after a step of %v the sum is %d, want 1000", step, got)
		}
		clock.advance(time.Second)
		if got := w.Stats().Sum; got != 0 {
			t.Errorf("five Widths after a step of %v the sum is %d, want 0", step, got)
		}
	}
}

func TestAStepBackIsSeenByAddAtAlone(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Now: clock.Now})
	clock.advance(time.Hour)
	w.AddAt(clock.Now(), 1)
	clock.advance(-30 * time.Minute)
	w.AddAt(clock.Now(), 10)
	clock.advance(time.Second)
	w.AddAt(clock.Now(), 100)
	if got := w.Stats().Sum; got != 111 {
		t.Errorf("the sum is %d, want 111", got)
	}
}

// A reading from before a step is used after it: it must not pull time ahead again.
func TestAReadingThatAStepHasOvertakenMovesNothing(t *testing.T) {
	t.Parallel()
	var step atomic.Bool
	clock := newClock()
	var w *rolling.Window[int64]
	w = newWindow[int64](t, rolling.Config{Buckets: 3, Width: time.Second, Now: func() time.Time {
		reading := clock.Now()
		if step.CompareAndSwap(true, false) { // the reader is held up here, and others go on
			clock.advance(-time.Hour)
			w.Add(10)
		}
		return reading
	}})
	clock.advance(2 * time.Hour)
	w.Add(1)
	clock.advance(time.Second)
	step.Store(true)
	w.Add(100)
	if got := w.Stats().Sum; got != 111 {
		t.Errorf("the sum is %d, want 111", got)
	}
}
