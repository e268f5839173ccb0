package ratelimit

import (
	"context"
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/google/uuid"
)

// MemoryConfig sets up a MemoryStore. The zero value is usable.
type MemoryConfig struct {
	// MaxKeys bounds the number of logs. 0, or less, means 1,000,000. A log of three entries takes about
	// 150 bytes and its key, so that the default bounds a flood of new keys to some 200 MB. Logs are spread over
	// shards by a hash, and one shard can be full when the store holds a few per cent less than MaxKeys. More than
	// 264,000,000 are as many.
	MaxKeys int

	// Now is the clock; only the differences of its values are used. nil means the monotonic clock of this
	// process, which no adjustment of the wall clock moves.
	Now func() time.Time
}

// MemoryStore is a Store in this process: exact, bounded, safe for concurrent use. It starts no goroutine and
// needs no Close: logs that hold nothing any more are cleaned up as other keys of their shard are used.
//
// It never forgets a log that still counts. When a shard is full of those, the keys that it does not know
// share one overflow log (one for each length of window, so that entries of a day do not weigh on those of a
// second). They are limited together, each by its own limits: some requests are denied that an unbounded
// store would have allowed, none is allowed that it would have denied. Once there is room again, a new key
// gets a log of its own, and takes its entries in the overflow log along. Those cannot be refunded or reset: they
// leave by age alone. What limits in Buckets have counted for such keys is told apart by nobody: a new log begins with all of
// it.
//
// A denial of a key that is exhausted is answered without a lock while it lasts, on the monotonic clock; of two such keys
// that fall in one place only the first is.
//
// A call takes time in proportion to its cost, and to the logarithm of the log where windows are several; a Refund
// searches the log, and so does the first request that finds room after an overflow.
type MemoryStore struct {
	shards []shard // a power of two, 64 at most: a set of shards is a bit mask
	room   int     // logs that one shard may hold
	seed   maphash.Seed
	start  time.Time
	clock  func() time.Time // nil: the monotonic clock
	name   [8]byte          // random, begins all ids that this store makes

	answersWithin time.Duration // of a store before another: no answer of that is older
}

const (
	maxShards = 64
	minRoom   = 1024 // smaller shards would fill up far apart from each other
)

// NewMemoryStore returns an empty store.
func NewMemoryStore(config MemoryConfig) *MemoryStore {
	if config.MaxKeys <= 0 {
		config.MaxKeys = 1_000_000
	}
	n := 1
	for n < maxShards && config.MaxKeys/(2*n) >= minRoom {
		n *= 2
	}
	m := &MemoryStore{
		shards: make([]shard, n),
		room:   min(config.MaxKeys/n, maxLogs),
		seed:   maphash.MakeSeed(),
		start:  time.Now(),
		clock:  config.Now,
		name:   newName(),
	}
	if m.clock != nil {
		m.start = m.clock()
	}
	for i := range m.shards {
		s := &m.shards[i]
		s.number, s.table = uint64(i), newTable(m.seed)
		s.refunded = -1 // never
	}
	return m
}

// Take implements Store. It never fails, and ignores ctx: it waits for nothing but its own short locks.
func (m *MemoryStore) Take(_ context.Context, id uuid.UUID, claims []Claim, decisions []Decision) error {
	m.takeAll(id, claims, decisions)
	return nil
}

// takeOne is Take for one claim on key, which has that hash, under an id that the store makes. A denial is published. The
// key, which a new log keeps, is not read from the claim: the compiler would think that the Limits are kept as well, and
// Limiter.Allow would have to allocate them. It returns when it has decided.
func (m *MemoryStore) takeOne(key string, hash uint64, c *Claim, d *Decision) (now time.Duration) {
	s := m.shard(hash)
	s.mu.Lock()
	if m.clock == nil && c.plain() {
		if now = time.Since(m.start); s.take(now, m, key, hash, &c.Limits[0], d) {
			s.mu.Unlock()
			return now
		}
	}
	defer s.mu.Unlock()
	now = m.now() // under the lock: a log's entries are in the order of their times
	s.clean(now)
	v := visit{shard: s, hash: hash, room: m.room}
	id := m.newID(s)
	v.settle(now, id, key, c, d, v.look(now, id, key, c, d))
	if d.Reason == Exhausted && c.Cost <= 1 && m.clock == nil && v.unchangedUntil(now+d.RetryAfter, c) { // another clock is read under the lock only
		s.publish(v.own, hash, c.Limits, d, now)
	}
	return now
}

