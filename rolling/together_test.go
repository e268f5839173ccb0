package rolling_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/rolling"
)

const (
	writers = 4
	each    = 5000
)

// together has writers add while a reader looks and the clock moves, and ends when all of them have.
func together(add func(writer, i int), look func(), move func(i int)) {
	var writing, others sync.WaitGroup
	var over atomic.Bool
	for g := range writers {
		writing.Go(func() {
			for i := range each {
				add(g, i)
			}
		})
	}
	others.Go(func() {
		for !over.Load() {
			look()
		}
	})
	others.Go(func() {
		for i := 0; !over.Load(); i++ {
			move(i)
		}
	})
	writing.Wait()
	over.Store(true)
	others.Wait()
}

func TestReadersNeverSeeHalfAnAdd(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := newWindow[int64](t, rolling.Config{Buckets: 3, Width: time.Millisecond, Now: clock.Now})
	together(func(int, int) { w.Add(7) }, func() {
		s := w.Stats()
		if s.Sum != 7*s.Count || s.Count < 0 || s.Count > writers*each || s.Count > 0 && (s.Min != 7 || s.Max != 7 || s.Mean != 7) {
			t.Errorf("%+v", s)
		}
	}, func(int) { clock.advance(300 * time.Microsecond) })
	clock.advance(time.Second)
	if n := w.Stats().Count; n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestNothingIsLostWhileTheClockMovesWithinTheWindow(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*clock, int){
		"forth": func(c *clock, _ int) {
			if time.Duration(c.since.Load()) < 50*time.Second {
				c.advance(time.Millisecond)
			}
		},
		"back": func(c *clock, _ int) { c.advance(-time.Minute) },
		"back and forth": func(c *clock, i int) {
			if i < 20 { // each may take a Width
				c.advance([]time.Duration{time.Second, -time.Hour}[i%2])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := newClock()
			w := newWindow[int64](t, rolling.Config{Buckets: 60, Now: clock.Now})
			before := int64(0)
			together(func(g, _ int) {
				if g%2 == 0 {
					w.Add(1)
				} else {
					w.AddAt(clock.Now().Add(time.Hour), 1)
				}
			}, func() {
				s := w.Stats()
				if s.Count < before {
					t.Errorf("%d were counted, and then %d", before, s.Count)
				}
				before = s.Count
			}, func(i int) { move(clock, i) })
			if s := w.Stats(); s.Count != writers*each || s.Sum != s.Count {
				t.Errorf("of %d are counted %+v", writers*each, s)
			}
		})
	}
}
