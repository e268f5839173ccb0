package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
)

func Example() {
	lim, err := ratelimit.New(ratelimit.Config{}) // in this process
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	twoPerMinute := ratelimit.Limit{MaxRequests: 2, Window: time.Minute}
	for range 3 {
		d, err := lim.Allow(context.Background(), ratelimit.Key("login", "bob"), twoPerMinute)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

func ExampleLimiter_AllowAll() {
	lim, _ := ratelimit.New(ratelimit.Config{})
	defer lim.Close()
	user := ratelimit.Claim{Key: ratelimit.Key("user", "bob"), Limits: []ratelimit.Limit{{MaxRequests: 9, Window: time.Minute}}, Cost: 1}
	ip := ratelimit.Claim{Key: ratelimit.Key("ip", "192.0.2.1"), Limits: []ratelimit.Limit{{MaxRequests: 1, Window: time.Hour}}, Cost: 1}
	for range 2 {
		decisions, _ := lim.AllowAll(context.Background(), user, ip)
		fmt.Println(decisions[0].Reason, decisions[0].Remaining, "|", decisions[1].Reason)
	}
	// Output:
	// counted 8 | counted
	// withheld 8 | exhausted
}

func ExampleLimiter_Refund() {
	lim, _ := ratelimit.New(ratelimit.Config{})
	defer lim.Close()
	ctx, onePerMinute := context.Background(), ratelimit.Limit{MaxRequests: 1, Window: time.Minute}
	d, _ := lim.Allow(ctx, "report:bob", onePerMinute)
	if err := lim.Refund(ctx, "report:bob", d.Ticket); err != nil { // the work could not be done
		panic(err)
	}
	d, _ = lim.Allow(ctx, "report:bob", onePerMinute)
	fmt.Println(d.Allowed)
	// Output: true
}

func newLimiter(t *testing.T, config ratelimit.Config) *ratelimit.Limiter {
	t.Helper()
	lim, err := ratelimit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	return lim
}

// On the clock that a program really runs on.
func TestAClientThatWaitsRetryAfterIsAllowedAndOneMicrosecondEarlierItIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, ratelimit.Config{})
		for range 3 {
			lim.Allow(t.Context(), "k", threePerMinute)
			time.Sleep(7 * time.Second)
		}
		d, err := lim.Allow(t.Context(), "k", threePerMinute)
		if err != nil || d.Allowed || d.RetryAfter != 39*time.Second {
			t.Fatalf("got %+v, %v", d, err)
		}
		time.Sleep(d.RetryAfter - time.Microsecond)
		if d, _ := lim.Allow(t.Context(), "k", threePerMinute); d.Allowed {
			t.Error("allowed a microsecond early")
		}
		time.Sleep(time.Microsecond)
		if d, _ := lim.Allow(t.Context(), "k", threePerMinute); !d.Allowed {
			t.Error("denied after the whole wait")
		}
	})
}

func TestPeekCountsNothing(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, ratelimit.Config{})
	for range 5 {
		if d, err := lim.Peek(t.Context(), "k", threePerMinute); err != nil || !d.Allowed || d.Remaining != 3 {
			t.Fatalf("got %+v, %v", d, err)
		}
	}
}

