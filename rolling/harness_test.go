package rolling_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sashlimit/sash/rolling"
)

// clock is a clock that a test moves, in any direction, while others read it.
type clock struct{ since atomic.Int64 }

// origin is no multiple of any Width: edges are on the grid of the Window, not on that of the calendar.
var origin = time.Unix(1_763_671_412, 345_678_901)

func newClock() *clock { return new(clock) }

func (c *clock) Now() time.Time          { return origin.Add(time.Duration(c.since.Load())) }
func (c *clock) advance(d time.Duration) { c.since.Add(int64(d)) }

func newWindow[V rolling.Number](t testing.TB, config rolling.Config) *rolling.Window[V] {
	t.Helper()
	w, err := rolling.NewWindow[V](config)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
