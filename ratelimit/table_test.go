package ratelimit

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestALogIsTwoCacheLines(t *testing.T) {
	if n := unsafe.Sizeof(keyLog{}); n != 128 {
		t.Errorf("it is %d bytes", n)
	}
}

// A table against a map, from empty to some chunks full and back.
func TestATableHoldsWhatWasInsertedAndNotRemoved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table, want := newTable(maphash.MakeSeed()), map[string]*keyLog{}
		hash := func(key string) uint64 { return maphash.String(table.seed, key) }
		most := rapid.SampledFrom([]int{3, 300, 2000}).Draw(t, "keys")
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			insert, from, n := rapid.Bool().Draw(t, "insert"), rapid.IntRange(0, most).Draw(t, "from"), rapid.IntRange(1, most).Draw(t, "n")
			for i := from; i < min(from+n, most); i++ { // in no order of their hashes
				key := fmt.Sprint("k", i)
				k, p := table.find(key, hash(key))
				if k != want[key] {
					t.Fatalf("%s is found at %p, want %p", key, k, want[key])
				}
				switch {
				case insert && k == nil:
					if want[key], _ = table.insert(key, hash(key)); *want[key] != (keyLog{key: key}) {
						t.Fatalf("a new log holds %+v", want[key])
					}
					want[key].size = 3 // left behind when it is removed
				case !insert && k != nil:
					table.remove(p)
					delete(want, key)
				}
			}
			seen := 0
			table.each(func(k *keyLog) {
				if seen++; want[k.key] != k {
					t.Fatalf("%s is a log that was removed", k.key)
				}
			})
			if seen != len(want) || table.size != len(want) {
				t.Fatalf("%d logs are seen, %d counted, want %d", seen, table.size, len(want))
			}
			if n := checkIndex(t, &table.index); inPage*n > max(inPage, 32*(len(want)+1)) {
				t.Fatalf("%d pages for %d logs", n, len(want))
			}
		}
	})
}

// checkIndex fails unless every page is where its hashes lead, and returns how many there are.
func checkIndex(t interface{ Fatalf(string, ...any) }, x *index) int {
	seen, deepest := map[*page]bool{}, 0
	for i, pg := range x.pages {
		common, size := 1<<pg.depth-1, 0
		if first := i & common; x.pages[first] != pg || x.words[first] != x.words[i] {
			t.Fatalf("a page of depth %d stands at %d, and not at %d", pg.depth, i, first)
		}
		for slot, word := range x.words[i] {
			if hash := pg.hashes[slot]; word != 0 {
				if size++; int(hash)&common != i&common {
					t.Fatalf("hash %x is in page %x, which has %d bits in common", hash, i, pg.depth)
				}
			}
		}
		if size != pg.size || pg.depth > x.depth {
			t.Fatalf("a page of %d words counts %d, at depth %d of %d", size, pg.size, pg.depth, x.depth)
		}
		if !seen[pg] && pg.depth == x.depth {
			deepest++
		}
		seen[pg] = true
	}
	if len(x.pages) != 1<<x.depth || len(x.words) != len(x.pages) || deepest != x.deepest {
		t.Fatalf("a directory of %d pages at depth %d, of which %d are counted as deep, want %d", len(x.pages), x.depth, x.deepest, deepest)
	}
	return len(seen)
}

func TestAnIndexGrowsAndShrinksByThePage(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	x, seed := newIndex(), maphash.MakeSeed()
	hash := func(i int) uint32 { return upper(maphash.Comparable(seed, i)) }
	for i := range keys {
		x.insert(hash(i), place(i+1))
		if i%50 == 0 {
			checkIndex(t, &x)
		}
	}
	if n := checkIndex(t, &x); n > 2*keys/fullPage+1 {
		t.Errorf("%d pages", n)
	}
	for i := range keys {
		x.remove(hash(i), place(i+1))
		if i%50 == 0 {
			checkIndex(t, &x)
		}
	}
	if n := checkIndex(t, &x); n != 1 || len(x.pages) != 1 {
		t.Errorf("%d pages in a directory of %d for nothing", n, len(x.pages))
	}
}

