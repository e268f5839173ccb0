package ratelimit

import (
	"slices"
	"sync/atomic"
	"time"
)

// denialsPerShard bounds the denials that a shard publishes: a key under attack is likely to find a place.
const denialsPerShard = 16

// denial is what is told, without a lock, to requests on a key that is exhausted: until then, these limits deny it at a
// cost of 1. Whoever changes a log under the lock of its shard revokes its denial before, so that a
// denial read without the lock was true at that moment. Only until ever changes.
type denial struct {
	until  atomic.Int64 // on the store's clock; 0: revoked
	key    string
	limit  Limit   // the one that binds
	limits []Limit // all
}

// denied answers a claim of cost 0 or 1 by a published denial that holds now, and reports whether there is one. The key may be as the
// caller wrote it: only those are published that are their own canonical form.
func (m *MemoryStore) denied(key string, hash uint64, limits []Limit, d *Decision) (now time.Duration, ok bool) {
	q := m.shard(hash).published(hash).Load()
	if q == nil || q.key != key || !q.is(limits) {
		return 0, false
	}
	until := time.Duration(q.until.Load())
	if until == 0 { // mostly so where requests are allowed: they need no second look at the clock
		return 0, false
	}
	now = time.Since(m.start)
	wait := until - now
	if wait <= 0 {
		return now, false
	}
	*d = Decision{}
	d.Limit, d.RetryAfter, d.ResetAfter, d.Reason = q.limit, wait, wait, Exhausted
	return now, true
}

// is reports whether the denial is of a claim with limits.
func (q *denial) is(limits []Limit) bool {
	if len(q.limits) == 1 && len(limits) == 1 {
		return q.limit == limits[0] // on the cache line that has been read anyway
	}
	return slices.Equal(q.limits, limits)
}

// published is where the denial of a key may be found.
func (s *shard) published(hash uint64) *atomic.Pointer[denial] {
	return &s.denials[hash>>58%denialsPerShard]
}

// publish tells of a denial of k that nothing but a change of its log can end before d.RetryAfter. A denial of another
// key that still holds stays where it is.
func (s *shard) publish(k *keyLog, hash uint64, limits []Limit, d *Decision, now time.Duration) {
	place := s.published(hash)
	q := place.Load()
	if q == nil || q.key != k.key || q.limit != d.Limit || !q.is(limits) {
		if q != nil && q.key != k.key && q.until.Load() > int64(now) || canonical(k.key) != k.key {
			return
		}
		q = &denial{key: k.key, limit: d.Limit, limits: slices.Clone(limits)}
		q.until.Store(int64(now + d.RetryAfter))
		place.Store(q)
	} else {
		q.until.Store(int64(now + d.RetryAfter))
	}
	k.log.published = true
}

// revoke ends the denial of k, if one is published. It comes before every change of a log.
func (s *shard) revoke(k *keyLog, hash uint64) {
	if !k.log.published {
		return
	}
	if q := s.published(hash).Load(); q.key == k.key {
		q.until.Store(0)
	}
	k.log.published = false
}
