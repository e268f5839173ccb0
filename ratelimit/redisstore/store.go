// Package redisstore keeps the logs of a rate limiter in Redis, so that every process that shares the server
// shares its limits.
//
// A key's log is one ZSET: a member for each allowed request, the request's UUID, scored with the time in
// microseconds at which the server allowed it. One Lua script (take.lua) decides and writes in one round
// trip, at the server's own TIME, so that it does not matter what the clocks of the processes say. Every
// write gives the key a TTL of twice its longest window: a silent key disappears.
//
//	store := redisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}))
//	lim, err := ratelimit.New(ratelimit.Config{Store: store})
//
// Nothing is sent before the first decision, so that a program starts while its Redis is down. The Limiter bounds
// every decision whatever the client's options are; a client that gives up as early holds up fewer connections:
// set ContextTimeoutEnabled, and DialerRetries to 1. The client writes a line to stderr for each failed dial,
// unless a program calls logging.Disable of go-redis.
//
// What is given up: an exact log takes 100 to 130 bytes of Redis memory for each request that it remembers.
// Redis replicates asynchronously, so that a failover can lose the last writes; the Limiter reminds it of those that
// its own process was granted, and other processes do the same. The promise needs every write kept: run with maxmemory-policy
// noeviction, under which a full server fails (the Limiter's Policy answers), and forgets nothing.
//
// Keys are in the clear unless Config.KeySecret says otherwise. redisotel writes commands, and so keys, into
// spans by default: use redisotel.WithDBStatement(false).
//
// The least that a user of the server needs (ACL SETUSER) is
//
//	resetchannels ~rate_limit:* +eval +evalsha +time +zadd +zcount +zrange +zrangebyscore +zremrangebyscore +zscore
//	+pexpire +pttl +del +zrem
//
// with +info to notice at once that a server began anew, and on a Cluster +cluster|slots and +command. No command
// concerns all keys.
//
// It needs Redis 5, or Valkey. Before Redis 7 a full server still takes the scripts' writes.
package redisstore

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/ratelimit"
)

var (
	//go:embed take.lua
	takeSource string
	//go:embed remind.lua
	remindSource string
	//go:embed reset.lua
	resetSource string
)

// DefaultPrefix begins every key, unless WithPrefix says otherwise.
const DefaultPrefix = "rate_limit"

// Client is what a Store needs of a Redis client. Every redis.UniversalClient has it.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Store is a ratelimit.Store in Redis, safe for concurrent use. It does not own its client: close that
// yourself.
type Store struct {
	client     Client
	prefix     string
	together   bool // all keys are on one server: one script may decide them all
	take       *script
	remind     *script
	reset      *script
	background *background // shared with the copies that WithPrefix makes
}

var (
	_ ratelimit.Divided   = (*Store)(nil)
	_ ratelimit.Forgetful = (*Store)(nil)
)

// New returns a store on any redis.UniversalClient, or any other that can Process commands: standalone,
// Sentinel, Cluster, Ring.
//
// On a single server (a *redis.Client, Sentinel's included) the claims of one request are decided by one
// script in one round trip. On others, whose keys lie in different slots, each claim is decided where its key
// lies, all at the same time, and if one denies, what the others took is refunded: see takeEach.
//
// A Ring is exact as long as its shards stay up: when one goes down, its keys begin anew on another.
func New(client Client) *Store {
	_, single := client.(*redis.Client)
	return &Store{
		client: client, prefix: DefaultPrefix, together: single,
		take: newScript(takeSource), remind: newScript(remindSource), reset: newScript(resetSource),
		background: new(background),
	}
}

// Close waits for refunds in the background. It does not close the client.
func (s *Store) Close() error {
	s.background.wait()
	return nil
}

// WithPrefix returns a copy of the store whose keys begin with prefix instead, percent-escaped as Key does it.
// Applications that share a server keep apart by their prefixes.
func (s Store) WithPrefix(prefix string) *Store {
	s.prefix = ratelimit.Key(prefix)
	return &s
}

