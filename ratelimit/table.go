package ratelimit

import (
	"hash/maphash"
	"math/bits"
	"time"
)

// table holds the logs of a shard by key. The logs lie in chunks and never move, so that a pointer to one holds until it
// is removed; a chunk that holds none is given up. An index finds a log by the hash of its key: open addressing, where
// a probe costs a neighbouring word, and a log is read only if half of the hash agrees.
type table struct {
	index  []uint64 // the hash's upper half, and where the log is; 0: free. Its length is a power of two
	chunks []*chunk // nil: given up
	free   []uint64 // of each chunk, a set of the places without a log
	vacant int      // no chunk before this one has a free place
	spare  *chunk   // was given up: or a key that comes and goes would cost a chunk each time
	size   int      // logs
	seed   maphash.Seed
}

func newTable(seed maphash.Seed) table { return table{index: make([]uint64, minIndex), seed: seed} }

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
// 1. 0 is nowhere.
type place uint32

const (
	// perChunk makes a chunk 8 KiB, with the 8 bytes that the allocator puts before it. Of 64 logs it would be
	// taken from the 9,472 that come next, and a key would take 162 bytes instead of 145.
	perChunk = 63
	allFree  = 1<<(perChunk+1) - 2 // bit 0 stands for no place

	minIndex = 16
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

// word is what the index holds of a log.
func word(hash uint64, p place) uint64 { return hash&^(1<<32-1) | uint64(p) }

// home is where the search for a hash begins, or for the word made of it.
func (t *table) home(hash uint64) uint64 { return hash >> 32 & uint64(len(t.index)-1) }

// find returns the log of key, and where it lies; nil if there is none.
func (t *table) find(key string, hash uint64) (*keyLog, place) {
	for i := t.home(hash); ; i = (i + 1) & uint64(len(t.index)-1) {
		w := t.index[i]
		if w == 0 {
			return nil, 0
		}
		if (w^hash)>>32 == 0 {
			if k := t.at(place(w)); k.key == key {
				return k, place(w)
			}
		}
	}
}

// insert returns a new log for a key that has none.
func (t *table) insert(key string, hash uint64) (*keyLog, place) {
	if t.size++; t.size > len(t.index)/8*7 {
		t.reindex(2 * len(t.index))
	}
	p := t.allocate()
	t.enter(word(hash, p))
	k := t.at(p)
	k.key = key
	return k, p
}

// remove forgets the log at p.
func (t *table) remove(p place) {
	i := t.home(maphash.String(t.seed, t.at(p).key))
	for place(t.index[i]) != p {
		i = (i + 1) & uint64(len(t.index)-1)
	}
	t.vacate(i)
	t.release(p)
	if t.size--; len(t.index) > minIndex && t.size < len(t.index)/8 {
		t.reindex(len(t.index) / 2)
	}
}

// enter puts a word into the first free slot from its home on.
func (t *table) enter(w uint64) {
	i := t.home(w)
	for t.index[i] != 0 {
		i = (i + 1) & uint64(len(t.index)-1)
	}
	t.index[i] = w
}

// vacate frees a slot, and moves up the words behind it which a search would no longer find: those whose home does not
// lie between the free slot and them. (Knuth, TAOCP 3, section 6.4, Algorithm R.)
func (t *table) vacate(free uint64) {
	mask := uint64(len(t.index) - 1)
	for i := (free + 1) & mask; t.index[i] != 0; i = (i + 1) & mask {
		if home := t.home(t.index[i]); (i-home)&mask >= (i-free)&mask {
			t.index[free] = t.index[i]
			free = i
		}
	}
	t.index[free] = 0
}

func (t *table) reindex(length int) {
	old := t.index
	t.index = make([]uint64, length)
	for _, w := range old {
		if w != 0 {
			t.enter(w)
		}
	}
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
