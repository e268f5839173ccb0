package ratelimit

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// shard is a part of a MemoryStore's keys under one lock. All its methods need the lock.
type shard struct {
	mu     sync.Mutex
	queues []queue // one for each longest Window in use; a program declares a handful
	table

	number uint64 // of the shard
	ids    uint64 // made so far

	// When a Refund or a Reset last changed a log: what another store answered to a question from before is stale. Of a
	// denial that costs no more than another question; of a grant it is looked up which log was reset.
	refunded time.Duration
	resets   resets

	none    log      // holds nothing
	counted *buckets // of all keys that found no room; nil if there is nothing in them

	_       [64]byte // what is written under the lock does not slow down those who read without it
	denials [denialsPerShard]atomic.Pointer[denial]
	_       [64]byte
}

// queue holds the logs with one longest Window in the order in which they came to its back. There they come when they
// are made, and again when they are found in front a Window later and have been written to since. So a log is
// forgotten one Window after its last entry if that was its first, and two at the latest, and a request that
// is allowed moves nothing. A queue also holds the overflow log of the keys that found no room.
type queue struct {
	window      time.Duration // 0: not in use
	front, back place
	since       time.Duration // queued of the one in front
	overflow    log
}

// maxQueues bounds the work of clean, and fits log.queue. More windows than that share the last queue.
const maxQueues = 255

// shared returns the log that speaks for a key without one of its own: what it has left in the overflow logs, and where
// there is no room for a log of its own, all of the one that it would share. It is not to be written to.
func (s *shard) shared(hash uint64, window time.Duration, room int) *log {
	shared := -1
	if s.size >= room {
		shared = s.lookup(window)
	}
	if !s.overflows() {
		return &s.none
	}
	var apart []entry
	for i := range s.queues {
		if q := &s.queues[i]; i != shared && q.overflow.size > 0 {
			apart = append(apart, q.overflow.of(overflowID(hash))...)
		}
	}
	var view log
	switch {
	case shared < 0:
	case len(apart) == 0:
		return &s.queues[shared].overflow
	default:
		apart = append(apart, s.queues[shared].overflow.all()...)
	}
	view.addAll(apart)
	return &view
}

// overflows reports whether there is anything in the overflow logs.
func (s *shard) overflows() bool {
	for i := range s.queues {
		if s.queues[i].overflow.size > 0 {
			return true
		}
	}
	return false
}

// move takes the entries of a key out of the overflow logs, into its new log.
func (s *shard) move(k *keyLog, hash uint64) {
	if s.counted != nil {
		k.rest().buckets = s.counted.clone()
	}
	if !s.overflows() {
		return
	}
	var moved []entry
	for i := range s.queues {
		o := &s.queues[i].overflow
		moved = append(moved, o.of(overflowID(hash))...)
		o.remove(overflowID(hash), int(o.size))
	}
	for i := range moved {
		moved[i].id = uuid.New() // another store may be told of each
	}
	k.addAll(moved)
}

// share counts a claim of a key that found no room.
func (s *shard) share(now time.Duration, c *Claim) {
	if s.counted == nil {
		s.counted = new(buckets)
	}
	s.counted.add(now, c.Limits, c.Cost)
}

// overflowID is what an entry in an overflow log bears in the place of a request's id: the hash of its key.
func overflowID(hash uint64) (id uuid.UUID) {
	binary.NativeEndian.PutUint64(id[:], hash)
	return id
}

// clean settles the overflow logs, and forgets logs and queues that hold nothing any more: up to two logs a call and
// queue, so that the shard shrinks faster than it grows, and no call pays for a sweep.
func (s *shard) clean(now time.Duration) {
	if s.counted != nil && s.counted.left(now) {
		s.counted = nil
	}
	for i := range s.queues {
		q := &s.queues[i]
		if q.overflow.size > 0 {
			q.overflow.settle(now, q.window)
		}
		for range 2 {
			// One that was queued ahead of now, as the clock stepped back, must not hold up those behind it.
			if q.front == 0 || q.since <= now && now < q.since+q.window {
				break
			}
			s.examine(i, now)
		}
		if q.front == 0 && q.overflow.size == 0 {
			*q = queue{}
		}
	}
	for n := len(s.queues); n > 0 && s.queues[n-1].window == 0; n-- {
		s.queues = s.queues[:n-1]
	}
}

// examine forgets the log in front of a queue if it has left, else it moves it to the back.
func (s *shard) examine(i int, now time.Duration) {
	p := s.queues[i].front
	k := s.at(p)
	if k.left(now, s.queues[i].window) && !k.recalled.denies(now) {
		s.forget(k, p)
		return
	}
	s.unlink(k)
	s.push(i, k, p, now)
}

// forget removes a log, which lies at p.
func (s *shard) forget(k *keyLog, p place) {
	s.unlink(k)
	s.remove(p)
}

// lookup returns the index of the queue of a window; -1 if there is none yet. The last, which several windows share, holds
// logs for the longest of them.
func (s *shard) lookup(window time.Duration) int {
	for i := range s.queues {
		if s.queues[i].window == window {
			return i
		}
	}
	if s.unused() < maxQueues {
		return -1
	}
	last := &s.queues[maxQueues-1]
	last.window = max(window, last.window)
	return maxQueues - 1
}

// open makes a queue for a window that has none.
func (s *shard) open(window time.Duration) int {
	i := s.unused()
	if i == len(s.queues) {
		s.queues = append(s.queues, queue{})
	}
	s.queues[i].window = window
	return i
}

// unused returns the index of a queue that is not in use, which may be one behind the last.
func (s *shard) unused() int {
	for i := range s.queues {
		if s.queues[i].window == 0 {
			return i
		}
	}
	return len(s.queues)
}

// push puts the log at p at the back of a queue.
func (s *shard) push(i int, k *keyLog, p place, now time.Duration) {
	q := &s.queues[i]
	k.queue, k.queued, k.prev, k.next = uint8(i), now, q.back, 0
	if q.back == 0 {
		q.front, q.since = p, now
	} else {
		s.at(q.back).next = p
	}
	q.back = p
}

// unlink takes a log out of its queue.
func (s *shard) unlink(k *keyLog) {
	q := &s.queues[k.queue]
	if k.next == 0 {
		q.back = k.prev
	} else {
		s.at(k.next).prev = k.prev
	}
	if k.prev != 0 {
		s.at(k.prev).next = k.next
		return
	}
	if q.front = k.next; k.next != 0 {
		q.since = s.at(k.next).queued
	}
}

// resets are the latest logs that were reset, by the hashes of their keys.
type resets []struct {
	hash uint64
	at   time.Duration
}

// add notes a reset. Those that are older than any answer that may be on its way are dropped.
func (r *resets) add(hash uint64, now, oldest time.Duration) {
	kept := (*r)[:0]
	for _, e := range *r {
		if e.at >= oldest && e.hash != hash {
			kept = append(kept, e)
		}
	}
	*r = append(kept, struct {
		hash uint64
		at   time.Duration
	}{hash, now})
}

// since reports whether a log was reset at t or later.
func (r resets) since(hash uint64, t time.Duration) bool {
	for _, e := range r {
		if e.hash == hash && e.at >= t {
			return true
		}
	}
	return false
}
