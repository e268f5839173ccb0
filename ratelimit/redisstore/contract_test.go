package redisstore_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/ratelimit/storetest"
)

// A real server is where truth is: its clock is read from a hash that the test writes.

func TestContractOnRedis(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Backend { return onRedis(t, server.Client()) })
}

// A client that is not known to reach one server alone is treated as a Cluster's.
func TestContractWhereEachKeyIsDecidedByItself(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Backend { return apart(t, server.Client()) })
}

func TestModelWhereEachKeyIsDecidedByItself(t *testing.T) {
	server := redistest.Start(t)
	storetest.Model(t, func(t *testing.T) storetest.Backend { return apart(t, server.Client()) })
}

func apart(t *testing.T, client *redis.Client) storetest.Backend {
	b := onRedis(t, client)
	b.Store, b.Apart = redisstore.NewAt(struct{ redisstore.Client }{client}, "clock"), true
	return b
}

func TestModelOnRedis(t *testing.T) {
	server := redistest.Start(t)
	storetest.Model(t, func(t *testing.T) storetest.Backend { return onRedis(t, server.Client()) })
}

func TestBoundOnRedis(t *testing.T) {
	server := redistest.Start(t)
	storetest.Bound(t, func(t *testing.T) storetest.Backend { return onRedis(t, server.Client()) })
}

func TestBoundWhereEachKeyIsDecidedByItself(t *testing.T) {
	server := redistest.Start(t)
	storetest.Bound(t, func(t *testing.T) storetest.Backend { return apart(t, server.Client()) })
}

// miniredis is the fast twin; the two differ in how Lua numbers become text.

func TestContractOnMiniredis(t *testing.T) { storetest.Run(t, onMiniredis) }

func TestModelOnMiniredis(t *testing.T) { storetest.Model(t, onMiniredis) }

func TestBoundOnMiniredis(t *testing.T) { storetest.Bound(t, onMiniredis) }

// start is a time of 16 digits in µs, as they are now.
var start = time.Unix(1_763_671_412, 345_678_000)

// onRedis empties client's server and gives it a clock.
func onRedis(t *testing.T, client *redis.Client) storetest.Backend {
	t.Helper()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	now := start
	set := func() {
		err := client.HSet(t.Context(), "clock", "s", now.Unix(), "us", now.Nanosecond()/1000).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	set()
	store := redisstore.NewAt(client, "clock")
	return storetest.Backend{
		Store:   store,
		Advance: func(d time.Duration) { now = now.Add(d); set() },
		Now:     func() time.Duration { return time.Duration(now.UnixNano()) },
		Resend:  store.Resend,
	}
}

// onMiniredis sets the clock that TIME tells.
func onMiniredis(t *testing.T) storetest.Backend {
	m := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { client.Close() })
	now := start
	m.SetTime(now)
	store := redisstore.New(client)
	return storetest.Backend{
		Store: store,
		Advance: func(d time.Duration) {
			now = now.Add(d)
			m.SetTime(now)
			m.FastForward(max(0, d)) // expires keys; it cannot go back
		},
		Now:    func() time.Duration { return time.Duration(now.UnixNano()) },
		Resend: store.Resend,
	}
}