// plain reports whether a claim is like most: one request, under one limit, which is kept for its window.
func (c *Claim) plain() bool {
	return len(c.Limits) == 1 && c.Cost == 1 && c.Keep <= c.Limits[0].Window && c.Limits[0].Buckets == 0 && !c.Counts && !c.Replaces
}

// take decides a plain claim at once if it is on a log that is known, and allows it. Else it reports false, and has
// decided nothing.
//
// All that can be is done before the log is read. That takes as long as hundreds of instructions where logs are many, and
// the processor goes on with those which do not depend on it, as far as it can see: with little to do after it, to the next
// request and its key.
func (s *shard) take(now time.Duration, m *MemoryStore, key string, hash uint64, limit *Limit, d *Decision) bool {
	s.clean(now)
	queue := s.lookup(limit.Window)
	*d = Decision{}
	d.Limit, d.Reason, d.Ticket.ID, d.Ticket.Cost = *limit, Counted, m.newID(s), 1
	k, _ := s.find(key, hash)
	return k != nil && int(k.queue) == queue && !k.published && k.take(now, limit, &d.Ticket.ID, d)
}

// unchangedUntil reports whether a claim that is denied until then finds the log, each time that it is asked again, as it is.
func (v *visit) unchangedUntil(then time.Duration, c *Claim) bool {
	return v.own != nil && v.own.size > 0 && v.own.entry(0).at+c.Kept() >= then
}

// takeAll is Take, under an id that the store makes if id is zero. It returns when it has decided.
func (m *MemoryStore) takeAll(id uuid.UUID, claims []Claim, decisions []Decision) (now time.Duration) {
	var few [4]visit
	visits := few[:0]
	var set uint64
	for i := range claims {
		hash := m.hash(claims[i].Key)
		visits = append(visits, visit{shard: m.shard(hash), hash: hash, room: m.room})
		set |= 1 << m.index(hash)
	}
	m.lock(set)
	defer m.unlock(set)
	now = m.now()
	m.clean(set, now)

	if id == (uuid.UUID{}) {
		id = m.newID(visits[0].shard)
	}
	all := true
	for i := range claims {
		all = visits[i].look(now, id, claims[i].Key, &claims[i], &decisions[i]) && all
	}
	for i := range claims {
		visits[i].settle(now, id, claims[i].Key, &claims[i], &decisions[i], all)
	}
	return now
}

// Refund implements Store.
func (m *MemoryStore) Refund(_ context.Context, key string, ticket Ticket) error {
	if ticket.Cost <= 0 {
		return nil
	}
	windows, _, err := ticket.SubWindows()
	if err != nil {
		return err
	}
	v := m.enter(key)
	defer v.shard.mu.Unlock()
	now := m.now()
	v.shard.refunded = now
	if v.own == nil {
		return nil
	}
	v.own.recalled.admit()
	v.own.remove(ticket.ID, ticket.Cost)
	if b := v.own.buckets(); b != nil {
		b.refund(now, ticket, windows)
		return nil
	}
	if v.own.size == 0 {
		v.shard.forget(v.own, v.place)
	}
	return nil
}

// Reset implements Store.
func (m *MemoryStore) Reset(_ context.Context, key string) error {
	v := m.enter(key)
	defer v.shard.mu.Unlock()
	now := m.now()
	v.shard.refunded = now
	if m.answersWithin > 0 {
		v.shard.resets.add(v.hash, now, now-m.answersWithin)
	}
	switch {
	case v.own == nil:
	case v.own.buckets() != nil: // which know for a while that nothing from before can be refunded
		v.own.reset(now)
		v.own.recalled = nil
	default:
		v.shard.forget(v.own, v.place)
	}
	return nil
}

// visit is what a call does to the log of one key, under the lock of its shard.
type visit struct {
	shard *shard
	hash  uint64        // of the key
	room  int           // for logs in the shard
	keep  time.Duration // how long an entry of the claim is remembered
	own   *keyLog       // nil: there is none
	place place         // of own
}

