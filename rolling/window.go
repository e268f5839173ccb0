package rolling

import (
	"fmt"
	"sync"
	"time"
)

// Window keeps count, sum, minimum and maximum of what was added lately: see the package for the interval and its error. It is
// safe for concurrent use, starts no goroutine, and takes 56 bytes for each bucket.
type Window[V Number] struct {
	ignoreCurrent bool
	clock         clock

	mu      sync.Mutex // guards all but the readings of the clock
	buckets buckets[V]
}

// NewWindow returns an empty Window, whose first bucket begins now. The error tells everything that is wrong with the Config.
func NewWindow[V Number](config Config) (*Window[V], error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("rolling: window: %w", err)
	}
	return newWindow[V](config), nil
}

func newWindow[V Number](config Config) *Window[V] {
	return &Window[V]{
		ignoreCurrent: config.IgnoreCurrent,
		clock:         newClock(config),
		buckets:       make(buckets[V], config.Buckets),
	}
}

// Add adds a value now. It allocates nothing. NaN and infinite values are ignored, and counted as such.
func (w *Window[V]) Add(v V) {
	at := w.clock.read() // before the lock: nobody has to wait for a clock
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.tick(at)
	w.openLocked(w.clock.newest).add(v)
}

// AddAt adds a value that came at a time of the clock that the Window was given, into the bucket of that time. What is
// older than Window, or than the Window itself, is dropped: no interval that can still be read holds it. What lies ahead of
// the clock counts as come now.
func (w *Window[V]) AddAt(at time.Time, v V) {
	since := w.clock.since(at)
	w.mu.Lock()
	defer w.mu.Unlock()
	if number, ok := w.numberLocked(since); ok {
		w.openLocked(number).add(v)
	}
}

// Stats tells what is counted now. It holds all that was added before it was called, but for what has left the window.
func (w *Window[V]) Stats() Stats[V] {
	at := w.clock.read()
	w.mu.Lock()
	defer w.mu.Unlock()
	first, last, span := w.intervalLocked(at)
	return statsOf(w.buckets.total(first, last), span)
}

// numberLocked returns the number of the bucket in which a time lies, and false if it is no longer kept. Of a time outside those
// that are kept only the clock tells where it lies: a bucket may have to begin, or the clock has stepped back.
func (w *Window[V]) numberLocked(at time.Duration) (number int64, kept bool) {
	number, _ = w.clock.locate(at)
	if number > w.clock.newest || number < w.oldestLocked() {
		w.clock.settle()
		number, _ = w.clock.locate(at)
		number = min(number, w.clock.newest)
	}
	return number, number >= w.oldestLocked()
}

// oldestLocked is the number of the oldest bucket that is kept.
func (w *Window[V]) oldestLocked() int64 {
	return max(0, w.clock.newest-int64(len(w.buckets))+1)
}

func (w *Window[V]) openLocked(number int64) *bucket[V] {
	open, _ := w.buckets.open(number)
	return open
}

// intervalLocked returns the numbers of the buckets that are counted at a time, and how much time they cover.
func (w *Window[V]) intervalLocked(at time.Duration) (first, last int64, span time.Duration) {
	into := w.clock.tick(at)
	first, last = w.oldestLocked(), w.clock.newest
	span = time.Duration(last-first) * w.clock.width // of the finished ones
	if w.ignoreCurrent {
		return first, last - 1, span
	}
	return first, last, span + into
}