// Take implements ratelimit.Store.
func (s *Store) Take(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	if s.together || len(claims) == 1 {
		return s.takeTogether(ctx, id, claims, decisions)
	}
	return s.takeEach(ctx, id, claims, decisions)
}

// Refund implements ratelimit.Store. It costs one round trip.
func (s *Store) Refund(ctx context.Context, key string, ticket ratelimit.Ticket) error {
	if ticket.Cost == 0 {
		return nil
	}
	id := ticket.ID.String()
	args := []any{"zrem", s.key(key)}
	for i := 1; i <= ticket.Cost; i++ {
		args = append(args, member(id, i))
	}
	return explain(send(ctx, s.client, 1, args...).Err())
}

// Reset implements ratelimit.Store. It costs one round trip.
func (s *Store) Reset(ctx context.Context, key string) error {
	_, err := s.reset.run(ctx, s.client, []string{s.key(key)}, nil)
	return explain(err)
}

// takeTogether decides claims by one call of the script.
func (s *Store) takeTogether(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	keys := make([]string, len(claims))
	args := make([]any, 0, 1+4*len(claims))
	args = append(args, id.String())
	for i, c := range claims {
		keys[i] = s.key(c.Key)
		args = append(args, c.Cost, c.Kept().Microseconds(), len(c.Limits))
		for _, l := range c.Limits {
			args = append(args, l.MaxRequests, l.Window.Microseconds())
		}
	}
	reply, err := s.take.run(ctx, s.client, keys, args)
	if err != nil {
		return explain(err)
	}
	return decode(reply, id, claims, decisions)
}

// key returns the Redis key of a log.
func (s *Store) key(key string) string { return s.prefix + ":" + key }

// member names the i-th entry, from 1, of the request id, as take.lua does.
func member(id string, i int) string {
	if i == 1 {
		return id
	}
	return id + ":" + strconv.Itoa(i)
}

// The verdicts of take.lua.
const (
	denied = iota
	fits
	tooCostly
)

// fields is the number of integers with which take.lua answers a claim.
const fields = 5

// decode reads the reply of take.lua.
func decode(reply []int64, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	if len(reply) != 1+fields*len(claims) {
		return fmt.Errorf("redisstore: the script answered %d integers to %d claims, want 1 and %d each", len(reply), len(claims), fields)
	}
	if reply[0] != tail(id) {
		return errors.New("redisstore: the answer is to another request: the client has mixed up its replies")
	}
	reply = reply[1:]
	all := true
	for i := range claims {
		all = all && reply[fields*i] == fits
	}
	for i, c := range claims {
		r := reply[fields*i:][:fields]
		if r[1] < 0 || r[1] >= int64(len(c.Limits)) {
			return fmt.Errorf("redisstore: the script answered with limit %d of %d", r[1], len(c.Limits))
		}
		d := ratelimit.Decision{
			Allowed:    r[0] == fits,
			Limit:      c.Limits[r[1]],
			Remaining:  int(r[2]),
			RetryAfter: time.Duration(r[3]) * time.Microsecond,
			ResetAfter: time.Duration(r[4]) * time.Microsecond,
		}
		switch {
		case r[0] == denied:
			d.Reason = ratelimit.Exhausted
		case r[0] == tooCostly:
			d.Reason = ratelimit.TooCostly
		case c.Cost == 0:
			d.Reason = ratelimit.Looked
		case !all:
			d.Reason = ratelimit.Withheld
		default:
			d.Reason, d.Ticket = ratelimit.Counted, ratelimit.Ticket{ID: id, Cost: c.Cost}
		}
		decisions[i] = d
	}
	return nil
}

// tail is what the script makes of the last 12 hex digits of an id.
func tail(id uuid.UUID) int64 {
	return int64(binary.BigEndian.Uint64(id[8:]) & (1<<48 - 1))
}