func TestAQuestionThatMakesNoSenseIsAnErrorAndDecidesNothing(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for _, test := range []struct {
		name  string
		key   string
		cost  int
		limit []ratelimit.Limit
		want  string
	}{
		{"no limit", "k", 1, nil, "there is none, and the key would be unlimited"},
		{"no key", "", 1, []ratelimit.Limit{{MaxRequests: 1, Window: minute}}, "it is empty, and would be one quota for everybody"},
		{"a negative cost", "k", -1, []ratelimit.Limit{{MaxRequests: 1, Window: minute}}, "cost -1: want 0 or more"},
		{"a limit of 0", "k", 1, []ratelimit.Limit{{MaxRequests: 0, Window: minute}}, "MaxRequests is 0: want 1 to 1000000"},
		{"a negative limit", "k", 1, []ratelimit.Limit{{MaxRequests: -3, Window: minute}}, "MaxRequests is -3"},
		{"a limit that no log can hold", "k", 1, []ratelimit.Limit{{MaxRequests: math.MaxInt, Window: minute}}, "MaxRequests is 9223372036854775807"},
		{"a window of 0", "k", 1, []ratelimit.Limit{{MaxRequests: 1, Window: 0}}, "the Window is 0s"},
		{"a window of 60 without a unit", "k", 1, []ratelimit.Limit{{MaxRequests: 1, Window: 60}}, "write 60*time.Second"},
		{"a window that never ends", "k", 1, []ratelimit.Limit{{MaxRequests: 1, Window: math.MaxInt64}}, "want 1ms to 8784h0m0s"},
		{"a window in nanoseconds", "k", 1, []ratelimit.Limit{{MaxRequests: 1, Window: minute + 1}}, "want whole microseconds"},
		{"the second of two limits", "k", 1, []ratelimit.Limit{{MaxRequests: 1, Window: minute}, {MaxRequests: 0, Window: 0}}, "MaxRequests is 0"},
	} {
		lim := newLimiter(t, ratelimit.Config{})
		d, err := lim.AllowN(t.Context(), test.key, test.cost, test.limit...)
		if !errors.Is(err, ratelimit.ErrInvalid) || !strings.Contains(fmt.Sprint(err), test.want) || d.Allowed {
			t.Errorf("%s: got %+v and %v; want nothing and ErrInvalid with %q", test.name, d, err, test.want)
		}
	}
	lim := newLimiter(t, ratelimit.Config{})
	same := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{threePerMinute}, Cost: 1}
	for _, claims := range [][]ratelimit.Claim{nil, {same, same}} {
		if _, err := lim.AllowAll(t.Context(), claims...); !errors.Is(err, ratelimit.ErrInvalid) {
			t.Errorf("%d claims: got %v, want ErrInvalid", len(claims), err)
		}
	}
	for verb, err := range map[string]error{
		"Reset":  lim.Reset(t.Context(), ""),
		"Refund": lim.Refund(t.Context(), "", ratelimit.Ticket{ID: uuid.New(), Cost: 1}),
	} {
		if !errors.Is(err, ratelimit.ErrInvalid) {
			t.Errorf("%s of no key: got %v, want ErrInvalid", verb, err)
		}
	}
	if _, err := ratelimit.New(ratelimit.Config{Timeout: -1}); !errors.Is(err, ratelimit.ErrInvalid) {
		t.Errorf("a negative Timeout: got %v, want ErrInvalid", err)
	}
}

func TestANameBelongsToOneSetOfLimits(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, ratelimit.Config{})
	declare := func(name string, limits ...ratelimit.Limit) error {
		return lim.Declare(nil, ratelimit.Declaration{Name: name, Limits: limits, Declared: "main.go:7"})
	}
	for _, err := range []error{
		declare("a", threePerMinute), declare("b", fivePerHour), declare("a", threePerMinute), declare("", fivePerHour), declare("", threePerMinute),
	} {
		if err != nil {
			t.Errorf("this is no conflict: %v", err)
		}
	}
	err := declare("a", threePerMinute, fivePerHour)
	if !errors.Is(err, ratelimit.ErrInvalid) || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), "main.go:7") {
		t.Errorf("got %v, want ErrInvalid that names the rule and the place", err)
	}
	both := []ratelimit.Limit{threePerMinute, fivePerHour}
	if err := errors.Join(declare("both", both...), declare("both", both[1], both[0])); err != nil {
		t.Errorf("the order is no difference: %v", err)
	}
	if lim.Declare(nil, ratelimit.Declaration{Name: "new"}, ratelimit.Declaration{Name: "a"}) == nil || len(lim.Rules()) != 7 {
		t.Error("of several all are declared, or none is")
	}
	plans := ratelimit.Declaration{Name: "plans", Plans: map[string][]ratelimit.Limit{"pro": {fivePerHour}, "free": {threePerMinute}}}
	if err := errors.Join(lim.Declare(nil, plans), lim.Declare(nil, plans)); err != nil {
		t.Errorf("the same plans again are no conflict: %v", err)
	}
	plans.Plans = map[string][]ratelimit.Limit{"pro": {fivePerHour}}
	if err := lim.Declare(nil, plans); !errors.Is(err, ratelimit.ErrInvalid) {
		t.Errorf("other plans: got %v", err)
	}
	if n := len(lim.Rules()); n != 9 {
		t.Errorf("%d rules are listed, want 9", n)
	}
}

