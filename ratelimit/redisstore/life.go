package redisstore

import (
	"context"
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

// Remind implements ratelimit.Forgetful. It costs one round trip, and where keys lie apart one for each log.
func (s *Store) Remind(ctx context.Context, logs []ratelimit.Past) ([]time.Duration, error) {
	size := 1
	if s.together {
		size = len(logs)
	}
	var resets []time.Duration
	for part := range slices.Chunk(logs, max(1, size)) {
		reset, err := s.remindTogether(ctx, part)
		if err != nil {
			return nil, err
		}
		resets = append(resets, reset...)
	}
	return resets, nil
}

func (s *Store) remindTogether(ctx context.Context, logs []ratelimit.Past) ([]time.Duration, error) {
	keys := make([]string, len(logs))
	var args []any
	for i, p := range logs {
		keys[i] = s.key(p.Key)
		args = append(args, p.Keep.Microseconds(), len(p.Grants))
		for _, g := range p.Grants {
			args = append(args, g.ID.String(), g.Cost, g.Age.Microseconds())
		}
	}
	reply, err := s.remind.run(ctx, s.client, keys, args)
	if err != nil {
		return nil, explain(err)
	}
	resets := make([]time.Duration, len(reply))
	for i, micros := range reply {
		resets[i] = time.Duration(micros) * time.Microsecond
	}
	return resets, nil
}

// Life implements ratelimit.Forgetful: the run_id of every server. It costs one round trip. A user that may not ask
// for INFO gets an error.
func (s *Store) Life(ctx context.Context) (string, error) {
	var mu sync.Mutex
	var ids []string
	ask := func(ctx context.Context, server *redis.Client) error {
		id, err := runID(ctx, server)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
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
	return strings.Join(ids, " "), explain(err)
}

// runID is the name of one run of a server.
func runID(ctx context.Context, server *redis.Client) (string, error) {
	info, err := send(ctx, server, 0, "info", "server").Text()
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), err
		}
	}
	return "", err
}
