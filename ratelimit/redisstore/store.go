// Package redisstore keeps the logs of a rate limiter in Redis, so that every process that shares the server
// shares its limits.
//
// A key's log is one ZSET: a member for each allowed request, the request's UUID, scored with the time in
// microseconds at which the server allowed it. One Lua script (take.lua) decides and writes in one round
// trip, at the server's own TIME, so that it does not matter what the clocks of the processes say. After every
// write the key has a TTL of one and a half to two of its longest windows: a silent key disappears.
//
//	store := redisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}))
//	lim, err := ratelimit.New(ratelimit.Config{Store: store})
//
// Nothing is sent before the first decision, so that a program starts while its Redis is down. The Limiter bounds
// every decision whatever the client's options are; a client that gives up as early holds up fewer connections:
// set ContextTimeoutEnabled, and DialerRetries to 1. The client writes a line to stderr for each failed dial,
// unless a program calls logging.Disable of go-redis.
//
// A limit in Buckets has a HASH in place of the ZSET, at the key {…}~ of the log's, with a number for each sub-window, so
// that a limit of a million takes no more memory than one of a hundred. A request that such limits have counted, and whose
// answer was lost on a connection that broke, may be counted twice; a refund of it is noted under a key of its own.
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
//	resetchannels ~rate_limit:* ~{rate_limit:* +eval +evalsha +time +zadd +zcard +zcount +zrange +zrangebyscore
//	+zremrangebyscore +zscore +pexpire +pttl +del +zrem +hset +hget +hmget +hdel +set
//
// with +info to notice at once that a server began anew, and on a Cluster +cluster|slots and +command. No command
// concerns all keys.
//
// It needs Redis 5, or Valkey. Before Redis 7 a full server still takes the scripts' writes.
package redisstore

import (
	"context"
	_ "embed"
	"strconv"

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
	//go:embed refund.lua
	refundSource string
)

// DefaultPrefix begins every key, unless WithPrefix says otherwise.
const DefaultPrefix = "rate_limit"

// Client is what a Store needs of a Redis client. Every redis.UniversalClient has it. Hooks of it that keep a command must not
// read its arguments once it has returned: the ids among them are used again.
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
	refund     *script
	reset      *script
	alone      bool // no question waits for others
	questions  *questions
	lanes      *lanes   // shared with the copies that WithPrefix makes, as is
	background *running // what takeEach does
}

var (
	_ ratelimit.Divided   = (*Store)(nil)
	_ ratelimit.Forgetful = (*Store)(nil)
	_ ratelimit.Prompt    = (*Store)(nil)
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
	s := &Store{
		client: client, prefix: DefaultPrefix, together: single,
		take: newScript(takeSource), remind: newScript(remindSource), reset: newScript(resetSource), refund: newScript(refundSource),
		background: new(running), questions: new(questions),
	}
	s.lanes = &lanes{ask: s.ask, byServer: make(map[string]*lane)}
	return s
}

// Close waits for what is under way. It does not close the client.
func (s *Store) Close() error {
	s.background.wait()
	s.lanes.wait()
	return nil
}

// WithoutCoalescing returns a copy of the store that sends every question by a call of its own. Otherwise those that are
// asked while four calls are under way wait for one of them to return, and then travel together, up to 128 of
// them: under load a call answers many, and a question that is alone waits for nobody.
func (s Store) WithoutCoalescing() *Store {
	s.alone = true
	return &s
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

// Refund implements ratelimit.Store. It costs one round trip, or two where some limits have Buckets and others have none.
// That a request was taken off counters is noted under a key of its own, for as long as the request counts.
func (s *Store) Refund(ctx context.Context, key string, ticket ratelimit.Ticket) error {
	if ticket.Cost <= 0 {
		return nil
	}
	windows, listed, err := ticket.SubWindows()
	if err != nil {
		return err
	}
	if len(windows) > 0 {
		err = s.refundCounters(ctx, s.key(key), ticket, windows)
	}
	if err != nil || !listed {
		return explain(err)
	}
	id := ticket.ID.String()
	args := []any{"zrem", s.key(key)}
	for i := 1; i <= ticket.Cost; i++ {
		args = append(args, member(id, i))
	}
	return explain(repeat(ctx, func() error { return send(ctx, s.client, 1, args...).Err() }))
}

// Reset implements ratelimit.Store. It costs one round trip.
func (s *Store) Reset(ctx context.Context, key string) error {
	return explain(repeat(ctx, func() error {
		_, err := s.reset.run(ctx, s.client, []any{s.key(key), countersKey(s.key(key))}, nil)
		return err
	}))
}

// takeTogether decides claims that lie on one server, together with what others ask it at the same time.
func (s *Store) takeTogether(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	q := s.questions.make(id, s.prefix, claims)
	if s.alone {
		s.ask(ctx, []*question{q})
	} else if err := s.lanes.to(s.Server(claims[0].Key)).take(ctx, q); err != nil {
		return err // it may still be on its way
	}
	if q.err != nil {
		return q.err // a client that gave up may still read it
	}
	copy(decisions, q.answers)
	s.questions.giveBack(q)
	return nil
}

// Prompt implements ratelimit.Prompt: a decision that waits for others does not wait for the client.
func (s *Store) Prompt() bool { return !s.alone }

// ask has questions answered by one call of the script, or where their keys may lie in different slots of a Cluster by
// one pipeline.
func (s *Store) ask(ctx context.Context, questions []*question) {
	if s.together || len(questions) == 1 {
		s.askTogether(ctx, questions)
		return
	}
	s.askEach(ctx, questions)
}

// askTogether sends one call, and if the connection breaks, as those of a pool do when a server has been replaced, once
// more: then some may have been counted already.
func (s *Store) askTogether(ctx context.Context, questions []*question) {
	c := newCall(questions, false)
	reply, err := s.take.run(ctx, s.client, c.keys, c.args)
	if broken(err) && ctx.Err() == nil {
		c = newCall(questions, true)
		reply, err = s.take.run(ctx, s.client, c.keys, c.args)
	}
	if err == nil {
		err = c.answer(reply)
	}
	if err != nil {
		fail(questions, explain(err))
	}
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
