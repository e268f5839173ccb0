package rolling_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sashlimit/sash/rolling"
)

// oracle keeps every event, and answers by looking at all of them.
type oracle[V rolling.Number] struct {
	config rolling.Config
	events []event[V]
}

// event came at a time since the start.
type event[V rolling.Number] struct {
	at    time.Duration
	value V
}

// add is told when an event is said to have come, and what the time is.
func (o *oracle[V]) add(at, now time.Duration, v V) {
	if at >= 0 {
		o.events = append(o.events, event[V]{min(at, now), v})
	}
}

// in are the finite values of the events in [from, to), and how many others there are.
func (o *oracle[V]) in(from, to time.Duration) (values []V, others int64) {
	for _, e := range o.events {
		switch x := float64(e.value); {
		case e.at < from || e.at >= to:
		case math.IsNaN(x) || math.IsInf(x, 0):
			others++
		default:
			values = append(values, e.value)
		}
	}
	return values, others
}

// interval is what is looked at, [from, to).
func (o *oracle[V]) interval(now time.Duration) (from, to time.Duration) {
	edge := now - now%o.config.Width
	from = max(0, edge-time.Duration(o.config.Buckets-1)*o.config.Width)
	if o.config.IgnoreCurrent {
		return from, edge
	}
	return from, now + 1
}

func (o *oracle[V]) stats(now time.Duration) (s rolling.Stats[V]) {
	from, to := o.interval(now)
	values, ignored := o.in(from, to)
	s.Ignored = ignored
	for i, v := range values {
		if i == 0 {
			s.Min, s.Max = v, v
		}
		s.Count++
		s.Sum += v
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	if s.Count > 0 {
		s.Mean = float64(s.Sum) / float64(s.Count)
	}
	if s.Span = min(to, now) - from; s.Span > 0 {
		s.Rate, s.Frequency = float64(s.Sum)/s.Span.Seconds(), float64(s.Count)/s.Span.Seconds()
	}
	return s
}

// bounded checks the error that the package states: a count lies between the exact ones of two intervals.
func (o *oracle[V]) bounded(t *rapid.T, now time.Duration, count int64) {
	window := time.Duration(o.config.Buckets) * o.config.Width
	most, _ := o.in(now-window+1, now+1)
	least, _ := o.in(now-window+o.config.Width+1, now+1)
	if o.config.IgnoreCurrent {
		least = nil
	}
	if count < int64(len(least)) || count > int64(len(most)) {
		t.Fatalf("at %v %d are counted, want %d to %d", now, count, len(least), len(most))
	}
}

func drawConfig(t *rapid.T, clock *clock) rolling.Config {
	config := rolling.Config{
		Buckets: rapid.IntRange(1, 7).Draw(t, "buckets"),
		Width:   rapid.SampledFrom([]time.Duration{time.Millisecond, 30 * time.Millisecond, time.Second, time.Second + 7}).Draw(t, "width"),
		Now:     clock.Now,
	}
	config.IgnoreCurrent = config.Buckets > 1 && rapid.Bool().Draw(t, "ignore current")
	return config
}

// drawTime is up to so many widths, and often a whole number of them, or a nanosecond beside that.
func drawTime(t *rapid.T, config rolling.Config, least, most int, label string) time.Duration {
	whole := time.Duration(rapid.IntRange(least, most).Draw(t, label+" widths")) * config.Width
	return whole + rapid.SampledFrom([]time.Duration{-1, 0, 0, 1, config.Width / 2, config.Width * 7 / 10}).Draw(t, label+" more")
}

// model plays random operations against the oracle, on a clock that does not fall.
func model[V rolling.Number](values []V) func(*rapid.T) {
	return func(t *rapid.T) {
		clock := newClock()
		o := oracle[V]{config: drawConfig(t, clock)}
		w, err := rolling.NewWindow[V](o.config)
		if err != nil {
			t.Fatal(err)
		}
		value := rapid.SampledFrom(values)
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			now := time.Duration(clock.since.Load())
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				clock.advance(max(0, drawTime(t, o.config, 0, 10, "wait")))
			case 1:
				v := value.Draw(t, "value")
				w.Add(v)
				o.add(now, now, v)
			case 2:
				at, v := now+drawTime(t, o.config, -9, 2, "at"), value.Draw(t, "value")
				w.AddAt(origin.Add(at), v)
				o.add(at, now, v)
			case 3:
				got, want := w.Stats(), o.stats(now)
				if got != want {
					t.Fatalf("at %v\n got %+v\nwant %+v", now, got, want)
				}
				o.bounded(t, now, got.Count)
			}
		}
	}
}

// The floats are multiples of 1/4, so that sums are exact in any order.
var (
	wholes = []int64{0, 1, 1, 1, 2, -1, -7, 1000, 1 << 40}
	floats = []float64{0, 0.25, 1, 1, -1.75, 1 << 20, math.NaN(), math.Inf(1), math.Inf(-1)}
)

func TestModelOfWholeNumbers(t *testing.T) { rapid.Check(t, model(wholes)) }
func TestModelOfFloats(t *testing.T)       { rapid.Check(t, model(floats)) }

func FuzzWindow(f *testing.F) { f.Fuzz(rapid.MakeFuzz(model(floats))) }
