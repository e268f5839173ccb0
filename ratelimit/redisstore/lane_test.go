package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/ratelimit/storetest"
)

// Requests that travel together are decided as if each had come alone, one after the other.

func TestRequestsInOneCallAreDecidedAsOneByOne(t *testing.T) {
	client := redistest.Start(t).Client()
	together, alone := onRedis(t, client), onRedis(t, client)
	sameAsAlone(t, together, alone)
}

func TestRequestsInOnePipelineAreDecidedAsOneByOne(t *testing.T) {
	client := redistest.Start(t).Client()
	at := onRedis(t, client)
	at.Store, at.Apart = redisstore.NewAt(piped{client}, "clock"), true
	sameAsAlone(t, at, onRedis(t, client))
}

// piped is a client that can pipeline, and is not known to reach one server alone.
type piped struct{ *redis.Client }

// sameAsAlone plays the same requests on two stores, at the same time of the same server.
func sameAsAlone(t *testing.T, at, alone storetest.Backend) {
	together := at.Store.(*redisstore.Store)
	oneByOne := alone.Store.(*redisstore.Store).WithPrefix("alone")
	game := 0
	rapid.Check(t, func(t *rapid.T) {
		game++
		limits := make([][]ratelimit.Limit, 3) // of each key
		for i := range limits {
			for range rapid.IntRange(1, 2).Draw(t, "limits") {
				limits[i] = append(limits[i], ratelimit.Limit{
					MaxRequests: rapid.SampledFrom([]int{1, 2, 3, 5, 16, 17, 20}).Draw(t, "max"),
					Window:      time.Duration(rapid.IntRange(1, 3).Draw(t, "minutes")) * time.Minute,
					Buckets:     rapid.SampledFrom([]int{0, 0, 1, 6, 60}).Draw(t, "buckets"),
				})
			}
		}
		draw := rapid.Custom(func(t *rapid.T) []ratelimit.Claim {
			var claims []ratelimit.Claim
			for _, i := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "keys")[:rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "claims")] {
				some := limits[i] // or only the first or last, as by the plan of a user, on the same log and counters
				if n := rapid.IntRange(0, 3).Draw(t, "some"); n < len(some) {
					some = some[n : n+1]
				}
				claims = append(claims, ratelimit.Claim{
					Key: fmt.Sprintf("game%d:%d", game, i), Limits: some, Cost: rapid.SampledFrom([]int{1, 1, 1, 1, 0, 2, 7}).Draw(t, "cost"),
				})
			}
			return claims
		})
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			at.Advance(time.Duration(rapid.IntRange(0, 100).Draw(t, "s")) * time.Second)
			requests := rapid.SliceOfN(draw, 1, 20).Draw(t, "requests")
			if at.Apart { // each claim by itself, as takeEach asks
				for i := range requests {
					requests[i] = requests[i][:1]
				}
			}
			ids := make([]uuid.UUID, len(requests))
			for i := range ids {
				ids[i] = uuid.New()
			}
			got, errs := together.TakeAtOnce(context.Background(), ids, requests)
			for i, claims := range requests {
				want := make([]ratelimit.Decision, len(claims))
				if err := errors.Join(errs[i], oneByOne.Take(context.Background(), ids[i], claims, want)); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got[i], want) {
					t.Fatalf("request %d, %+v:\n together %+v\n    alone %+v", i, claims, got[i], want)
				}
			}
		}
	})
}

func TestCallersAtOnceOnOneKeyAreCountedInOrder(t *testing.T) {
	t.Parallel()
	store := redisstore.New(redistest.Start(t).Client())
	const callers, limit = 100, 20
	var mu sync.Mutex
	var remaining []int
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			decisions := make([]ratelimit.Decision, 1)
			claim := ratelimit.Claim{Key: "hot", Limits: []ratelimit.Limit{{MaxRequests: limit, Window: time.Hour}}, Cost: 1}
			if err := store.Take(t.Context(), uuid.New(), []ratelimit.Claim{claim}, decisions); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if decisions[0].Allowed {
				remaining = append(remaining, decisions[0].Remaining)
			}
		})
	}
	all.Wait()
	slices.Sort(remaining)
	want := make([]int, limit)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(remaining, want) {
		t.Errorf("what remained after each that was allowed: %v, want every number below %d once", remaining, limit)
	}
}

