package ratelimit

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// A Limiter in front of a store that can fail remembers, in the logs of a MemoryStore, what that store has answered to
// this process: what was allowed, under the same ids, and what is denied until when. One log so serves three ends. A
// denial that still holds is answered without a question. If the store cannot answer, this process goes on where its
// own log stands. And a store that shows more room than the log leaves has lost something, and is reminded of it.
//
// The store decides at some moment between the question and its answer. An entry's time is that of the answer, the
// latest moment possible, so that it leaves no earlier here than there; recalled.lateness tells how much earlier the
// decision may have been. A denial is dated from before its question, so that it never lasts longer than it should.

// maxDrift is by how much of its length an interval may differ on the clocks of two machines, whose wall clocks
// are slewed by 500 ppm at the most (adjtime(3)): 1/1000.
const maxDrift = 1000

// surely is the least that an interval of length d on the store's clock can be on ours.
func surely(d time.Duration) time.Duration { return d - d/maxDrift }

// recalled is what is remembered of a key beside its log. All methods take nil for nothing.
type recalled struct {
	late, before time.Duration // an entry was made up to so long before its time: one added since then, or before
	since        time.Duration
	owed         bool // the log holds entries that the store has not been told of

	// Until then limits deny a request of cost 1, limit binds, and nothing but a refund or a reset can change it. A
	// client is told to wait somewhat longer: until there is room for certain.
	until  time.Duration
	told   time.Duration
	limits []Limit
	limit  Limit
}

// denies reports whether a denial still holds.
func (r *recalled) denies(now time.Duration) bool { return r != nil && now < r.until }

// admit forgets the denial.
func (r *recalled) admit() {
	if r != nil {
		r.until = 0
	}
}

// answered takes account of an answer that came at now, to a question sent at sent. What is kept for keep was added since
// r.since, or in the time of that length before.
func (r *recalled) answered(now, sent, keep time.Duration) {
	if now-r.since >= keep {
		r.before, r.late, r.since = r.late, 0, now
	}
	r.late = max(r.late, now-sent)
}

// lateness is how long before its time an entry may have been made.
func (r *recalled) lateness() time.Duration { return max(r.late, r.before) }

// recall answers claims if a denial of one of them still holds, and reports whether it does. Of the others nothing is
// known then. It returns the time before which no question was asked.
func (m *MemoryStore) recall(claims []Claim, decisions []Decision) (now time.Duration, denied bool) {
	now = m.now()
	for i := range claims {
		c := &claims[i]
		decisions[i] = Decision{Allowed: true, Limit: c.Limits[0], Reason: Unasked}
		if c.Cost > 1 || c.AskAlways || c.ForgetDenials { // a denial at cost 1 leaves nothing open; at another cost Remaining could change
			continue
		}
		if limit, wait := m.denial(c, now); wait > 0 {
			decisions[i] = Decision{Limit: limit, RetryAfter: wait, ResetAfter: wait, Reason: CachedExhausted}
			denied = true
		}
	}
	return now, denied
}

// denial returns the limit that denies a claim, and when a client may try again; 0 if none is known to.
func (m *MemoryStore) denial(c *Claim, now time.Duration) (Limit, time.Duration) {
	v := m.enter(c.Key)
	defer v.shard.mu.Unlock()
	k := v.own
	if k == nil || !k.recalled.denies(now) || !slices.Equal(k.recalled.limits, c.Limits) {
		return Limit{}, 0
	}
	return k.recalled.limit, k.recalled.told - now
}

// remember takes in the denials among a store's answers to a question that was sent at sent, for as long as most.
func (m *MemoryStore) remember(claims []Claim, decisions []Decision, sent, most time.Duration) {
	for i := range claims {
		c, d := &claims[i], &decisions[i]
		if d.Reason == Exhausted && c.Cost <= 1 && !c.AskAlways && !c.ForgetDenials {
			m.deny(c, d, sent, most)
		}
	}
}

// accept adds what a store has allowed to the logs, unless that cannot be right: the store has lost something, or its
// clock has jumped. Then nothing is added. A store that cannot be reminded is believed.
func (m *MemoryStore) accept(id uuid.UUID, q *question, believed bool) bool {
	for i := range q.claims {
		if q.decisions[i].Reason == Counted && !q.claims[i].Counts && !m.grant(id, &q.claims[i], &q.decisions[i], q.sent, believed) {
			for _, c := range q.claims[:i] {
				m.retract(c.Key, id)
			}
			return false
		}
	}
	return true
}

// grant adds the entries of an allowed claim to its log, or reports that it cannot be right. There may be no room for a
// log: then it is not remembered.
func (m *MemoryStore) grant(id uuid.UUID, c *Claim, d *Decision, sent time.Duration, believed bool) (ok bool) {
	ok = true
	m.on(c, func(v *visit, now time.Duration) {
		if !believed && !c.AskAlways && v.own != nil && v.own.recalled != nil && v.own.contradicts(c, d, now, sent) {
			ok = false
			return
		}
		if v.shard.resets.since(v.hash, sent) {
			return // it may be forgotten already
		}
		if k := v.remembered(now, c); k != nil {
			k.write(now, id, c)
			k.recalled.answered(now, sent, c.Kept())
			k.recalled.admit()
		}
	})
	return ok
}

