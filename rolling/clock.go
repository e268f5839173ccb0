package rolling

import "time"

// clock numbers the buckets as they begin, from 0. Whoever has it guards everything but its readings with a lock.
type clock struct {
	now   func() time.Time // nil: the monotonic clock
	start time.Time
	width time.Duration

	newest int64         // number of the newest bucket; it never falls
	edge   time.Duration // when that began, since the start
}

func newClock(c Config) clock {
	k := clock{now: c.Now, start: time.Now(), width: c.Width}
	if k.now != nil {
		k.start = k.now()
	}
	return k
}

// read returns the time since the start. It needs no lock.
func (k *clock) read() time.Duration {
	if k.now != nil {
		return k.since(k.now())
	}
	return time.Since(k.start)
}

const reach = 1<<62 - 1 // 146 years: the difference of two times is still a Duration

// since returns how long after the start a time is, as far as the clock reaches.
func (k *clock) since(t time.Time) time.Duration { return min(max(-reach, t.Sub(k.start)), reach) }

// tick returns how far into the newest bucket a reading is, which was taken before the lock. If it lies in another bucket, that
// has yet to begin, or another goroutine was faster, or the clock has stepped meanwhile: only a reading under the lock tells.
func (k *clock) tick(at time.Duration) time.Duration {
	if into := at - k.edge; 0 <= into && into < k.width { // as nearly always: a division takes as long as all the rest
		return into
	}
	return k.settle()
}

// settle begins the bucket of this moment, and returns how far into it that is. A clock that never falls gives a reading that
// is not below any that was settled before; one that has fallen is at the beginning of the newest bucket.
func (k *clock) settle() time.Duration {
	at := k.read()
	k.edge = min(k.edge, at)
	number, into := k.locate(at)
	k.newest, k.edge = number, at-into
	return into
}

// locate returns the number of the bucket in which a time lies, and how far into it.
func (k *clock) locate(at time.Duration) (number int64, into time.Duration) {
	d := at - k.edge
	number, into = int64(d/k.width), d%k.width
	if into < 0 { // before the edge, where Go divides upwards
		number, into = number-1, into+k.width
	}
	return k.newest + number, into
}