func TestKeysWhoseHashesAgreeAreToldApart(t *testing.T) {
	t.Parallel()
	const keys = fullPage + 50 // more than one page may hold
	table, logs, places := newTable(maphash.MakeSeed()), map[string]*keyLog{}, map[string]place{}
	for i := range keys {
		key := fmt.Sprint("k", i)
		logs[key], places[key] = table.insert(key, 7<<32)
	}
	for key, want := range logs {
		if k, p := table.find(key, 7<<32); k != want || p != places[key] {
			t.Errorf("%s is not found", key)
		}
	}
	if k, _ := table.find("another", 7<<32); k != nil {
		t.Errorf("found %s", k.key)
	}
	for key, p := range places {
		table.index.remove(7, p)
		if k, _ := table.find(key, 7<<32); k != nil {
			t.Errorf("%s is found though it was removed", key)
		}
	}
	if n := checkIndex(t, &table.index); n != 1 || len(table.index.crowded) > 0 {
		t.Errorf("%d pages and %d words beside them for no log", n, len(table.index.crowded))
	}
}

// What is decided at once must be what settle, describe and add make of it.
func TestARequestThatIsTakenAtOnceIsTakenAsAnyOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var quick, slow log
		now, limit := time.Duration(0), Limit{MaxRequests: rapid.IntRange(1, 12).Draw(t, "limit"), Window: 10}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(-3, 6).Draw(t, "later"))
			id, got := uuid.UUID{byte(i)}, Decision{Limit: limit}
			var want Decision
			slow.settle(now, limit.Window)
			if slow.describe(&want, now, []Limit{limit}, 1, 1); want.Allowed {
				slow.add(now, id, 1)
			}
			if taken := quick.take(now, &limit, &id, &got); taken != want.Allowed || taken && !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, %+v\nwant %+v", taken, got, want)
			}
			if !slices.Equal(quick.all(), slow.all()) {
				t.Fatalf("it holds %v\nwant %v", quick.all(), slow.all())
			}
		}
	})
}

func TestChunksThatHoldNothingAreGivenUp(t *testing.T) {
	t.Parallel()
	table := newTable(maphash.MakeSeed())
	var places []place
	for i := range 10 * perChunk {
		key := fmt.Sprint("k", i)
		_, p := table.insert(key, maphash.String(table.seed, key))
		places = append(places, p)
	}
	for _, p := range places[1:] {
		table.remove(p)
	}
	kept := slices.DeleteFunc(slices.Clone(table.chunks), func(c *chunk) bool { return c == nil })
	if n := len(table.index.pages); len(kept) != 1 || n != 1 {
		t.Errorf("%d chunks and a directory of %d for one log", len(kept), n)
	}
}

// A log against a plain list.
func TestALogIsAListWhateverItsRing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l log
		var want []entry
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 3).Draw(t, "later"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				id, n := uuid.UUID{byte(now)}, rapid.SampledFrom([]int{1, 1, 2, 30}).Draw(t, "n")
				l.add(now, id, n)
				want = append(want, slices.Repeat([]entry{{now, id}}, n)...)
			case 2:
				until := now - time.Duration(rapid.IntRange(0, 9).Draw(t, "age"))
				l.drop(until)
				want = slices.DeleteFunc(want, func(e entry) bool { return e.at <= until })
			case 3:
				id := uuid.UUID{byte(now) - byte(rapid.IntRange(0, 9).Draw(t, "age"))}
				l.remove(id, len(want))
				want = slices.DeleteFunc(want, func(e entry) bool { return e.id == id })
			}
			if got := l.all(); !slices.Equal(got, want) {
				t.Fatalf("got %v\nwant %v", got, want)
			}
		}
		l.drop(now)
		for range 3 { // what has emptied shrinks as it is used
			l.add(now, uuid.UUID{}, 1)
			l.drop(now)
		}
		if l.room() > minRing {
			t.Fatalf("an empty log has room for %d", l.room())
		}
	})
}