func TestAKeyThatHoldsNoLogHarmsNoOtherRequestOfItsCall(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	client.Set(t.Context(), "rate_limit:taken", "text", 0)
	requests := [][]ratelimit.Claim{{claimOn("a")}, {claimOn("taken")}, {claimOn("b"), claimOn("taken")}, {claimOn("a"), claimOn("b")}}
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	decisions, errs := redisstore.New(client).TakeAtOnce(t.Context(), ids, requests)
	for i, bad := range []bool{false, true, true, false} {
		if errors.Is(errs[i], ratelimit.ErrNoLog) != bad || (errs[i] == nil) == bad {
			t.Errorf("request %d: got %v", i, errs[i])
		}
	}
	if got := decisions[3]; got[0].Remaining != 1 || got[1].Remaining != 2 {
		t.Errorf("the last request: %+v, want the second of its first key, and the first of the other", got)
	}
}

func TestAServerThatHasForgottenTheScriptIsSentItForTheWholeCall(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	store := redisstore.New(client)
	for range 3 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		ids, requests := make([]uuid.UUID, 30), make([][]ratelimit.Claim, 30)
		for i := range ids {
			ids[i], requests[i] = uuid.New(), []ratelimit.Claim{claimOn(fmt.Sprint("k", i))}
		}
		if _, errs := store.TakeAtOnce(t.Context(), ids, requests); errors.Join(errs...) != nil {
			t.Error(errors.Join(errs...))
		}
	}
}

// Who waits, for whom, and how long.

func TestAQuestionThatIsAloneIsSentAtOnceAndThoseBehindFourTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slowly{takes: 10 * time.Millisecond}
		store := redisstore.New(client.single(t))
		start := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if d := take(t, store, claimOn(fmt.Sprint("k", i)))[0]; d.Reason != ratelimit.Counted {
					t.Errorf("question %d: %+v", i, d)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if got := fmt.Sprint(client.keys); got != "[1 1 1 1 16]" {
			t.Errorf("the calls had %s keys", got)
		}
		if took := time.Since(start); took != 20*time.Millisecond {
			t.Errorf("it took %v of virtual time, want two calls", took)
		}
	})
}

func TestEachCallerHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slowly{takes: 10 * time.Millisecond}
		store := redisstore.New(client.single(t))
		var all sync.WaitGroup
		for i := range 8 { // four fly, and four wait for them
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(11+i)*time.Millisecond)
				defer cancel()
				start := time.Now()
				err := store.Take(ctx, uuid.New(), []ratelimit.Claim{claimOn(fmt.Sprint("k", i))}, make([]ratelimit.Decision, 1))
				switch took := time.Since(start); {
				case i < 4 && (err != nil || took != 10*time.Millisecond):
					t.Errorf("caller %d: %v after %v", i, err, took)
				case i >= 4 && (!errors.Is(err, context.DeadlineExceeded) || took != time.Duration(11+i)*time.Millisecond):
					t.Errorf("caller %d, who has no time for two calls: %v after %v", i, err, took)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		store.Close()
	})
}

func TestAClientThatNeverReturnsHoldsUpNobodyBeyondItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slowly{takes: time.Hour}
		store := redisstore.New(client.single(t))
		for i := range 4 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				store.Take(ctx, uuid.New(), []ratelimit.Claim{claimOn(fmt.Sprint("stuck", i))}, make([]ratelimit.Decision, 1))
			}()
		}
		time.Sleep(200 * time.Millisecond)
		client.set(time.Millisecond)
		if d := take(t, store, claimOn("k"))[0]; d.Reason != ratelimit.Counted {
			t.Errorf("got %+v", d)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestWithoutCoalescingNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slowly{takes: 10 * time.Millisecond}
		store := redisstore.New(client.single(t)).WithoutCoalescing()
		start := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { take(t, store, claimOn(fmt.Sprint("k", i))) })
		}
		all.Wait()
		if took := time.Since(start); took != 10*time.Millisecond || len(client.keys) != 20 {
			t.Errorf("it took %v, and %d calls", took, len(client.keys))
		}
	})
}

