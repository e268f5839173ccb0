package sash_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// What becomes of single keys, and of the server's memory.

func TestAKeyThatHoldsSomethingElseIsDecidedByItsPolicyAndAllOthersByTheStore(t *testing.T) {
	inParallel(t)
	s := newScene(t, fault{befall: func(s *scene) func() {
		admin := s.server.Client()
		for _, v := range s.services {
			s.must(admin.Set(s.Context(), v.logOf(hotKey), "text", 0).Err())
		}
		return func() {
			for _, v := range s.services {
				s.must(admin.Del(s.Context(), v.logOf(hotKey)).Err())
			}
		}
	}})
	s.play(s.everyPolicy)
	for _, v := range s.services {
		v.mustKeepThePromise()
		v.mustHaveDecidedWithoutTheStore()
		v.mustHaveAskedTheStoreOutsideTheOutage()
		for _, got := range v.visits {
			if got.key != hotKey && !byStore(got.decision) {
				t.Errorf("%s: another key: %+v", v.name, got)
			}
		}
	}
}

// A script that begins by deleting may go on to write beyond maxmemory, unless it says at once that it writes. So the logs
// here hold entries to delete.
func TestAServerThatIsFullGrowsByNothingOfOurs(t *testing.T) {
	inParallel(t)
	server := redistest.Start(t)
	client := server.Client()
	store := redisstore.New(client)
	take := func(key, cost int) error {
		claim := ratelimit.Claim{Key: fmt.Sprint("k", key), Limits: []ratelimit.Limit{perSecond}, Cost: cost}
		return store.Take(t.Context(), uuid.New(), []ratelimit.Claim{claim}, make([]ratelimit.Decision, 1))
	}
	const keys = 100
	for i := range keys {
		if err := take(i, 1); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(perSecond.Window) // then all entries have left, and no key has expired
	server.MakeOutOfMemory()
	before := usedMemory(t, client)
	for i := range 2 * keys {
		if err := take(i, 100); !redis.HasErrorPrefix(err, "OOM") {
			t.Errorf("key %d: got %v, want OOM", i, err)
		}
	}
	if grown := usedMemory(t, client) - before; grown > 1000 { // without a single request it moves by some bytes
		t.Errorf("its data have grown by %d bytes", grown)
	}
}

var perSecond = ratelimit.Limit{MaxRequests: 100, Window: time.Second}

// A server that may evict forgets what still counts; the process that was granted those requests does not.
func TestAKeyThatTheServerHasEvictedGainsNothingAndTheLoggerIsWarned(t *testing.T) {
	inParallel(t)
	server := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "allkeys-lru")
	client := server.Client()
	var log journal
	lim := newRedisLimiter(t, client, ratelimit.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ask := func() ratelimit.Decision {
		d, err := lim.Allow(t.Context(), "victim", scarce)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for range scarce.MaxRequests - 1 { // a denial would be remembered, and the server not be asked again
		ask()
	}
	for i := 0; client.Exists(t.Context(), "rate_limit:victim").Val() > 0; i++ {
		if err := client.Set(t.Context(), fmt.Sprint("filler", i), bytes.Repeat([]byte("x"), 10_000), 0).Err(); err != nil || i > 100_000 {
			t.Fatalf("%v: the victim is not evicted", err)
		}
	}
	if d := ask(); d.Reason != ratelimit.Counted || d.Remaining != 0 {
		t.Errorf("the last request of the quota: %+v", d)
	}
	for range 5 {
		if d := ask(); d.Allowed {
			t.Errorf("one more: %+v", d)
		}
	}
	for late := time.Now().Add(eventually); !strings.Contains(log.String(), "set maxmemory-policy noeviction"); time.Sleep(beat) {
		if time.Now().After(late) {
			t.Fatalf("the Logger is not told: %s", log.String())
		}
	}
}

// journal is what was logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func newRedisLimiter(t *testing.T, client *redis.Client, config ratelimit.Config) *ratelimit.Limiter {
	t.Helper()
	config.Store, config.Timeout = redisstore.New(client), patience
	lim, err := ratelimit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lim.Close() })
	return lim
}

func TestOfTwentyThousandKeysEachDisappearsByItself(t *testing.T) {
	inParallel(t)
	const keys = 20_000
	client := redistest.Start(t).Client()
	lim := newRedisLimiter(t, client, ratelimit.Config{})
	before := usedMemory(t, client)
	flood(t, lim, keys)
	t.Logf("%d bytes a key", (usedMemory(t, client)-before)/keys)
	mustAllExpire(t, client, keys)

	for i := range 100 { // a reset leaves a mark
		if err := lim.Reset(t.Context(), fmt.Sprint("k", i)); err != nil {
			t.Fatal(err)
		}
	}
	mustAllExpire(t, client, keys)

	if err := client.FlushAll(t.Context()).Err(); err != nil { // and so does a reminder
		t.Fatal(err)
	}
	flood(t, lim, keys/10)
	mustAllExpire(t, client, keys/10)
}

// flood asks for that many keys, a hundred at a time.
func flood(t *testing.T, lim *ratelimit.Limiter, keys int) {
	t.Helper()
	for i := 0; i < keys; i += 100 {
		claims := make([]ratelimit.Claim, 100)
		for j := range claims {
			claims[j] = ratelimit.Claim{Key: fmt.Sprint("k", i+j), Limits: []ratelimit.Limit{scarce}, Cost: 1}
		}
		decisions, err := lim.AllowAll(t.Context(), claims...)
		if err != nil || decisions[0].Reason != ratelimit.Counted {
			t.Fatalf("%+v, %v", decisions[0], err)
		}
	}
}

// mustAllExpire looks at every key that there is.
func mustAllExpire(t *testing.T, client *redis.Client, want int) {
	t.Helper()
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(t.Context(), cursor, "*", 1000).Result()
		if err != nil {
			t.Fatal(err)
		}
		replies, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.PTTL(t.Context(), key)
			}
			return nil
		})
		if err != nil && len(keys) > 0 {
			t.Fatal(err)
		}
		for i, reply := range replies {
			seen[keys[i]] = true
			if ttl := reply.(*redis.DurationCmd).Val(); ttl <= 0 || ttl > 2*scarce.Window {
				t.Errorf("%s has a TTL of %v, want two windows at most", keys[i], ttl)
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	if len(seen) != want {
		t.Errorf("there are %d keys, want %d", len(seen), want)
	}
}

// usedMemory is what the server needs for its data, in bytes.
func usedMemory(t *testing.T, client *redis.Client) int {
	t.Helper()
	n, err := strconv.Atoi(client.InfoMap(t.Context(), "memory").Item("Memory", "used_memory_dataset"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