// fake is a store that does as it is told.
type fake struct {
	ratelimit.Store
	take   func(ctx context.Context) error
	closed bool
}

func (f *fake) Take(ctx context.Context, _ uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	if err := f.take(ctx); err != nil {
		return err
	}
	for i := range decisions {
		decisions[i] = ratelimit.Decision{Allowed: true, Limit: claims[i].Limits[0], Reason: ratelimit.Counted}
	}
	return nil
}

func (f *fake) Reset(ctx context.Context, _ string) error                      { return f.take(ctx) }
func (f *fake) Refund(ctx context.Context, _ string, _ ratelimit.Ticket) error { return f.take(ctx) }
func (f *fake) Close() error                                                   { f.closed = true; return nil }

func failing(context.Context) error { return errors.New("connection refused") }
func healthy(context.Context) error { return nil }

func TestAStoreThatFailsAllowsAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(context.Context) error{
		"an error": failing,
		"a panic":  func(context.Context) error { panic("nil map") },
	} {
		lim := newLimiter(t, ratelimit.Config{Store: &fake{take: take}})
		d, err := lim.Allow(t.Context(), "k", threePerMinute)
		want := ratelimit.Decision{Allowed: true, Limit: threePerMinute, Reason: ratelimit.FailedOpen}
		if err != nil || !reflect.DeepEqual(d, want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, d, err, want)
		}
	}
}

func TestAStoreThatCannotMeanWhatItSaysHasFailed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]ratelimit.Decision{
		"a limit that was not asked for": {Allowed: true, Limit: fivePerHour, Reason: ratelimit.Counted},
		"a denial without a wait":        {Limit: threePerMinute, Reason: ratelimit.Exhausted},
		"nothing":                        {},
	} {
		lim := newLimiter(t, ratelimit.Config{Store: liar{answer: answer}})
		if d, err := lim.Allow(t.Context(), "k", threePerMinute); err != nil || d.Reason != ratelimit.FailedOpen {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
	}
}

type liar struct {
	ratelimit.Store
	answer ratelimit.Decision
}

func (l liar) Take(_ context.Context, _ uuid.UUID, _ []ratelimit.Claim, decisions []ratelimit.Decision) error {
	decisions[0] = l.answer
	return nil
}

func TestVerbsOnAMemoryStoreKnowNoTimeout(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, ratelimit.Config{Timeout: 1})
	for range 50 {
		if err := lim.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoDecisionTakesLongerThanTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := func(context.Context) error { time.Sleep(time.Minute); return nil } // as a socket is to a context
		lim := newLimiter(t, ratelimit.Config{Store: &fake{take: deaf}, Timeout: 80 * time.Millisecond})
		start := time.Now()
		d, err := lim.Allow(t.Context(), "k", threePerMinute)
		if err != nil || d.Reason != ratelimit.FailedOpen {
			t.Errorf("got %+v, %v", d, err)
		}
		if took := time.Since(start); took != 80*time.Millisecond {
			t.Errorf("it took %v of virtual time, want exactly the Timeout", took)
		}
		if err := lim.Reset(t.Context(), "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a Reset has no policy: got %v, want the deadline", err)
		}
		time.Sleep(time.Minute) // the abandoned calls end, and what they write harms nobody
		synctest.Wait()
	})
}

func TestAClientThatHangsUpIsNoFailureOfTheStore(t *testing.T) {
	t.Parallel()
	type key struct{}
	var seen context.Context
	store := &fake{take: func(ctx context.Context) error { seen = ctx; return ctx.Err() }}
	lim := newLimiter(t, ratelimit.Config{Store: store})
	ctx, hangUp := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
	hangUp()
	d, err := lim.Allow(ctx, "k", threePerMinute)
	if err != nil || d.Reason != ratelimit.Counted {
		t.Errorf("got %+v, %v; want the store's own answer", d, err)
	}
	if seen.Value(key{}) != "trace" {
		t.Error("the store's context has lost the caller's values")
	}
	if _, bounded := seen.Deadline(); !bounded {
		t.Error("the store's context has no deadline")
	}
}

