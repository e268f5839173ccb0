package main

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

// clock is a time that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time          { return c.Time }
func (c *clock) advance(d time.Duration) { c.Time = c.Add(d) }

func newTestCodes(max int) (*codeStore, *clock) {
	c := &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return newCodeStore(c.now, max), c
}

func mustPut(t *testing.T, s *codeStore, address, code string) {
	t.Helper()
	if !s.put(address, code) {
		t.Fatalf("there is no room for %s", address)
	}
}

func checkUse(t *testing.T, s *codeStore, address, code string, want bool) {
	t.Helper()
	if got := s.use(address, code); got != want {
		t.Errorf("use(%s, %s) = %v, want %v", address, code, got, want)
	}
}

func TestACodeCanBeUsedOnce(t *testing.T) {
	s, _ := newTestCodes(10)
	mustPut(t, s, "a", "111111")
	checkUse(t, s, "a", "111111", true)
	checkUse(t, s, "a", "111111", false)
	checkSize(t, s, 0)
}

func TestACodeIsThatOfItsAddress(t *testing.T) {
	s, _ := newTestCodes(10)
	mustPut(t, s, "a", "111111")
	mustPut(t, s, "b", "222222")
	checkUse(t, s, "a", "222222", false)
	checkUse(t, s, "A", "111111", false)
	checkUse(t, s, "c", "", false)
	checkUse(t, s, "a", "", false)
	checkUse(t, s, "a", "1111110", false)
	checkUse(t, s, "a", "111111", true)
	checkUse(t, s, "b", "222222", true)
}

func TestACodeExpiresExactlyAtItsLifetime(t *testing.T) {
	s, clock := newTestCodes(10)
	mustPut(t, s, "a", "111111")
	mustPut(t, s, "b", "222222")
	clock.advance(codeLifetime - time.Nanosecond)
	checkUse(t, s, "a", "111111", true)
	clock.advance(time.Nanosecond)
	checkUse(t, s, "b", "222222", false)
	checkSize(t, s, 0)
}

func TestANewCodeReplacesTheOld(t *testing.T) {
	s, clock := newTestCodes(10)
	mustPut(t, s, "a", "111111")
	clock.advance(codeLifetime - 1)
	mustPut(t, s, "a", "222222")
	checkSize(t, s, 1)
	checkUse(t, s, "a", "111111", false)
	clock.advance(codeLifetime - 1) // its life is its own, not that of the old
	checkUse(t, s, "a", "222222", true)
}

func TestACodeDiesOfItsFifthWrongGuess(t *testing.T) {
	s, _ := newTestCodes(10)
	for _, c := range []struct {
		guesses int
		want    bool
	}{{maxGuesses - 1, true}, {maxGuesses, false}} {
		mustPut(t, s, "a", "111111") // a new code is a new start
		for range c.guesses {
			checkUse(t, s, "a", "999999", false)
		}
		checkUse(t, s, "a", "111111", c.want)
	}
}

func TestAFullStoreTakesNoNewAddressUntilACodeIsGone(t *testing.T) {
	s, clock := newTestCodes(2)
	mustPut(t, s, "a", "111111")
	clock.advance(time.Second)
	mustPut(t, s, "b", "222222")
	if s.put("c", "333333") {
		t.Error("a third code is taken")
	}
	mustPut(t, s, "b", "444444") // in place of its own
	checkUse(t, s, "a", "111111", true)
	mustPut(t, s, "c", "333333") // in the place of the used one
	clock.advance(codeLifetime)
	mustPut(t, s, "d", "555555") // in the place of the expired
	checkSize(t, s, 1)
}

func TestTheExpiredAreDroppedOldestFirst(t *testing.T) {
	s, clock := newTestCodes(100)
	for i := range 10 {
		mustPut(t, s, fmt.Sprint(i), "111111")
		clock.advance(time.Second)
	}
	mustPut(t, s, "0", "222222") // now the youngest
	clock.advance(codeLifetime - 5*time.Second)
	checkUse(t, s, "nobody", "111111", false)
	checkSize(t, s, 5) // 6 to 9, and 0
	checkUse(t, s, "0", "222222", true)
	checkUse(t, s, "5", "111111", false)
	checkUse(t, s, "6", "111111", true)
}

func checkSize(t *testing.T, s *codeStore, want int) {
	t.Helper()
	if len(s.codes) != want || s.queue.Len() != want {
		t.Errorf("it holds %d addresses and %d codes, want %d", len(s.codes), s.queue.Len(), want)
	}
}

func TestACodeIsSixDigitsAndNotAlwaysTheSame(t *testing.T) {
	sixDigits := regexp.MustCompile(`^[0-9]{6}$`)
	seen := make(map[string]bool)
	leadingZero := false
	for range 1000 {
		code := newCode()
		if !sixDigits.MatchString(code) {
			t.Fatalf("%q", code)
		}
		seen[code] = true
		leadingZero = leadingZero || code[0] == '0'
	}
	// 1000 of a million: about one pair is alike. A tenth begin with 0; that none does has a chance of 10^-46.
	if len(seen) < 900 || !leadingZero {
		t.Errorf("%d different codes, one with a leading zero: %v", len(seen), leadingZero)
	}
}
