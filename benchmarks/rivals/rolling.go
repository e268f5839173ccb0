package rivals

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeromicro/go-zero/core/collection"

	"github.com/sashlimit/sash/rolling"
)

// Rolling counts what was added lately.
type Rolling interface {
	Add(v int64)
	Sum() int64 // of what is in the window
}

// RollingContender is one way to count, over ten buckets of a minute: nothing leaves while it is measured.
type RollingContender struct {
	Name   string
	Remark string // what it does more or less than others
	New    func() (Rolling, error)
}

const (
	rollingBuckets = 10
	rollingWidth   = time.Minute
)

// Rollings lists them, Sash first.
//
// github.com/alibaba/sentinel-golang could not be had from the module proxy. A stand-in written here does what its
// BucketLeapArray does for one number, and spares it what only costs time: see leap.
func Rollings() []RollingContender {
	return []RollingContender{
		{"Sash", "`Window`: count, sum, minimum, maximum", func() (Rolling, error) {
			w, err := newRolling()
			return sashRolling{w}, err
		}},
		{"Sash, AddAt", "the same, by a caller that knows the time", func() (Rolling, error) {
			w, err := newRolling()
			return sashRollingAt{w, time.Now()}, err
		}},
		{"go-zero", "`collection.RollingWindow`: count, sum", func() (Rolling, error) {
			return zeroRolling{collection.NewRollingWindow[int64, *collection.Bucket[int64]](
				func() *collection.Bucket[int64] { return new(collection.Bucket[int64]) }, rollingBuckets, rollingWidth)}, nil
		}},
		{"leap array", "a stand-in for sentinel-golang's: sum", func() (Rolling, error) {
			return newLeap(func() int64 { return time.Now().UnixMilli() }), nil
		}},
		{"leap array, no clock", "the same, if its clock cost nothing", func() (Rolling, error) {
			began := time.Now().UnixMilli()
			return newLeap(func() int64 { return began }), nil
		}},
	}
}

func newRolling() (*rolling.Window[int64], error) {
	return rolling.NewWindow[int64](rolling.Config{Buckets: rollingBuckets, Width: rollingWidth})
}

type sashRolling struct{ *rolling.Window[int64] }

func (s sashRolling) Sum() int64 { return s.Stats().Sum }

type sashRollingAt struct {
	*rolling.Window[int64]
	at time.Time
}

func (s sashRollingAt) Add(v int64) { s.AddAt(s.at, v) }
func (s sashRollingAt) Sum() int64  { return s.Stats().Sum }

type zeroRolling struct {
	*collection.RollingWindow[int64, *collection.Bucket[int64]]
}

func (z zeroRolling) Sum() (sum int64) {
	z.Reduce(func(b *collection.Bucket[int64]) { sum += b.Sum })
	return sum
}

// leap is a ring of atomic counters, of which one is found by the time in milliseconds, begun anew by whoever comes first, and
// added to without a lock. A read adds up the counters that are not too old, and does not collect them in a slice before.
type leap struct {
	now     func() int64
	width   int64
	slots   [rollingBuckets]leapSlot
	turning sync.Mutex
}

type leapSlot struct {
	start    atomic.Int64
	counters atomic.Pointer[[6]atomic.Int64] // it counts six kinds of events
}

func newLeap(now func() int64) *leap {
	l := &leap{now: now, width: rollingWidth.Milliseconds()}
	for i := range l.slots {
		l.slots[i].counters.Store(new([6]atomic.Int64))
	}
	return l
}

func (l *leap) Add(v int64) { l.slot(l.now()).counters.Load()[0].Add(v) }

func (l *leap) slot(now int64) *leapSlot {
	slot, start := &l.slots[now/l.width%rollingBuckets], now-now%l.width
	for slot.start.Load() < start {
		if l.turning.TryLock() {
			if slot.start.Load() < start { // a look that it does not take: what was added meanwhile would be lost
				slot.counters.Store(new([6]atomic.Int64))
				slot.start.Store(start)
			}
			l.turning.Unlock()
		}
	}
	return slot
}

func (l *leap) Sum() (sum int64) {
	now := l.now()
	l.slot(now)
	for i := range l.slots {
		if slot := &l.slots[i]; now-slot.start.Load() <= rollingBuckets*l.width {
			sum += slot.counters.Load()[0].Load()
		}
	}
	return sum
}
