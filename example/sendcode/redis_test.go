package main

import (
	"strings"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

func TestFourRequestsLeaveThreeMembersInOneKeyThatExpires(t *testing.T) {
	t.Parallel()
	for framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			client := redistest.Start(t).Client()
			app := startApp(t, framework, ratelimit.Config{Store: redisstore.New(client), Timeout: patience})
			for i, want := range []string{" 200 ", " 200 ", " 200 ", " 429 "} {
				answer := app.exchange("192.0.2.1:1234", request("POST /send/code", send6888))
				if !strings.HasPrefix(answer, "HTTP/1.1"+want) {
					t.Fatalf("request %d: want%sin\n%s", i+1, want, answer)
				}
			}
			keys := client.Keys(t.Context(), "*").Val()
			if len(keys) != 1 || !strings.HasPrefix(keys[0], "rate_limit:") || !strings.HasSuffix(keys[0], ":6888@example.com") {
				t.Fatalf("keys %q: want one, rate_limit:…:6888@example.com", keys)
			}
			if n := client.ZCard(t.Context(), keys[0]).Val(); n != 3 {
				t.Errorf("it has %d members, want 3", n)
			}
			if ttl := client.TTL(t.Context(), keys[0]).Val(); ttl <= 0 {
				t.Errorf("its TTL is %v: it would never go", ttl)
			}
		})
	}
}

func TestABadRedisURLIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://:hunter2@127.0.0.1:x",
		"redis://:hunter2/@127.0.0.1:6379",
		"redis://:%zzhunter2@127.0.0.1:6379",
		"hunter2://127.0.0.1:6379",
		"redis://127.0.0.1:6379/hunter2",
		"redis://127.0.0.1:6379/0?password=hunter2",
	} {
		client, err := newRedisClient(url)
		if err == nil {
			client.Close()
			t.Errorf("%s is accepted", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheRedisClientKeepsTheDeadlineOfTheLimiter(t *testing.T) {
	t.Parallel()
	client, err := newRedisClient("redis://bob:hunter2@192.0.2.1:6380/3?pool_size=7")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	o := client.Options()
	if !o.ContextTimeoutEnabled || o.DialerRetries != 1 {
		t.Errorf("ContextTimeoutEnabled %v, DialerRetries %d", o.ContextTimeoutEnabled, o.DialerRetries)
	}
	if o.Addr != "192.0.2.1:6380" || o.Username != "bob" || o.Password != "hunter2" || o.DB != 3 || o.PoolSize != 7 {
		t.Errorf("the URL's own settings are lost: %s, database %d, pool %d", o.Addr, o.DB, o.PoolSize)
	}
}
