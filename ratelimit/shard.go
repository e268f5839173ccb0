package ratelimit

import (
	"slices"
	"sync"
	"time"
)

// shard is a part of a MemoryStore's keys under one lock. All its methods need the lock.
type shard struct {
	mu     sync.Mutex
	logs   map[string]*keyLog
	queues []*queue // one for each longest Window in use; a program declares a handful

	// When a Refund and a Reset last changed a log: what another store answered to a question from before is stale.
	refunded, reset time.Duration
}

// keyLog is the log of one key, and its place in a queue.
type keyLog struct {
	log
	key        string
	queue      *queue
	prev, next *keyLog
	recalled   *recalled // nil unless another store decides
}

// queue holds the logs with one longest Window in the order in which they were last written to, so that the
// first to expire is in front (but for one that a refund let expire before its turn), and the overflow log of
// the keys that found no room.
type queue struct {
	window      time.Duration
	front, back *keyLog
	overflow    log
}

// log returns the log that speaks for key: its own; else what it has left in the overflow logs, and where there is no
// room for a log of its own, all of the one that it shares. What it returns is not always one that is kept.
func (s *shard) log(key string, hash uint64, window time.Duration, room int) *log {
	if l := s.logs[key]; l != nil {
		return &l.log
	}
	shared := &log{}
	var apart []entry
	for _, q := range s.queues {
		if q.window == window && len(s.logs) >= room {
			shared = &q.overflow
			continue
		}
		apart = append(apart, q.overflow.of(overflowID(hash))...)
	}
	if len(apart) == 0 {
		return shared
	}
	return newLog(append(apart, shared.entries()...))
}

// admit returns the log to which an allowed claim on key is written, and whether it is the key's own.
func (s *shard) admit(key string, hash uint64, window time.Duration, room int) (l *log, own bool) {
	k, q := s.own(key, hash, window, room)
	if k == nil {
		return &q.overflow, false
	}
	return &k.log, true
}

// own returns the log of key, at the back of its queue; nil if there is none and no room. It makes one for a key that
// has none, and moves there what the key has in the overflow logs.
func (s *shard) own(key string, hash uint64, window time.Duration, room int) (*keyLog, *queue) {
	q := s.queue(window)
	if q == nil {
		q = &queue{window: window}
		s.queues = append(s.queues, q)
	}
	k := s.logs[key]
	switch {
	case k != nil:
		k.queue.remove(k)
	case len(s.logs) < room:
		k = &keyLog{key: key}
		s.logs[key] = k
		s.move(k, hash)
	default:
		return nil, q
	}
	q.push(k)
	return k, q
}

// move takes the entries of a key out of the overflow logs, into its new log.
func (s *shard) move(k *keyLog, hash uint64) {
	var moved []entry
	for _, q := range s.queues {
		if q.overflow.size > 0 {
			moved = append(moved, q.overflow.of(overflowID(hash))...)
			q.overflow.remove(overflowID(hash), q.overflow.size)
		}
	}
	if len(moved) > 0 {
		k.log = *newLog(moved)
	}
}

// clean settles the overflow logs, and forgets logs and queues that hold nothing any more: up to two logs a call and
// queue, so that the shard shrinks faster than it grows, and no call pays for a sweep.
func (s *shard) clean(now time.Duration) {
	for _, q := range s.queues {
		q.overflow.settle(now, q.window)
		for range 2 {
			if q.front == nil || !q.front.left(now, q.window) || q.front.recalled.denies(now) {
				break
			}
			s.forget(q.front)
		}
	}
	s.queues = slices.DeleteFunc(s.queues, func(q *queue) bool {
		return q.front == nil && q.overflow.size == 0
	})
}

// forget removes a log.
func (s *shard) forget(l *keyLog) {
	delete(s.logs, l.key)
	l.queue.remove(l)
}

func (s *shard) queue(window time.Duration) *queue {
	for _, q := range s.queues {
		if q.window == window {
			return q
		}
	}
	return nil
}

// push puts l at the back.
func (q *queue) push(l *keyLog) {
	l.queue, l.prev, l.next = q, q.back, nil
	if q.back == nil {
		q.front = l
	} else {
		q.back.next = l
	}
	q.back = l
}

func (q *queue) remove(l *keyLog) {
	if l.prev == nil {
		q.front = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		q.back = l.prev
	} else {
		l.next.prev = l.prev
	}
}

// left reports whether every entry has left window at now. An entry ahead of now has not.
func (l *log) left(now, window time.Duration) bool {
	return l.size == 0 || l.entry(l.size-1).at <= now-window
}
