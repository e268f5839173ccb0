package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

// A card that is tried from more than 5 accounts in 10 minutes is blocked: whoever does that has not bought it.
func ExampleLimiter_RecordDistinct() {
	lim, err := ratelimit.New(ratelimit.Config{}) // with a Store all processes see the same
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lim.Close()
	ctx := context.Background()

	pay := func(card, account string) string {
		accounts, err := lim.RecordDistinct(ctx, ratelimit.Key("card", card), account, 10*time.Minute)
		switch {
		case err != nil:
			return "try again later"
		case accounts[0] > 5:
			return "blocked"
		}
		return "paid"
	}
	for _, account := range []string{"ann", "bob", "ann", "cy", "dee", "eve", "fay", "ann"} {
		fmt.Println(account, pay("4929-1234", account))
	}
	// Output:
	// ann paid
	// bob paid
	// ann paid
	// cy paid
	// dee paid
	// eve paid
	// fay blocked
	// ann blocked
}

func ExampleLimiter_Record() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lim.Close()
	ctx, user := context.Background(), ratelimit.Key("orders", "bob")

	for range 3 {
		lim.Record(ctx, user, 1, time.Minute, time.Hour, 24*time.Hour)
	}
	orders, err := lim.Count(ctx, user, time.Minute, time.Hour, 24*time.Hour)
	fmt.Println(orders, err)
	// Output: [3 3 3] <nil>
}

// counting is a Limiter on a clock that the test moves.
func counting(t *testing.T) (*ratelimit.Limiter, *memory) {
	t.Helper()
	m := newMemory(0)
	lim, err := ratelimit.New(ratelimit.Config{Store: m.MemoryStore})
	if err != nil {
		t.Fatal(err)
	}
	return lim, m
}

func TestEventsCountInEveryWindowUntilTheirSubWindowHasLeft(t *testing.T) {
	t.Parallel()
	lim, m := counting(t)
	for _, step := range []struct {
		after time.Duration
		n     int // 0 counts only
		want  []int
	}{
		{0, 2, []int{2, 2}},
		{time.Minute, 3, []int{5, 5}}, // the sub-window of the first ends a second later
		{time.Second - time.Microsecond, 0, []int{5, 5}},
		{time.Microsecond, 0, []int{3, 5}},
		{time.Hour, 1, []int{1, 4}},
		{2 * time.Hour, 0, []int{0, 0}},
	} {
		m.advance(step.after)
		got, err := lim.Count(t.Context(), "k", time.Minute, time.Hour)
		if step.n > 0 {
			got, err = lim.Record(t.Context(), "k", step.n, time.Minute, time.Hour)
		}
		if err != nil || !slices.Equal(got, step.want) {
			t.Errorf("at %v: %v, %v; want %v", m.since(), got, err, step.want)
		}
	}
}

func TestEventsThatAreRecordedExactlyCountForTheirWindowToTheMicrosecond(t *testing.T) {
	t.Parallel()
	lim, m := counting(t)
	mustCount := func(want int) {
		t.Helper()
		if got, err := lim.CountExactly(t.Context(), "k", time.Minute); err != nil || !slices.Equal(got, []int{want}) {
			t.Errorf("at %v: %v, %v; want %d", m.since(), got, err, want)
		}
	}
	if got, err := lim.RecordExactly(t.Context(), "k", 7, time.Minute); err != nil || !slices.Equal(got, []int{7}) {
		t.Errorf("got %v, %v", got, err)
	}
	m.advance(time.Minute - time.Microsecond)
	mustCount(7)
	m.advance(time.Microsecond)
	mustCount(0)
}

func TestAValueIsCountedOnceForAWindowSinceItWasLastSeen(t *testing.T) {
	t.Parallel()
	lim, m := counting(t)
	see := func(value string, want int) {
		t.Helper()
		if got, err := lim.RecordDistinct(t.Context(), "k", value, time.Minute); err != nil || !slices.Equal(got, []int{want}) {
			t.Errorf("%s at %v: %v, %v; want %d", value, m.since(), got, err, want)
		}
	}
	see("a", 1)
	m.advance(40 * time.Second)
	see("a", 1)
	see("b", 2)
	m.advance(40 * time.Second)
	see("c", 3) // a was seen again
	m.advance(20 * time.Second)
	see("c", 1)
}

func TestAResetForgetsEvents(t *testing.T) {
	t.Parallel()
	lim, _ := counting(t)
	for _, record := range []func() ([]int, error){
		func() ([]int, error) { return lim.Record(t.Context(), "buckets", 1, time.Minute) },
		func() ([]int, error) { return lim.RecordExactly(t.Context(), "log", 1, time.Minute) },
	} {
		for range 2 {
			if got, err := record(); err != nil || !slices.Equal(got, []int{1}) {
				t.Errorf("got %v, %v; want 1, the first since the reset", got, err)
			}
			if err := errors.Join(lim.Reset(t.Context(), "buckets"), lim.Reset(t.Context(), "log")); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAnEventThatCannotBeCountedIsAnError(t *testing.T) {
	t.Parallel()
	lim, _ := counting(t)
	ctx := t.Context()
	for name, call := range map[string]func() ([]int, error){
		"want 1 or more":                  func() ([]int, error) { return lim.Record(ctx, "k", 0, time.Minute) },
		"one quota for everybody":         func() ([]int, error) { return lim.Count(ctx, "", time.Minute) },
		"there is none":                   func() ([]int, error) { return lim.Count(ctx, "k") },
		"the Window is 0s":                func() ([]int, error) { return lim.Record(ctx, "k", 1, 0) },
		"at most 1000000000":              func() ([]int, error) { return lim.Record(ctx, "k", 2_000_000_000, time.Minute) },
		"at most 1000000 are counted":     func() ([]int, error) { return lim.RecordExactly(ctx, "k", 1_000_001, time.Minute) },
		"ratelimit: invalid number of ev": func() ([]int, error) { return lim.RecordExactly(ctx, "k", -1, time.Minute) },
	} {
		if got, err := call(); got != nil || !errors.Is(err, ratelimit.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, %v: want an error with %q", got, err, name)
		}
	}
	lim.Close()
	if _, err := lim.Record(ctx, "k", 1, time.Minute); !errors.Is(err, ratelimit.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestWhatCannotBeRecordedInTimeIsAnErrorWhateverThePolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []ratelimit.Policy{ratelimit.FailOpen, ratelimit.FailClosed, ratelimit.FailLocal} {
		lim, err := ratelimit.New(ratelimit.Config{Store: picky{}, OnFailure: policy})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := lim.Record(t.Context(), "taken", 1, time.Minute); got != nil || !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("%v: %v, %v", policy, got, err)
		}
	}
}
