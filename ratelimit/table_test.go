package ratelimit

import (
	"fmt"
	"hash/maphash"
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
		most := rapid.SampledFrom([]int{3, 14, 15, 300}).Draw(t, "keys")
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			insert, from, n := rapid.Bool().Draw(t, "insert"), rapid.IntRange(0, most).Draw(t, "from"), rapid.IntRange(1, most).Draw(t, "n")
			for i := from; i < min(from+n, most); i++ {
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
			if len(table.index) > max(minIndex, 16*(len(want)+1)) {
				t.Fatalf("an index of %d for %d logs", len(table.index), len(want))
			}
		}
	})
}

func TestKeysWhoseHashesAgreeAreToldApart(t *testing.T) {
	t.Parallel()
	table, logs := newTable(maphash.MakeSeed()), map[string]*keyLog{}
	for i := range 100 {
		key := fmt.Sprint("k", i)
		logs[key], _ = table.insert(key, 7<<32)
	}
	for key, want := range logs {
		if k, _ := table.find(key, 7<<32); k != want {
			t.Errorf("%s is not found", key)
		}
	}
	if k, _ := table.find("another", 7<<32); k != nil {
		t.Errorf("found %s", k.key)
	}
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
	if len(kept) != 1 || len(table.index) > minIndex {
		t.Errorf("%d chunks and an index of %d for one log", len(kept), len(table.index))
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