func TestAnOutageIsToldOnceWhenItBeginsAndOnceWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		store := &fake{take: healthy}
		lim := newLimiter(t, ratelimit.Config{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ask := func(n int) {
			for range n {
				lim.Allow(t.Context(), "k", threePerMinute)
				time.Sleep(10 * time.Millisecond)
			}
		}
		ask(10)
		log.want(t, "in health", 0, 0)
		store.take = failing
		ask(200)
		log.want(t, "in an outage of 200 requests", 1, 0)
		store.take = healthy
		ask(50)
		store.take = failing
		ask(1)
		store.take = healthy
		ask(50)
		log.want(t, "while it flaps", 1, 0)
		ask(200)
		log.want(t, "after a calm second", 1, 1)
		if !strings.Contains(log.String(), "failed=13") { // three requests, nine probes in the two seconds, and one while it flaps
			t.Errorf("the end does not tell how many calls failed:\n%s", log.String())
		}
		store.take = failing
		ask(3)
		log.want(t, "in a second outage", 2, 1)
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) want(t *testing.T, when string, begun, ended int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.Buffer.String()
	if strings.Count(text, "store fails") != begun || strings.Count(text, "answers again") != ended {
		t.Errorf("%s the log must tell of %d beginnings and %d ends:\n%s", when, begun, ended, text)
	}
}

func TestAClosedLimiterDecidesNothing(t *testing.T) {
	t.Parallel()
	store := &fake{take: healthy}
	lim := newLimiter(t, ratelimit.Config{Store: store})
	if err := errors.Join(lim.Close(), lim.Close()); err != nil || !store.closed {
		t.Errorf("Close: %v; the store's Close was called: %v", err, store.closed)
	}
	d, err := lim.Allow(t.Context(), "k", threePerMinute)
	if !errors.Is(err, ratelimit.ErrClosed) || d.Allowed {
		t.Errorf("Allow: got %+v, %v; want ErrClosed", d, err)
	}
	for _, err := range []error{lim.Reset(t.Context(), "k"), lim.Refund(t.Context(), "k", ratelimit.Ticket{})} {
		if !errors.Is(err, ratelimit.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
}

func TestResetForgetsWhatARuleHasCounted(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, ratelimit.Config{})
	key, once := ratelimit.Key("login", "bob"), ratelimit.Limit{MaxRequests: 1, Window: time.Hour}
	lim.Allow(t.Context(), key, once)
	if err := lim.Reset(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if d, _ := lim.Allow(t.Context(), key, once); !d.Allowed {
		t.Error("the key still counts")
	}
}

func TestReasonsHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for r := ratelimit.Undecided; r <= ratelimit.Shadowed; r++ {
		if seen[r.String()] || r.String() == "unknown" {
			t.Errorf("reason %d is called %q", r, r)
		}
		seen[r.String()] = true
	}
	if name := ratelimit.Reason(200).String(); name != "unknown" {
		t.Errorf("a reason that does not exist is called %q", name)
	}
}

func TestDeniedTellsWhatIsCertainAndCountsNothing(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, ratelimit.Config{})
	full := ratelimit.Claim{Key: "full", Limits: []ratelimit.Limit{onePerMinute}, Cost: 1}
	free := ratelimit.Claim{Key: "free", Limits: []ratelimit.Limit{onePerMinute}, Cost: 1}
	lim.AllowAll(t.Context(), full)
	for range 3 {
		decisions, denied := lim.Denied(t.Context(), false, free, full)
		if !denied || decisions[0].Reason != ratelimit.Withheld || decisions[1].Reason != ratelimit.Exhausted {
			t.Errorf("got %+v, %v", decisions, denied)
		}
	}
	for range 3 {
		if _, denied := lim.Denied(t.Context(), false, free); denied {
			t.Error("a key with room is denied")
		}
	}
	if _, denied := lim.Denied(t.Context(), false); denied {
		t.Error("no claim at all is denied")
	}
}

func TestKeysUnderASecretAreAsManyAsWithoutOne(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, ratelimit.Config{KeySecret: []byte("0123456789abcdef")})
	for _, key := range []string{"x!", "x%21", ":x%21", "a:b", "a:b:c", "ab", ratelimit.Key("a", "b:c"), ratelimit.Key("", "x")} {
		if d, err := lim.Allow(t.Context(), key, onePerMinute); err != nil || !d.Allowed && key != ":x%21" { // which is what "x!" is kept under
			t.Errorf("%q shares a log: %+v, %v", key, d, err)
		}
	}
}
