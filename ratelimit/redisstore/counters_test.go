package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

var sixtyPerMinuteInSix = ratelimit.Limit{MaxRequests: 60, Window: time.Minute, Buckets: 6} // of a span of 70 s

func inBuckets(key string, cost int) ratelimit.Claim {
	return ratelimit.Claim{Key: key, Limits: []ratelimit.Limit{sixtyPerMinuteInSix}, Cost: cost}
}

func TestCountersAreAHashThatExpiresAfterTwiceTheSpan(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	b := onRedis(t, client) // no sub-window begins meanwhile
	take(t, b.Store.(*redisstore.Store), inBuckets("send:bob", 2))
	fields := client.HGetAll(t.Context(), "{rate_limit:send:bob}~").Val()
	i := sixtyPerMinuteInSix.SubWindow(b.Now())
	if want := fmt.Sprintf("2 %d %d", i, i); len(fields) != 2 || fields["6x5yc1s"] != want {
		t.Errorf("the hash is %v, want %q and one sub-window", fields, want)
	}
	if ttl := client.PTTL(t.Context(), "{rate_limit:send:bob}~").Val(); ttl <= 139*time.Second || ttl > 140*time.Second {
		t.Errorf("the TTL is %v, want two spans of 70 s", ttl)
	}
	if n := client.Exists(t.Context(), "rate_limit:send:bob").Val(); n != 0 {
		t.Error("there is a log beside them")
	}
}

// The first request of a sub-window sets the TTL: it never runs below a span, in which the youngest counts.
func TestCountersLiveASpanAfterEveryWriteAndThenDisappear(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	b := onRedis(t, client)
	const key = "{rate_limit:k}~"
	ttl := func() time.Duration { return client.PTTL(t.Context(), key).Val() }
	for range 40 {
		take(t, b.Store.(*redisstore.Store), inBuckets("k", 1))
		if got := ttl(); got < 129*time.Second || got > 140*time.Second {
			t.Fatalf("the TTL is %v, want two spans of 70 s but for a sub-window", got)
		}
		b.Advance(3 * time.Second) // for the server's clock, and for its keys
		client.PExpire(t.Context(), key, ttl()-3*time.Second)
	}
	before := ttl()
	take(t, b.Store.(*redisstore.Store), inBuckets("k", 60)) // denied
	if got := ttl(); got > before {
		t.Errorf("a denial has set the TTL, from %v to %v", before, got)
	}
}

func TestASilentKeyInBucketsDisappearsAndSoDoesWhatWasRefunded(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { client.Close() })
	store := redisstore.New(client)
	take(t, store, inBuckets("k", 1))
	ticket := take(t, store, inBuckets("k", 1))[0].Ticket
	if err := store.Refund(t.Context(), "k", ticket); err != nil {
		t.Fatal(err)
	}
	take(t, store, inBuckets("gone", 1))
	if err := store.Reset(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	m.FastForward(70 * time.Second) // a span
	if !m.Exists("{rate_limit:k}~") {
		t.Error("the counters are gone while they may count")
	}
	m.FastForward(71 * time.Second)
	if keys := m.Keys(); len(keys) > 0 {
		t.Errorf("after two spans there are %v", keys)
	}
}

func TestAfterAMillionRequestsTheHashIsAsLongAsThereAreSubWindows(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	b := onRedis(t, client)
	limit := ratelimit.Limit{MaxRequests: 1_000_000, Window: time.Minute, Buckets: 60}
	c := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{limit}, Cost: 1000, Keep: time.Hour} // the server's keys expire by its own clock
	for range 1000 {
		take(t, b.Store.(*redisstore.Store), c)
		b.Advance(137 * time.Millisecond)
	}
	if n := client.HLen(t.Context(), "{rate_limit:k}~").Val(); n > 62 {
		t.Errorf("%d fields, want 61 sub-windows and their sum", n)
	}
	if bytes := client.MemoryUsage(t.Context(), "{rate_limit:k}~").Val(); bytes > 4000 {
		t.Errorf("it takes %d bytes", bytes)
	}
}

func TestAKeyThatHoldsNoCountersHarmsNoOtherRequestOfItsCall(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	client.Set(t.Context(), "{rate_limit:taken}~", "text", 0)
	mixed := inBuckets("taken", 1)
	mixed.Limits = []ratelimit.Limit{threePerMinute, sixtyPerMinuteInSix}
	requests := [][]ratelimit.Claim{
		{inBuckets("a", 1)}, {inBuckets("taken", 1)}, {inBuckets("b", 1), inBuckets("taken", 1)}, {mixed}, {inBuckets("a", 1), inBuckets("b", 1)},
		{claimOn("taken")}, // whose log is well
	}
	ids := make([]uuid.UUID, len(requests))
	for i := range ids {
		ids[i] = uuid.New()
	}
	store := redisstore.New(client)
	decisions, errs := store.TakeAtOnce(t.Context(), ids, requests)
	for i, bad := range []bool{false, true, true, true, false, false} {
		if errors.Is(errs[i], ratelimit.ErrNoLog) != bad || (errs[i] == nil) == bad {
			t.Errorf("request %d: got %v", i, errs[i])
		}
	}
	if got := decisions[4]; got[0].Remaining != 58 || got[1].Remaining != 59 {
		t.Errorf("the fifth request: %+v, want the second of its first key, and the first of the other", got)
	}
	ticket := ratelimit.Ticket{ID: uuid.New(), Cost: 1, Counters: sixtyPerMinuteTicket}
	if err := store.Refund(t.Context(), "taken", ticket); !errors.Is(err, ratelimit.ErrNoLog) {
		t.Errorf("a refund: %v", err)
	}
	if err := store.Reset(t.Context(), "taken"); err != nil {
		t.Errorf("a reset, which clears the way: %v", err)
	}
	take(t, store, inBuckets("taken", 1))
}

