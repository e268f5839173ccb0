package rolling

import (
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Distribution is a Window that also tells quantiles: those of latencies, sizes, or other whole numbers that are not
// negative. It is safe for concurrent use, starts no goroutine, and allocates for an Add only as long as its histograms still
// grow: not once each of them has seen what is usual.
//
// What lies outside the range, below 0 or above Highest, counts in the Stats as it is, and in quantiles as the nearest value
// of the range; Clamped tells how often that was.
//
// Each bucket has a histogram, which grows with the values that it tells apart and has seen. With the defaults that is 4 to 10
// kB for latencies within a factor of 10 to 1000, and 25 to 50 kB where they come from all of the range. One more, for reading,
// takes 31 kB.
type Distribution[V ~int64] struct {
	highest V

	window     *Window[V] // its lock guards all that follows
	histograms []*hdrhistogram.PackedHistogram
	merged     *hdrhistogram.Histogram
}

// NewDistribution returns an empty Distribution, whose first bucket begins now. The error tells everything that is wrong
// with the config.
func NewDistribution[V ~int64](config DistributionConfig) (*Distribution[V], error) {
	window, err := Config{Buckets: config.Buckets, Width: config.Width, IgnoreCurrent: config.IgnoreCurrent, Now: config.Now}.withDefaults()
	config = config.withDefaults()
	if err := errors.Join(err, config.validate()); err != nil {
		return nil, fmt.Errorf("rolling: distribution: %w", err)
	}
	d := &Distribution[V]{
		highest:    V(config.Highest),
		window:     newWindow[V](window),
		histograms: make([]*hdrhistogram.PackedHistogram, window.Buckets),
		merged:     hdrhistogram.New(1, config.Highest, config.Digits),
	}
	for i := range d.histograms {
		d.histograms[i] = hdrhistogram.NewPacked(1, config.Highest, config.Digits)
	}
	return d, nil
}

// Add adds a value now.
func (d *Distribution[V]) Add(v V) {
	w := d.window
	at := w.clock.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.tick(at)
	d.addLocked(w.clock.newest, v)
}

// AddAt adds a value that came at a time, as Window.AddAt does.
func (d *Distribution[V]) AddAt(at time.Time, v V) {
	w := d.window
	since := w.clock.since(at)
	w.mu.Lock()
	defer w.mu.Unlock()
	if number, ok := w.numberLocked(since); ok {
		d.addLocked(number, v)
	}
}

func (d *Distribution[V]) addLocked(number int64, v V) {
	bucket, emptied := d.window.buckets.open(number)
	histogram := d.histograms[d.window.buckets.place(number)]
	if emptied {
		histogram.Reset()
	}
	bucket.add(v)
	inRange := min(max(0, v), d.highest)
	if inRange != v {
		bucket.clamped++
	}
	_ = histogram.RecordValue(int64(inRange)) // it refuses only what is out of its range
}

// Quantile tells one quantile of what is counted now, as Summary does.
func (d *Distribution[V]) Quantile(q float64) V { return d.Summary(q).Quantiles[0] }

// Summary is what a Distribution tells of one moment.
type Summary[V ~int64] struct {
	Stats[V]
	Clamped   int64 // values outside the range, which count as its ends in Quantiles; Stats know what they were
	Quantiles []V   // in the order in which they were asked for; of nothing, 0
}

// Summary tells what is counted now, and quantiles of it: 0.5 is the median, 0.99 what 99 of 100 values do not exceed. One
// below 0 or NaN means 0, one above 1 means 1.
//
// Let x be the value of rank max(1, ⌊q·Count + ½⌋), counted from the smallest. If it lies in the range, what is told for q lies in
// [x, x·(1+10^-Digits)]; else it is the end of the range, or the Min or Max that is nearest to it. For 0 and 1 it is Min and
// Max themselves.
//
// A read holds the lock while it merges the histograms: a microsecond or two for each bucket with some hundred different values.
func (d *Distribution[V]) Summary(quantiles ...float64) Summary[V] {
	w := d.window
	at := w.clock.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	first, last, span := w.intervalLocked(at)
	total := w.buckets.total(first, last)
	d.mergeLocked(first, last)
	s := Summary[V]{Stats: statsOf(total, span), Clamped: total.clamped, Quantiles: make([]V, len(quantiles))}
	for i, q := range quantiles {
		s.Quantiles[i] = d.quantileLocked(q, s.Min, s.Max)
	}
	return s
}

func (d *Distribution[V]) mergeLocked(first, last int64) {
	d.merged.Reset()
	for i, histogram := range d.histograms {
		if d.window.buckets[i].within(first, last) {
			histogram.MergeInto(d.merged)
		}
	}
}

// quantileLocked corrects what the histogram says by what is known exactly.
func (d *Distribution[V]) quantileLocked(q float64, least, most V) V {
	switch {
	case !(q > 0): // NaN as well
		return least
	case q >= 1:
		return most
	}
	v := V(d.merged.ValueAtQuantile(100 * q)) // the largest of those that are not told apart
	return min(max(least, min(v, d.highest)), most)
}