// retract takes back what accept has added.
func (m *MemoryStore) retract(key string, id uuid.UUID) {
	v := m.enter(key)
	defer v.shard.mu.Unlock()
	if v.own != nil {
		v.own.remove(id, int(v.own.size))
	}
}

// contradicts reports whether a store that has just allowed a claim cannot know all that this process was granted. Either
// it shows more room than what it granted before it was asked, at sent, leaves (or what this process has allowed alone,
// of which it knows nothing whenever it has decided). Or with this one it has granted more than the limit. An entry
// counts if it was made less than a window ago for certain.
func (k *keyLog) contradicts(c *Claim, d *Decision, now, sent time.Duration) bool {
	until := sent
	if k.recalled.owed {
		until = now
	}
	left := MaxInBuckets
	for _, l := range c.Limits {
		if l.Buckets > 0 { // counters know no ids, and a store is not reminded of them
			continue
		}
		since := now - surely(l.Window) + k.recalled.lateness()
		if k.between(since, now)+c.Cost > l.MaxRequests {
			return true
		}
		left = min(left, l.MaxRequests-k.between(since, until)-c.Cost)
	}
	return d.Remaining > left
}

// deny notes a denial, which RetryAfter dates from some moment after sent.
func (m *MemoryStore) deny(c *Claim, d *Decision, sent, most time.Duration) {
	m.on(c, func(v *visit, now time.Duration) {
		until := sent + min(surely(d.RetryAfter), most)
		if sent <= v.shard.refunded || until <= now {
			return
		}
		if k := v.remembered(now, c); k != nil {
			r := k.recalled
			r.until, r.told, r.limit = until, now+d.RetryAfter, d.Limit
			if !slices.Equal(r.limits, c.Limits) {
				r.limits = slices.Clone(c.Limits)
			}
		}
	})
}

// on runs f on the log of a claim, under the lock of its shard.
func (m *MemoryStore) on(c *Claim, f func(v *visit, now time.Duration)) {
	hash := m.hash(c.Key)
	v := visit{shard: m.shard(hash), hash: hash, room: m.room}
	v.shard.mu.Lock()
	defer v.shard.mu.Unlock()
	now := m.now()
	v.shard.clean(now)
	v.find(c.Key)
	f(&v, now)
}

// remembered returns the log of a claim's key, trimmed, or nil if there is none and no room.
func (v *visit) remembered(now time.Duration, c *Claim) *keyLog {
	keep := c.Kept()
	if v.admit(now, keep, c.Key) != nil {
		return nil
	}
	v.own.settle(now, keep)
	if v.own.recalled == nil {
		v.own.recalled = new(recalled)
	}
	return v.own
}

// owe notes that the entries which this process has just allowed on its own are not known to the store.
func (m *MemoryStore) owe(claims []Claim, decisions []Decision) {
	for i := range claims {
		if decisions[i].Reason != Counted {
			continue
		}
		v := m.enter(claims[i].Key)
		if v.own != nil {
			if v.own.recalled == nil {
				v.own.recalled = new(recalled)
			}
			v.own.recalled.owed = true
		}
		v.shard.mu.Unlock()
	}
}

// past returns what is remembered of the claims' keys.
func (m *MemoryStore) past(claims []Claim) []Past {
	var logs []Past
	for i := range claims {
		v := m.enter(claims[i].Key)
		if v.own != nil {
			logs = append(logs, v.shard.past(v.own, m.now()))
		}
		v.shard.mu.Unlock()
	}
	return logs
}

// pasts returns what is remembered in one shard: of all keys, or of those with entries that the store has not been told
// of. It counts as told.
func (m *MemoryStore) pasts(shard int, all bool) []Past {
	s := &m.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	var logs []Past
	s.each(func(k *keyLog) {
		if k.size > 0 && k.recalled != nil && (all || k.recalled.owed) {
			logs = append(logs, s.past(k, now))
			k.recalled.owed = false
		}
	})
	return logs
}

// past is what is remembered of a key: the entries that still count.
func (s *shard) past(k *keyLog, now time.Duration) Past {
	p := Past{Key: k.key, Keep: s.queues[k.queue].window}
	k.settle(now, p.Keep)
	for i := range int(k.size) {
		e := k.entry(i)
		if last := len(p.Grants) - 1; last >= 0 && p.Grants[last].ID == e.id {
			p.Grants[last].Cost++ // entries of one request lie side by side
			continue
		}
		p.Grants = append(p.Grants, Grant{Ticket{ID: e.id, Cost: 1}, now - e.at})
	}
	return p
}

// untold notes that the store was not told of logs after all.
func (m *MemoryStore) untold(logs []Past) {
	for _, p := range logs {
		v := m.enter(p.Key)
		if v.own != nil && v.own.recalled != nil {
			v.own.recalled.owed = true
		}
		v.shard.mu.Unlock()
	}
}

// forget drops the entries of a key that another process has reset since. They were granted that long ago, or longer.
func (m *MemoryStore) forget(key string, reset time.Duration) {
	v := m.enter(key)
	defer v.shard.mu.Unlock()
	if k := v.own; k != nil && k.recalled != nil {
		k.drop(m.now() - reset + k.recalled.lateness())
	}
}
