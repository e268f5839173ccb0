package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// permissions is all that the Redis user of a store needs, in the words of ACL SETUSER: what it sends, what its
// scripts send, and its keys.
const permissions = "+eval +evalsha +time" +
	" +zadd +zcard +zcount +zrange +zrangebyscore +zremrangebyscore +zscore +pexpire" + // take.lua, remind.lua
	" +pttl +del" + // reset.lua
	" +zrem" + // Refund
	" +hset +hget +hmget +hdel +set" + // the same for limits in Buckets, and refund.lua
	" ~rate_limit:* ~{rate_limit:*"

// lifePermission lets a Limiter find out that a server has begun anew. Without it everything else works.
const lifePermission = "+info"

// clusterPermissions are two questions that go-redis asks of a Cluster: who serves which slot, and what commands there
// are. Without an answer to the second it works, but asks again before every command.
const clusterPermissions = "+cluster|slots +command"

// handshake is what go-redis tells every server of itself, and may be refused.
var handshake = []string{"hello", "client|setinfo", "client|maint_notifications"}

func TestAUserWithThesePermissionsCanDoEverything(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := func(rules ...string) *redisstore.Store {
		server.AddUser("sash", "secret", rules...)
		return redisstore.New(server.ClientAs("sash", "secret"))
	}
	sash := store(strings.Fields(permissions)...)
	if err := everything(t.Context(), sash); err != nil {
		t.Error(err)
	}
	mustRefuseTheHandshakeAlone(t, server)
	if err := sash.WithPrefix("others").Reset(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("the keys of others: got %v", err)
	}
	if _, err := sash.Life(t.Context()); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("without %s: got %v", lifePermission, err)
	}
	if life, err := store(lifePermission).Life(t.Context()); err != nil || life.ID == "" {
		t.Errorf("with %s: got %+v, %v", lifePermission, life, err)
	}
}

func TestOnAClusterAUserNeedsTwoPermissionsMore(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Nodes {
		node.AddUser("sash", "secret", strings.Fields(permissions+" "+clusterPermissions)...)
		node.AddUser("single", "secret", strings.Fields(permissions)...)
	}
	as := func(user string) *redisstore.Store {
		o := cluster.Options()
		o.Username, o.Password = user, "secret"
		client := redis.NewClusterClient(o)
		t.Cleanup(func() { client.Close() })
		return redisstore.New(client)
	}
	if err := everything(t.Context(), as("sash")); err != nil {
		t.Error(err)
	}
	for _, node := range cluster.Nodes {
		mustRefuseTheHandshakeAlone(t, node)
	}
	if err := everything(t.Context(), as("single")); err == nil {
		t.Error("they are not needed")
	}
}

// mustRefuseTheHandshakeAlone reads in the server's log what it has refused to anybody.
func mustRefuseTheHandshakeAlone(t *testing.T, server *redistest.Server) {
	t.Helper()
	entries, err := server.Client().ACLLog(t.Context(), 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !slices.Contains(handshake, entry.Object) {
			t.Errorf("%s %q was refused", entry.Reason, entry.Object)
		}
	}
}

// A server counts the commands that it runs, those of scripts among them. None looks at all keys, or at those of others.
func TestNothingIsSentButWhatThePermissionsSay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	if err := admin.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	lim, err := ratelimit.New(ratelimit.Config{Store: redisstore.New(server.Client()), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := lim.Allow(t.Context(), "k", threePerMinute); err != nil || d.Reason != ratelimit.Counted {
		t.Errorf("got %+v, %v", d, err)
	}
	if err := everything(t.Context(), redisstore.New(server.Client())); err != nil {
		t.Error(err)
	}
	if err := lim.Close(); err != nil { // waits for what it has begun in the background
		t.Error(err)
	}
	known := append(strings.Fields(permissions+" "+lifePermission), "+config|resetstat")
	for _, command := range handshake {
		known = append(known, "+"+command)
	}
	for line := range strings.Lines(admin.Info(t.Context(), "commandstats").Val()) {
		command, isCommand := strings.CutPrefix(line, "cmdstat_")
		command, _, _ = strings.Cut(command, ":")
		if isCommand && !slices.Contains(known, "+"+command) {
			t.Errorf("%s was sent", command)
		}
	}
}

func TestWithoutAnyOneOfThePermissionsSomethingFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := strings.Fields(permissions)
	for i, permission := range all {
		t.Run(permission, func(t *testing.T) {
			if err := server.Client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			server.AddUser("sash", "secret", slices.Delete(slices.Clone(all), i, i+1)...)
			err := everything(t.Context(), redisstore.New(server.ClientAs("sash", "secret")))
			if err == nil || !refused.MatchString(err.Error()) {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}

// refused is what a server says to a command, and to one of a script: Redis 7.0, and the others.
var refused = regexp.MustCompile("NOPERM|The user executing the script can't run this command|ACL failure in script")

// everything has a store do whatever it can, on a key of its own.
func everything(ctx context.Context, store *redisstore.Store) error {
	claim := ratelimit.Claim{Key: uuid.NewString(), Limits: []ratelimit.Limit{
		threePerMinute, {MaxRequests: 100, Window: time.Hour}, {MaxRequests: 1000, Window: time.Hour, Buckets: 60},
	}}
	var ticket ratelimit.Ticket
	take := func(id uuid.UUID, cost int, want ratelimit.Reason) error {
		claim.Cost = cost
		decisions := make([]ratelimit.Decision, 1)
		if err := store.Take(ctx, id, []ratelimit.Claim{claim}, decisions); err != nil {
			return fmt.Errorf("take %d: %w", cost, err)
		}
		if decisions[0].Reason != want {
			return fmt.Errorf("take %d: got %v, want %v", cost, decisions[0].Reason, want)
		}
		if want == ratelimit.Counted {
			ticket = decisions[0].Ticket
		}
		return nil
	}
	id := uuid.New()
	for _, step := range []func() error{
		func() error { return take(id, 2, ratelimit.Counted) },
		func() error { // it is known already
			claim.Cost = 2
			return store.Resend(ctx, id, []ratelimit.Claim{claim}, make([]ratelimit.Decision, 1))
		},
		func() error { return take(uuid.New(), 0, ratelimit.Looked) },
		func() error { return take(uuid.New(), 2, ratelimit.Exhausted) },
		func() error { return take(uuid.New(), 4, ratelimit.TooCostly) },
		func() error { return store.Refund(ctx, claim.Key, ticket) },
		func() error { return store.Reset(ctx, claim.Key) },
		func() error { return take(uuid.New(), 1, ratelimit.Counted) },
		func() error { return store.Reset(ctx, claim.Key) },
		func() error {
			grant := ratelimit.Grant{Ticket: ratelimit.Ticket{ID: uuid.New(), Cost: 2}, Age: -time.Second} // ahead of the clock
			_, err := store.Remind(ctx, []ratelimit.Past{{Key: claim.Key, Keep: time.Hour, Grants: []ratelimit.Grant{grant}}})
			return err
		},
		func() error { return take(uuid.New(), 2, ratelimit.Exhausted) },
		func() error { return store.Close() },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
