package ratelimit

import (
	"hash/maphash"
	"math/bits"
	"time"
)

// table holds the logs of a shard by key. The logs lie in chunks and never move, so that a pointer to one holds until it
// is removed; a chunk that holds none is given up.
type table struct {
	index  index
	chunks []*chunk // nil: given up
	free   []uint64 // of each chunk, a set of the places without a log
	vacant int      // no chunk before this one has a free place
	spare  *chunk   // was given up: or a key that comes and goes would cost a chunk each time
	size   int      // logs
	seed   maphash.Seed
}

func newTable(seed maphash.Seed) table { return table{index: newIndex(), seed: seed} }

// keyLog is the log of one key, and its place in a queue. It is 128 bytes, of which the last are rarely used: a decision
// reads two cache lines.
type keyLog struct {
	key string
	log
	recalled   *recalled     // nil unless another store decides
	queued     time.Duration // when it came to the back of its queue
	prev, next place         // in the queue
}

// place is where a log lies in a table: the index of its chunk, and 6 bits for which of the chunk's it is, counted from
// 1. 0 is nowhere. It is maxPlace at most.
type place uint32

const (
	// perChunk makes a chunk 8 KiB, with the 8 bytes that the allocator puts before it. Of 64 logs it would be
	// taken from the 9,472 that come next, and a key would take 162 bytes instead of 145.
	perChunk = 63
	allFree  = 1<<(perChunk+1) - 2 // bit 0 stands for no place
	maxLogs  = maxPlace >> 6 * perChunk
)

type chunk [perChunk]keyLog

// at returns the log that lies at p.
func (t *table) at(p place) *keyLog {
	c := t.chunks[p>>6]
	if c == nil { // never so: but unless it is told, the machine finds out by reading the first log of the chunk as well
		return nil
	}
	return &c[p&63-1]
}

// find returns the log of key, and where it lies; nil if there is none.
func (t *table) find(key string, hash uint64) (*keyLog, place) {
	upper := upper(hash)
	w := t.index.words[t.index.page(upper)]
	if w == nil {
		return nil, 0 // as in at
	}
	for i := home(upper); w[i] != 0; i = (i + 1) % inPage {
		if (w[i]^upper)>>placeBits == 0 {
			p := place(w[i] & maxPlace)
			if k := t.at(p); k.key == key {
				return k, p
			}
		}
	}
	for _, c := range t.index.crowded {
		if k := t.at(c.p); c.hash == upper && k.key == key {
			return k, c.p
		}
	}
	return nil, 0
}

// insert returns a new log for a key that has none.
func (t *table) insert(key string, hash uint64) (*keyLog, place) {
	p := t.allocate()
	t.index.insert(upper(hash), p)
	t.size++
	k := t.at(p)
	k.key = key
	return k, p
}

// remove forgets the log at p.
func (t *table) remove(p place) {
	t.index.remove(upper(maphash.String(t.seed, t.at(p).key)), p)
	t.release(p)
	t.size--
}

// allocate returns a free place, in the first chunk that has one: so that the last ones empty, and can be given up.
func (t *table) allocate() place {
	for t.vacant < len(t.free) && t.free[t.vacant] == 0 {
		t.vacant++
	}
	c := t.vacant
	if c == len(t.chunks) {
		t.chunks, t.free = append(t.chunks, nil), append(t.free, 0)
	}
	if t.chunks[c] == nil {
		t.chunks[c], t.free[c] = t.newChunk(), allFree
	}
	i := bits.TrailingZeros64(t.free[c])
	t.free[c] &^= 1 << i
	return place(c<<6 | i)
}

func (t *table) newChunk() *chunk {
	c := t.spare
	if t.spare = nil; c == nil {
		c = new(chunk)
	}
	return c
}

// release frees a place.
func (t *table) release(p place) {
	*t.at(p) = keyLog{}
	c := int(p >> 6)
	t.free[c] |= 1 << (p & 63)
	t.vacant = min(t.vacant, c)
	if t.free[c] == allFree {
		t.spare, t.chunks[c] = t.chunks[c], nil
	}
}

// each calls f with every log.
func (t *table) each(f func(k *keyLog)) {
	for c, free := range t.free {
		for taken := allFree &^ free; taken != 0; taken &= taken - 1 {
			f(&t.chunks[c][bits.TrailingZeros64(taken)-1])
		}
	}
}