const sixtyPerMinuteTicket = "6x1m0s.t4xh5k"

// What was lost is the answer, and not the request: it is known by its entry in the log, and the sub-window in which it was
// counted is not. A refund may then leave the counters alone, but never take another request off.
func TestARefundOfARequestThatWasSentTwiceTakesNoOtherOffTheCounters(t *testing.T) {
	t.Parallel()
	b := onRedis(t, redistest.Start(t).Client())
	store := b.Store.(*redisstore.Store)
	b.Advance(time.Hour - b.Now()%time.Hour)
	mixed := inBuckets("k", 1)
	mixed.Limits = []ratelimit.Limit{{MaxRequests: 10, Window: time.Hour}, {MaxRequests: 2, Window: time.Minute, Buckets: 6}}
	id := uuid.New()
	decisions := make([]ratelimit.Decision, 1)
	if err := store.Take(t.Context(), id, []ratelimit.Claim{mixed}, decisions); err != nil { // in the first sub-window
		t.Fatal(err)
	}
	b.Advance(19 * time.Second)
	take(t, store, mixed) // in the second
	if err := store.Resend(t.Context(), id, []ratelimit.Claim{mixed}, decisions); err != nil || decisions[0].Reason != ratelimit.Counted {
		t.Fatal(decisions, err)
	}
	if err := store.Refund(t.Context(), "k", decisions[0].Ticket); err != nil {
		t.Fatal(err)
	}
	allowed := 1                                                       // and not refunded
	for _, d := range []time.Duration{50 * time.Second, time.Second} { // just before the first sub-window leaves, and as it does
		b.Advance(d)
		if take(t, store, mixed)[0].Allowed {
			allowed++
		}
	}
	if allowed != 2 {
		t.Errorf("%d were allowed in 51 s, want the 2 of a minute", allowed)
	}
}

// On the server's clock alone: what is taken from one node is given back where another denies.
func TestOnAClusterClaimsInBucketsAreTakenTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	store := redisstore.New(cluster.Client())
	hour := func(n int) ratelimit.Limit { return ratelimit.Limit{MaxRequests: n, Window: time.Hour, Buckets: 6} }
	a := ratelimit.Claim{Key: "a", Limits: []ratelimit.Limit{fivePerHour, hour(6)}, Cost: 2}
	b := ratelimit.Claim{Key: "b", Limits: []ratelimit.Limit{hour(1)}, Cost: 1}
	c := ratelimit.Claim{Key: "c", Limits: []ratelimit.Limit{hour(5)}, Cost: 1}

	got := take(t, store, a, b, c)
	if got[0].Remaining != 3 || got[1].Remaining != 0 || got[2].Remaining != 4 {
		t.Errorf("the first request: %+v", got)
	}
	ticket := got[0].Ticket
	for range 3 {
		got = take(t, store, a, b, c)
		for i, want := range []ratelimit.Reason{ratelimit.Withheld, ratelimit.Exhausted, ratelimit.Withheld} {
			if got[i].Reason != want || got[i].Ticket != (ratelimit.Ticket{}) {
				t.Errorf("claim %d of a request that b denies: %+v, want %v", i, got[i], want)
			}
		}
		if got[0].Remaining != 3 || got[2].Remaining != 4 {
			t.Errorf("the denied request was charged: %+v", got)
		}
	}
	if err := errors.Join(store.Reset(t.Context(), "b"), store.Refund(t.Context(), "a", ticket)); err != nil {
		t.Fatal(err)
	}
	if got = take(t, store, a, b, c); got[0].Remaining != 3 || got[1].Reason != ratelimit.Counted || got[2].Remaining != 3 {
		t.Errorf("after a Reset of b and a Refund of a: %+v", got)
	}
}

// Each of them asks for the counters, and only some for the log.
func TestRequestsOfOneCallAreCountedInTheirOrderWhateverElseTheyAskFor(t *testing.T) {
	t.Parallel()
	mixed := inBuckets("k", 1)
	mixed.Limits = []ratelimit.Limit{{MaxRequests: 100, Window: time.Hour}, sixtyPerMinuteInSix}
	requests := [][]ratelimit.Claim{{mixed}, {inBuckets("k", 1)}, {mixed}, {mixed}, {inBuckets("k", 1)}, {inBuckets("k", 1)}}
	ids := make([]uuid.UUID, len(requests))
	for i := range ids {
		ids[i] = uuid.New()
	}
	decisions, errs := redisstore.New(redistest.Start(t).Client()).TakeAtOnce(t.Context(), ids, requests)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i, d := range decisions {
		if d[0].Remaining != 59-i {
			t.Errorf("request %d leaves %d, want %d", i, d[0].Remaining, 59-i)
		}
	}
}
