package ratelimit

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/google/uuid"
)

// MemoryConfig sets up a MemoryStore. The zero value is usable.
type MemoryConfig struct {
	// MaxKeys bounds the number of logs. 0, or less, means 1,000,000. A log of three entries takes about
	// 250 bytes and its key, so that the default bounds a flood of new keys to some 300 MB. Logs are spread over
	// shards by a hash, and one shard can be full when the store holds a few per cent less than MaxKeys.
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
// leave by age alone.
//
// A call takes time in proportion to its cost, and to the logarithm of the log where windows are several; a Refund
// searches the log, and so does the first request that finds room after an overflow.
type MemoryStore struct {
	shards []shard // a power of two, 64 at most: a set of shards is a bit mask
	room   int     // logs that one shard may hold
	seed   maphash.Seed
	start  time.Time
	clock  func() time.Time // nil: the monotonic clock
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
		room:   config.MaxKeys / n,
		seed:   maphash.MakeSeed(),
		start:  time.Now(),
		clock:  config.Now,
	}
	if m.clock != nil {
		m.start = m.clock()
	}
	for i := range m.shards {
		s := &m.shards[i]
		s.logs = make(map[string]*keyLog)
		s.refunded, s.reset = -1, -1 // never
	}
	return m
}

// Take implements Store. It never fails, and ignores ctx: it waits for nothing but its own short locks.
func (m *MemoryStore) Take(_ context.Context, id uuid.UUID, claims []Claim, decisions []Decision) error {
	var set uint64
	for i := range claims {
		set |= 1 << m.index(m.hash(claims[i].Key))
	}
	m.lock(set)
	defer m.unlock(set)
	now := m.now() // under the locks: a log's entries are in the order of their times
	m.clean(set, now)

	all := true
	for i := range claims {
		all = m.look(now, &claims[i], &decisions[i]) && all
	}
	for i := range claims {
		m.settle(now, id, &claims[i], &decisions[i], all)
	}
	return nil
}

// Refund implements Store.
func (m *MemoryStore) Refund(_ context.Context, key string, ticket Ticket) error {
	s := m.lockShard(key)
	defer s.mu.Unlock()
	s.refunded = m.now()
	if l := s.logs[key]; l != nil {
		l.remove(ticket.ID, ticket.Cost)
		l.recalled.admit()
		if l.size == 0 {
			s.forget(l)
		}
	}
	return nil
}

// Reset implements Store.
func (m *MemoryStore) Reset(_ context.Context, key string) error {
	s := m.lockShard(key)
	defer s.mu.Unlock()
	s.refunded = m.now()
	s.reset = s.refunded
	if l := s.logs[key]; l != nil {
		s.forget(l)
	}
	return nil
}

// look answers one claim as if it were alone and nothing were written, and reports whether it fits.
func (m *MemoryStore) look(now time.Duration, c *Claim, d *Decision) bool {
	keep := c.Kept()
	hash := m.hash(c.Key)
	l := m.shard(hash).log(c.Key, hash, keep, m.room)
	if c.Cost > 0 { // a look leaves the log as it is
		l.settle(now, keep)
	}
	*d = l.describe(now, c.Limits, max(1, c.Cost), 0)
	return d.Allowed
}

// settle writes a claim's entries if all claims of the request fit, and completes its decision.
func (m *MemoryStore) settle(now time.Duration, id uuid.UUID, c *Claim, d *Decision, all bool) {
	switch {
	case !d.Allowed:
	case c.Cost == 0:
		d.Reason = Looked
	case !all:
		d.Reason = Withheld
	default:
		hash := m.hash(c.Key)
		s, keep := m.shard(hash), c.Kept()
		l, own := s.admit(c.Key, hash, keep, m.room)
		view := l
		if !own { // beside what it has in other overflow logs
			view = s.log(c.Key, hash, keep, m.room)
		}
		*d = view.describe(now, c.Limits, c.Cost, c.Cost)
		// It fits: look has said so. Where several claims share one overflow log, each is held to its limits alone.
		d.Allowed, d.RetryAfter, d.Reason, d.Ticket = true, 0, Counted, Ticket{id, c.Cost}
		if !own {
			id = overflowID(hash)
		}
		l.add(now, id, c.Cost)
	}
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

// overflowID is what an entry in an overflow log bears in the place of a request's id: the hash of its key.
func overflowID(hash uint64) (id uuid.UUID) {
	binary.NativeEndian.PutUint64(id[:], hash)
	return id
}

func (m *MemoryStore) lockShard(key string) *shard {
	s := m.shard(m.hash(key))
	s.mu.Lock()
	return s
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