// slowly is a Redis that allows everything, after a while.
type slowly struct {
	mu    sync.Mutex
	takes time.Duration
	keys  []int // of each call
}

// single is a client of it that is known to reach one server.
func (s *slowly) single(t *testing.T) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { client.Close() })
	client.AddHook(s)
	return client
}

func (s *slowly) set(takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = takes
}

func (s *slowly) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *slowly) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		keys := cmd.Args()[2].(int)
		s.mu.Lock()
		s.keys = append(s.keys, keys)
		takes := s.takes
		s.mu.Unlock()
		time.Sleep(takes)
		id, err := strconv.ParseInt(lastID(cmd)[24:], 16, 64)
		if err != nil {
			return err
		}
		var ints []int64
		for range keys {
			ints = append(ints, 1, 1, 0, 2, 0, 0)
		}
		reply(cmd, id, ints...)
		return nil
	}
}

// A client that has given up may write its command nonetheless: under the id of another request it would not be counted.
func TestACommandThatWasGivenUpKeepsItsID(t *testing.T) {
	t.Parallel()
	for range 20 {
		client := givesUp{read: make(chan string, 1), asked: new(atomic.Int32)}
		store := redisstore.New(client)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		id := uuid.New()
		_ = store.Take(ctx, id, []ratelimit.Claim{claimOn("k")}, make([]ratelimit.Decision, 1))
		cancel()
		take(t, store, claimOn("k"))
		if got := <-client.read; got != id.String() {
			t.Fatalf("the command has the id %q, want %v", got, id)
		}
	}
}

// givesUp is a client that does so on its first command, and reads that later.
type givesUp struct {
	read  chan string
	asked *atomic.Int32
}

func (c givesUp) Process(ctx context.Context, cmd redis.Cmder) error {
	if c.asked.Add(1) > 1 {
		return moody{}.Process(ctx, cmd)
	}
	<-ctx.Done()
	go func() {
		time.Sleep(5 * time.Millisecond)
		c.read <- lastID(cmd)
	}()
	return ctx.Err()
}

// Whoever shares a server's lane is not to be held up by another who closes.
func TestCloseHoldsUpNoDecision(t *testing.T) {
	t.Parallel()
	client := heedless{make(chan struct{}, 8), make(chan struct{})}
	store := redisstore.New(client)
	go store.Take(t.Context(), uuid.New(), []ratelimit.Claim{claimOn("k")}, make([]ratelimit.Decision, 1))
	<-client.asked
	closed := make(chan error)
	go func() { closed <- store.Close() }()
	time.Sleep(20 * time.Millisecond) // of real time: it waits by then
	answered := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		answered <- store.WithPrefix("other").Take(ctx, uuid.New(), []ratelimit.Claim{claimOn("k")}, make([]ratelimit.Decision, 1))
	}()
	select {
	case err := <-answered:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that time is up", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a decision waits for as long as Close does")
	}
	close(client.release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// heedless is a client that does not mind its context.
type heedless struct{ asked, release chan struct{} }

func (c heedless) Process(context.Context, redis.Cmder) error {
	c.asked <- struct{}{}
	<-c.release
	return context.DeadlineExceeded
}

func TestRequestsMayComeWhileAStoreCloses(t *testing.T) {
	t.Parallel()
	for range 200 {
		store := redisstore.New(moody{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { take(t, store, claimOn("k")) })
		}
		all.Go(func() { store.Close() })
		all.Wait()
	}
}

func TestALookOfARequestThatIsSentTwiceIsALook(t *testing.T) {
	t.Parallel()
	store := redisstore.New(redistest.Start(t).Client())
	look := claimOn("other")
	look.Cost = 0
	id, claims, decisions := uuid.New(), []ratelimit.Claim{claimOn("k"), look}, make([]ratelimit.Decision, 2)
	if err := store.Take(t.Context(), id, claims, decisions); err != nil {
		t.Fatal(err)
	}
	again := make([]ratelimit.Decision, 2)
	if err := store.Resend(t.Context(), id, claims, again); err != nil || !reflect.DeepEqual(again[1], decisions[1]) {
		t.Errorf("got %+v, %v; want %+v", again[1], err, decisions[1])
	}
}
