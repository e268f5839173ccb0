package ratelimit_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// world is a Redis whose faults the test chooses, and processes that share it, all on the clock of a bubble.
type world struct {
	*testing.T
	redis *miniredis.Miniredis

	mu      sync.Mutex
	mood    string        // the error with which Redis answers; "" is well, silent does not answer
	skew    time.Duration // of its clock
	life    int           // how often it has begun anew
	scripts int           // how often a script reached it
	fuse    int           // scripts until its mood is silent; 0: none
	slow    time.Duration // how long its answers take
}

const silent = "silent"

// inWorld runs test in a bubble with a Redis of its own.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	logging.Disable() // the client tells of every failed dial
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, redis: miniredis.NewMiniRedis()}
		w.redis.ClockTTL(true)
		conn, err := w.redis.Dial() // makes the server, which the hook is for
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		w.redis.Server().SetPreHook(w.hook)
		t.Cleanup(func() { w.set(""); w.redis.Close() })
		test(w)
	})
}

// process returns a Limiter of a process of its own. The Store and the Logger are added to config.
func (w *world) process(config ratelimit.Config) *ratelimit.Limiter {
	w.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:1", // a name would be looked up
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return w.redis.Dial() },
		ContextTimeoutEnabled: true, DialerRetries: 1, DisableIdentity: true, Protocol: 2,
	})
	w.Cleanup(func() { client.Close() })
	config.Store = redisstore.New(client)
	return newLimiter(w.T, config)
}

// hook stands before every command of Redis. Those of a script are run under the lock of Redis, and pass.
func (w *world) hook(c *server.Peer, cmd string, _ ...string) bool {
	switch cmd {
	case "EVAL", "EVALSHA", "INFO", "ZREM":
	default:
		return false
	}
	if cmd != "INFO" {
		time.Sleep(w.slowness())
	}
	mood, now, life := w.command(cmd)
	w.redis.SetTime(now)
	switch {
	case mood == silent:
		return true
	case mood != "":
		c.WriteError(mood)
		return true
	case cmd == "INFO":
		c.WriteBulk(fmt.Sprintf("run_id:%d\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n", life))
		return true
	}
	return false
}

// command takes account of a command, and tells how things stand.
func (w *world) command(cmd string) (mood string, now time.Time, life int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mood = w.mood
	if cmd == "EVAL" || cmd == "EVALSHA" {
		w.scripts++
		if w.fuse--; w.fuse == 0 {
			w.mood = silent
		}
	}
	return mood, time.Now().Add(w.skew), w.life
}

func (w *world) set(mood string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mood = mood
}

// slowly has Redis answer a command after a while.
func (w *world) slowly(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = d
}

func (w *world) slowness() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slow
}

// burn has Redis answer n scripts, and then fall silent.
func (w *world) burn(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mood, w.fuse = "", n
}

// jump sets Redis' clock, forward or back.
func (w *world) jump(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew += d
}

// begin has Redis begin anew, empty.
func (w *world) begin() {
	w.redis.FlushAll()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life++
}

// asked returns how many scripts have reached Redis since it was last called.
func (w *world) asked() int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.scripts
	w.scripts = 0
	return n
}

// allow asks for one request on key.
func (w *world) allow(lim *ratelimit.Limiter, key string, limits ...ratelimit.Limit) ratelimit.Decision {
	w.Helper()
	d, err := lim.Allow(context.Background(), key, limits...)
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// flood asks n times, and returns how many were allowed.
func (w *world) flood(lim *ratelimit.Limiter, n int, key string, limits ...ratelimit.Limit) (allowed int) {
	w.Helper()
	for range n {
		if w.allow(lim, key, limits...).Allowed {
			allowed++
		}
	}
	return allowed
}

// trip asks until the breaker is open.
func (w *world) trip(lim *ratelimit.Limiter) {
	w.Helper()
	for i := range 3 {
		w.allow(lim, fmt.Sprint("tripping", i), threePerMinute)
	}
}

// recover waits until Redis has been found well again, and everything has been told.
func (w *world) recover(lim *ratelimit.Limiter) {
	w.Helper()
	time.Sleep(250 * time.Millisecond)
	w.allow(lim, fmt.Sprint("probing", time.Now().UnixNano()), threePerMinute)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}