// find finds the key's own log. A denial of it that is published may be over with this visit.
func (v *visit) find(key string) {
	if v.own, v.place = v.shard.find(key, v.hash); v.own != nil {
		v.shard.revoke(v.own, v.hash)
	}
}

// look answers a claim as if it were alone, and were counted if it fits. It reports whether it does.
func (v *visit) look(now time.Duration, id uuid.UUID, key string, c *Claim, d *Decision) bool {
	v.find(key)
	v.keep = c.Kept()
	if v.own != nil && c.Cost > 0 { // a look leaves the log as it is
		v.own.settle(now, v.keep)
		if c.Replaces {
			v.own.remove(id, int(v.own.size))
		}
	}
	v.view().describe(d, now, c.Limits, max(1, c.Cost), c.Cost)
	return d.Allowed
}

// view returns the log that speaks for the key.
func (v *visit) view() *log {
	if v.own != nil {
		return &v.own.log
	}
	l := v.shard.shared(v.hash, v.keep, v.room)
	if v.shard.counted == nil {
		return l
	}
	return l.with(v.shard.counted)
}

// settle writes a claim's entries if all claims of the request fit, and completes its decision.
func (v *visit) settle(now time.Duration, id uuid.UUID, key string, c *Claim, d *Decision, all bool) {
	switch {
	case c.Cost == 0 && d.Allowed:
		d.Reason = Looked
	case c.Cost == 0:
	case !all:
		if v.view().describe(d, now, c.Limits, c.Cost, 0); d.Allowed {
			d.Reason = Withheld
		}
	default:
		v.write(now, id, key, c, d)
		d.Reason, d.Ticket = Counted, Ticket{ID: id, Cost: c.Cost, Counters: c.CountersAt(now)}
	}
	if c.Counts {
		d.Counts = v.view().counts(now, c.Limits)
	}
}

// write writes the entries of a claim that look has described.
func (v *visit) write(now time.Duration, id uuid.UUID, key string, c *Claim, d *Decision) {
	overflow := v.admit(now, v.keep, key)
	if overflow == nil {
		v.own.write(now, id, c)
		return
	}
	// Another claim may have been written to this overflow log since. They are taken together, and each is held to
	// its limits alone.
	v.view().describe(d, now, c.Limits, c.Cost, c.Cost)
	d.Allowed, d.RetryAfter = true, 0
	lists, counts := c.Kinds()
	if lists {
		overflow.add(now, overflowID(v.hash), c.Cost)
	}
	if counts {
		v.shard.share(now, c)
	}
}

// admit sees to it that the key has a log of its own, in the queue of window. If there is none and no room, it returns
// the overflow log instead. A new log takes along what the key has in the overflow logs.
func (v *visit) admit(now, window time.Duration, key string) (overflow *log) {
	s := v.shard
	i := s.lookup(window)
	switch {
	case v.own != nil && int(v.own.queue) == i:
		return nil
	case i < 0:
		i = s.open(window)
	}
	switch {
	case v.own != nil:
		s.unlink(v.own)
	case s.size < v.room:
		v.own, v.place = s.insert(key, v.hash)
		s.move(v.own, v.hash)
	default:
		return &s.queues[i].overflow
	}
	s.push(i, v.own, v.place, now)
	return nil
}

func (m *MemoryStore) now() time.Duration {
	if m.clock != nil {
		return m.clock().Sub(m.start)
	}
	return time.Since(m.start)
}

func (m *MemoryStore) hash(key string) uint64   { return maphash.String(m.seed, key) }
func (m *MemoryStore) index(hash uint64) uint64 { return hash & uint64(len(m.shards)-1) }
func (m *MemoryStore) shard(hash uint64) *shard { return &m.shards[m.index(hash)] }

// enter locks the shard of key, and finds its log.
func (m *MemoryStore) enter(key string) visit {
	hash := m.hash(key)
	v := visit{shard: m.shard(hash), hash: hash, room: m.room}
	v.shard.mu.Lock()
	v.find(key)
	return v
}

// clean lets each of a set of shards forget something.
func (m *MemoryStore) clean(set uint64, now time.Duration) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].clean(now)
	}
}

// lock takes the locks of a set of shards in the order of their index, so that two calls never wait for
// each other.
func (m *MemoryStore) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

func (m *MemoryStore) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}
