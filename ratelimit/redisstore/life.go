package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/ratelimit"
)

// What a Limiter needs to know of servers that can go down and come back without their memory.

// Together implements ratelimit.Divided: it reports whether one script decides all claims of a request.
func (s *Store) Together() bool { return s.together }

// Server implements ratelimit.Divided: the address of the master on a Cluster, of the shard on a Ring. It asks nobody.
func (s *Store) Server(key string) string {
	var server *redis.Client
	var err error
	switch client := s.client.(type) {
	case interface {
		MasterForKey(context.Context, string) (*redis.Client, error)
	}:
		server, err = client.MasterForKey(done, s.key(key))
	case interface {
		GetShardClientForKey(string) (*redis.Client, error)
	}:
		server, err = client.GetShardClientForKey(s.key(key))
	}
	if server == nil || err != nil {
		return ""
	}
	return server.Options().Addr
}

// done is a context that is over, under which a client answers from what it has, or not at all.
var done = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Remind implements ratelimit.Forgetful. It costs one round trip, and where keys lie apart one for each log, all at the
// same time.
func (s *Store) Remind(ctx context.Context, logs []ratelimit.Past) ([]time.Duration, error) {
	if s.together {
		return s.remindTogether(ctx, logs)
	}
	resets, errs := make([]time.Duration, len(logs)), make([]error, len(logs))
	var all sync.WaitGroup
	for i := range logs {
		all.Go(func() {
			reset, err := s.remindTogether(ctx, logs[i:i+1])
			if errs[i] = err; err == nil {
				resets[i] = reset[0]
			}
		})
	}
	all.Wait()
	return resets, errors.Join(errs...)
}

func (s *Store) remindTogether(ctx context.Context, logs []ratelimit.Past) ([]time.Duration, error) {
	keys := make([]any, len(logs))
	var args []any
	for i, p := range logs {
		keys[i] = s.key(p.Key)
		args = append(args, p.Keep.Microseconds(), len(p.Grants))
		for _, g := range p.Grants {
			args = append(args, g.ID.String(), g.Cost, g.Age.Microseconds())
		}
	}
	var reply []int64
	err := repeat(ctx, func() (err error) {
		reply, err = s.remind.run(ctx, s.client, keys, args)
		return err
	})
	if err != nil {
		return nil, explain(err)
	}
	if len(reply) != len(logs) {
		return nil, fmt.Errorf("redisstore: the script answered %d integers to %d logs", len(reply), len(logs))
	}
	resets := make([]time.Duration, len(reply))
	for i, micros := range reply {
		resets[i] = time.Duration(micros) * time.Microsecond
	}
	return resets, nil
}

// Life implements ratelimit.Forgetful: the run_id of every server, and its maxmemory-policy if that evicts. It costs two
// round trips. A user that may not ask for INFO gets an error.
func (s *Store) Life(ctx context.Context) (ratelimit.Life, error) {
	var mu sync.Mutex
	var ids, policies []string
	ask := func(ctx context.Context, server *redis.Client) error {
		facts, err := info(ctx, server)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, facts["run_id"])
		if policy := facts["maxmemory_policy"]; policy != "noeviction" && facts["maxmemory"] != "0" {
			policies = append(policies, policy)
		}
		return err
	}
	var err error
	switch client := s.client.(type) {
	case *redis.Client:
		err = ask(ctx, client)
	case interface {
		ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error
	}:
		err = client.ForEachMaster(ctx, ask)
	case interface {
		ForEachShard(context.Context, func(context.Context, *redis.Client) error) error
	}:
		err = client.ForEachShard(ctx, ask)
	}
	slices.Sort(ids)
	return ratelimit.Life{ID: strings.Join(ids, " "), Evicts: strings.Join(policies, " ")}, explain(err)
}

// info is what a server says of itself. (Several sections at once need Redis 7.)
func info(ctx context.Context, server *redis.Client) (map[string]string, error) {
	facts := make(map[string]string)
	for _, section := range []string{"server", "memory"} {
		text, err := send(ctx, server, 0, "info", section).Text()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				facts[name] = value
			}
		}
	}
	return facts, nil
}
