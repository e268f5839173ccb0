package ratelimit

import "slices"

// index finds the place of a log by the hash of its key: extendible hashing (Fagin, Nievergelt, Pippenger and Strong, ACM
// TODS 4, 1979). A directory tells the page of a hash by its lowest bits; within a page there is open addressing. A page
// that fills up is split in two by one bit more, so that no call moves more than a page, and at times the directory, which
// has a pointer or two for a hundred logs. Of a hash the upper half counts: the rest has chosen the shard.
//
// Where logs are many, a search costs what it reads that is in no cache. So what it reads is apart from the rest of a page,
// and is 4 bytes for a slot: of a place 22 bits, and of the hash the 10 bits by which almost all other logs are passed over.
type index struct {
	words   []*words // by the lowest bits of a hash, as many as depth: the page that is searched
	pages   []*page  // and the rest of it
	depth   int
	deepest int       // pages that are as deep
	crowded []crowded // what found no room in a page that cannot be split, because of so many equal hashes
}

type (
	words [inPage]uint32 // 0: free

	page struct {
		hashes [inPage]uint32
		size   int
		depth  int // how many bits all hashes in it have in common
	}

	crowded struct {
		hash uint32
		p    place
	}
)

const (
	inPage    = 256
	fullPage  = 224 // split then
	emptyPage = 64  // two that hold no more together are merged
	maxDepth  = 16  // suffices for all places

	placeBits = 22
	maxPlace  = 1<<placeBits - 1
)

func newIndex() index { return index{words: []*words{{}}, pages: []*page{{}}, deepest: 1} }

// The upper half of a hash has 16 bits for the directory, 8 that say where in a page the search begins, and 10 to compare,
// of which two are among those.
func upper(hash uint64) uint32 { return uint32(hash >> 32) }
func home(hash uint32) uint32  { return hash >> 16 % inPage }

func (x *index) page(hash uint32) int { return int(hash) & (len(x.words) - 1) }

// insert notes the place of a log.
func (x *index) insert(hash uint32, p place) {
	for {
		i := x.page(hash)
		if pg := x.pages[i]; pg.size < fullPage {
			pg.put(x.words[i], hash, hash&^maxPlace|uint32(p))
			return
		}
		if x.pages[i].depth == maxDepth {
			x.crowded = append(x.crowded, crowded{hash, p})
			return
		}
		x.split(i)
	}
}

// remove forgets the place of a log.
func (x *index) remove(hash uint32, p place) {
	for i, c := range x.crowded {
		if c.p == p {
			x.crowded = slices.Delete(x.crowded, i, i+1)
			return
		}
	}
	i := x.page(hash)
	w, slot := x.words[i], home(hash)
	for w[slot]&maxPlace != uint32(p) {
		slot = (slot + 1) % inPage
	}
	x.pages[i].vacate(w, slot)
	for x.merge(x.page(hash)) {
	}
}

// split moves those in the i-th page whose hashes have the next bit into a new one.
func (x *index) split(i int) {
	old, w := x.pages[i], x.words[i]
	if old.depth == x.depth {
		x.words, x.pages = append(x.words, x.words...), append(x.pages, x.pages...)
		x.depth, x.deepest = x.depth+1, 0
	}
	bit := 1 << old.depth
	was, had := *old, *w
	*old, *w = page{depth: was.depth + 1}, words{}
	other, v := &page{depth: was.depth + 1}, &words{}
	for slot, word := range had {
		switch hash := was.hashes[slot]; {
		case word == 0:
		case int(hash)&bit == 0:
			old.put(w, hash, word)
		default:
			other.put(v, hash, word)
		}
	}
	x.direct(i&(bit-1)|bit, bit<<1, other, v)
	if other.depth == x.depth {
		x.deepest += 2
	}
}

// merge puts the i-th page together with the one that it was split from, or that was split from it, if they hold little.
func (x *index) merge(i int) bool {
	pg := x.pages[i]
	if pg.depth == 0 {
		return false
	}
	bit := 1 << (pg.depth - 1)
	other, v := x.pages[i^bit], x.words[i^bit]
	if other.depth != pg.depth || other.size+pg.size > emptyPage {
		return false
	}
	for slot, word := range v {
		if word != 0 {
			pg.put(x.words[i], other.hashes[slot], word)
		}
	}
	if pg.depth == x.depth {
		x.deepest -= 2
	}
	pg.depth--
	x.direct((i^bit)&(bit<<1-1), bit<<1, pg, x.words[i])
	for x.deepest == 0 {
		x.halve()
	}
	return true
}

// direct makes a page that of every step-th hash from first on.
func (x *index) direct(first, step int, pg *page, w *words) {
	for i := first; i < len(x.pages); i += step {
		x.pages[i], x.words[i] = pg, w
	}
}

// halve gives up half of a directory, of which the other half is a copy.
func (x *index) halve() {
	half := len(x.pages) / 2
	x.words, x.pages = slices.Clone(x.words[:half]), slices.Clone(x.pages[:half])
	x.depth--
	for _, pg := range x.pages {
		if pg.depth == x.depth {
			x.deepest++
		}
	}
}

// put puts a word into the first free slot from its home on.
func (pg *page) put(w *words, hash, word uint32) {
	i := home(hash)
	for w[i] != 0 {
		i = (i + 1) % inPage
	}
	w[i], pg.hashes[i] = word, hash
	pg.size++
}

// vacate frees a slot, and moves up the words behind it which a search would no longer find: those whose home does not
// lie between the free slot and them. (Knuth, TAOCP 3, section 6.4, Algorithm R.)
func (pg *page) vacate(w *words, free uint32) {
	pg.size--
	for i := (free + 1) % inPage; w[i] != 0; i = (i + 1) % inPage {
		if (i-home(pg.hashes[i]))%inPage >= (i-free)%inPage {
			w[free], pg.hashes[free] = w[i], pg.hashes[i]
			free = i
		}
	}
	w[free] = 0
}
