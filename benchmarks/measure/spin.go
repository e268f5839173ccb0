package measure

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter is what is asked.
type Limiter interface {
	Allow(ctx context.Context, key string) (bool, error)
}

// walk goes around the places 0, 1, …, n-1 in an order that is not that in which keys were made.
type walk struct{ at, step, n int }

// steps lead to orders that have nothing to do with each other. They are primes, so that each place comes once before one
// comes again, unless a step divides n.
var steps = [...]int{514_229, 433_494_437}

// walkFrom returns a walk in one of two orders, that has so many steps behind it.
func walkFrom(done, n, order int) walk {
	step := steps[order] % n
	return walk{done * step % n, step, n}
}

// next returns the place, and goes on. It does not divide: that would take as long as some limiters do.
func (w *walk) next() int {
	at := w.at
	if w.at += w.step; w.at >= w.n {
		w.at -= w.n
	}
	return at
}

// Pass asks once for each key, from so many goroutines, in one of two orders, 0 or 1.
func Pass(l Limiter, keys []string, goroutines, order int) Sample {
	return timed(goroutines, func(g int, c *tally) {
		n := len(keys)
		first, last := g*n/goroutines, (g+1)*n/goroutines
		w := walkFrom(first, n, order)
		for range last - first {
			c.ask(l, keys[w.next()])
		}
	}, len(keys))
}

// Spin asks for one key after the other, from so many goroutines, until the time is up.
func Spin(l Limiter, keys []string, goroutines int, d time.Duration) Sample {
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	const between = 256 // looks whether time is up
	return timed(goroutines, func(g int, c *tally) {
		w := walkFrom(g*len(keys)/goroutines, len(keys), 0)
		for {
			for range between {
				c.ask(l, keys[w.next()])
			}
			if over.Load() {
				return
			}
		}
	}, 0)
}

// Count asks n times for one key after the other, from one goroutine.
func Count(l Limiter, keys []string, n int) Sample {
	return timed(1, func(_ int, c *tally) {
		w := walkFrom(0, len(keys), 0)
		for range n {
			c.ask(l, keys[w.next()])
		}
	}, min(n, len(keys)))
}

// timed runs f in goroutines, and times all of them together. keys is how many distinct ones they are known to ask
// for; 0 means not known.
func timed(goroutines int, f func(g int, c *tally), keys int) Sample {
	tallies := make([]tally, goroutines)
	var running sync.WaitGroup
	objects, spent, start := mallocs(), cpu(), time.Now()
	for g := range goroutines {
		running.Go(func() { f(g, &tallies[g]) })
	}
	running.Wait()
	s := Sample{Elapsed: time.Since(start), CPU: cpu() - spent, Mallocs: mallocs() - objects, Keys: keys}
	for i := range tallies {
		s.add(&tallies[i])
	}
	return s
}

// tally counts the answers that one goroutine got.
type tally struct {
	allowed, denied, failed int
	_                       [5]int // so that no two goroutines write to one cache line
}

func (c *tally) ask(l Limiter, key string) {
	switch ok, err := l.Allow(context.Background(), key); {
	case err != nil:
		c.failed++
	case ok:
		c.allowed++
	default:
		c.denied++
	}
}

func (s *Sample) add(c *tally) {
	s.Allowed += c.allowed
	s.Denied += c.denied
	s.Failed += c.failed
}
