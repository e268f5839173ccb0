package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/ratelimit/storetest"
)

// What a process remembers comes back to a server that has lost it, and only that.
func TestAServerIsRemindedOfWhatItHasLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	id := uuid.New()
	remembered := func(cost int, age time.Duration) ratelimit.Past {
		return ratelimit.Past{Key: "k", Keep: time.Minute, Grants: []ratelimit.Grant{{Ticket: ratelimit.Ticket{ID: id, Cost: cost}, Age: age}}}
	}
	for _, test := range []struct {
		name      string
		before    func(b storetest.Backend)
		past      ratelimit.Past
		reset     time.Duration // what the server says of it; negative: not known
		remaining int           // of 5 a minute, after one request more
		retry     time.Duration // until the quota grows
	}{
		{"what it has lost comes back, as old as it is", nil, remembered(1, 20*time.Second), -1, 3, 40 * time.Second},
		{"a request that counted for three", nil, remembered(3, 20*time.Second), -1, 1, 40 * time.Second},
		{"what has left by now does not", nil, remembered(1, time.Minute), -1, 4, time.Minute},
		{"what it still has stays as it is", func(b storetest.Backend) {
			takeAs(t, b.Store, id)
			b.Advance(30 * time.Second)
		}, remembered(1, 10*time.Second), -1, 3, 30 * time.Second},
		{"what was granted before a reset stays forgotten", func(b storetest.Backend) {
			takeAs(t, b.Store, id)
			b.Advance(10 * time.Second)
			reset(t, b.Store)
			b.Advance(5 * time.Second)
		}, remembered(1, 15*time.Second), 5 * time.Second, 4, time.Minute},
		{"at the very moment of a reset as well", func(b storetest.Backend) {
			takeAs(t, b.Store, uuid.New())
			reset(t, b.Store)
			b.Advance(5 * time.Second)
		}, remembered(1, 5*time.Second), 5 * time.Second, 4, time.Minute},
		{"what was granted after it comes back", func(b storetest.Backend) {
			takeAs(t, b.Store, uuid.New())
			reset(t, b.Store)
			b.Advance(5 * time.Second)
		}, remembered(1, 4*time.Second), 5 * time.Second, 3, 56 * time.Second},
	} {
		b := onRedis(t, client)
		if test.before != nil {
			test.before(b)
		}
		resets, err := b.Store.(ratelimit.Forgetful).Remind(t.Context(), []ratelimit.Past{test.past})
		if err != nil || len(resets) != 1 || (resets[0] < 0) != (test.reset < 0) || resets[0] >= 0 && resets[0] != test.reset {
			t.Errorf("%s: the log was reset %v ago, %v; want %v", test.name, resets, err, test.reset)
		}
		if ttl := client.PTTL(t.Context(), "rate_limit:k").Val(); ttl < 0 && client.Exists(t.Context(), "rate_limit:k").Val() > 0 {
			t.Errorf("%s: the log has no TTL", test.name)
		}
		if d := takeAs(t, b.Store, uuid.New()); d.Remaining != test.remaining || d.ResetAfter != test.retry {
			t.Errorf("%s: %d remain, and the quota grows in %v; want %d and %v", test.name, d.Remaining, d.ResetAfter, test.remaining, test.retry)
		}
	}
}

func TestTheMarkOfAResetLeavesWithWhatItIsAbout(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	b := onRedis(t, client)
	takeAs(t, b.Store, uuid.New())
	reset(t, b.Store)
	for i, want := range []int64{2, 2, 1} { // the mark and the latest request; then a request alone
		b.Advance([]time.Duration{0, time.Minute - 2*time.Microsecond, 2 * time.Microsecond}[i])
		if i > 0 {
			client.ZRemRangeByRank(t.Context(), "rate_limit:k", 1, -1) // of the requests before
		}
		takeAs(t, b.Store, uuid.New())
		if n := client.ZCard(t.Context(), "rate_limit:k").Val(); n != want {
			t.Errorf("step %d: the log has %d members, want %d", i, n, want)
		}
	}
	if err := b.Store.Reset(t.Context(), "absent"); err != nil || client.Exists(t.Context(), "rate_limit:absent").Val() > 0 {
		t.Errorf("a reset of nothing leaves something: %v", err)
	}
}

func TestAResetLeavesNothingThatStays(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	b := onRedis(t, client)
	takeAs(t, b.Store, uuid.New())
	reset(t, b.Store)
	if ttl := client.PTTL(t.Context(), "rate_limit:k").Val(); ttl <= time.Minute || ttl > 2*time.Minute {
		t.Errorf("the mark stays for %v, want what is left of the log's two windows", ttl)
	}
}

func TestManyLogsAreTakenBackInOneRoundTrip(t *testing.T) {
	t.Parallel()
	counted := &processed{Client: redistest.Start(t).Client()}
	counted.AddHook(counted)
	store := redisstore.New(counted.Client)
	logs := make([]ratelimit.Past, 50)
	for i := range logs {
		logs[i] = ratelimit.Past{Key: fmt.Sprint("k", i), Keep: time.Minute, Grants: []ratelimit.Grant{{Ticket: ratelimit.Ticket{ID: uuid.New(), Cost: 1}}}}
	}
	for round := range 2 {
		before := counted.commands.Load()
		if resets, err := store.Remind(t.Context(), logs); err != nil || len(resets) != len(logs) {
			t.Fatalf("got %v, %v", resets, err)
		}
		if n := counted.commands.Load() - before; n != 1 && round > 0 { // before, there is no connection, and no script
			t.Errorf("%d commands", n)
		}
	}
}

func TestAServersLifeEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client())
	life := func() ratelimit.Life {
		l, err := store.Life(t.Context())
		if err != nil || l.ID == "" {
			t.Fatalf("got %+v, %v", l, err)
		}
		return l
	}
	first := life()
	if again := life(); again != first || first.Evicts != "" {
		t.Errorf("the same server: %+v and %+v", first, again)
	}
	server.Restart()
	if life() == first {
		t.Error("the server began anew, and its life is the same")
	}
	if err := server.Client().ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err(); err != nil {
		t.Fatal(err)
	}
	if l := life(); l.Evicts != "" {
		t.Errorf("a server without a maxmemory evicts nothing: %+v", l)
	}
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "100mb").Err(); err != nil {
		t.Fatal(err)
	}
	if l := life(); l.Evicts != "volatile-lru" {
		t.Errorf("got %+v", l)
	}
}

// takeAs takes one of five a minute on "k", under an id.
func takeAs(t *testing.T, store ratelimit.Store, id uuid.UUID) ratelimit.Decision {
	t.Helper()
	decisions := make([]ratelimit.Decision, 1)
	claim := ratelimit.Claim{Key: "k", Limits: []ratelimit.Limit{{MaxRequests: 5, Window: time.Minute}}, Cost: 1}
	if err := store.Take(t.Context(), id, []ratelimit.Claim{claim}, decisions); err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}

func reset(t *testing.T, store ratelimit.Store) {
	t.Helper()
	if err := store.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
}
