package rivals

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	root "github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/stdmw"
)

// Names of what is ours.
const (
	Sash          = "Sash"
	SashOneByOne  = "Sash, one by one"    // on Redis, each decision in a command of its own
	SashAlways    = "Sash, asking always" // on Redis, without the memory of denials
	SashGin       = "Sash, Gin"
	patientEnough = 10 * time.Second
)

func sash() []Contender {
	const algorithm = "sliding window, exact"
	return []Contender{{
		Name: Sash, Algorithm: algorithm, Role: Ours,
		Remark: "in process MaxKeys a quarter above the number of keys, if that is more than the default; on Redis a Timeout of 10 s, so that no stall of the machine is taken for an outage",
		Memory: func(s Setting) (Limiter, error) {
			return newSash(s, ratelimit.Config{Store: memoryFor(s)}, nil)
		},
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			return newSash(s, ratelimit.Config{Store: redisstore.New(client)}, client)
		},
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			lim, err := ratelimit.New(ratelimit.Config{})
			if err != nil {
				return nil, err
			}
			h, err := stdmw.Decorator{Limiter: lim}.Compile(rule(s))
			if err != nil {
				return nil, err
			}
			return closingHandler{h(next), lim}, nil
		},
	}, {
		Name: SashOneByOne, Algorithm: algorithm, Role: Ours,
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			return newSash(s, ratelimit.Config{Store: oneByOne(client)}, client)
		},
	}, {
		Name: SashAlways, Algorithm: algorithm, Role: Ours, Exact: Sash,
		Remark: "AskAlways: no denial is remembered in this process",
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			return newSash(s, ratelimit.Config{Store: redisstore.New(client), AskAlways: true}, client)
		},
	}, {
		Name: SashGin, Algorithm: algorithm, Role: Ours, Exact: Sash,
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			lim, err := ratelimit.New(ratelimit.Config{})
			if err != nil {
				return nil, err
			}
			h, err := ginmw.Decorator{Limiter: lim}.Compile(rule(s))
			if err != nil {
				return nil, err
			}
			return closingHandler{onGin(next, h), lim}, nil
		},
	}}
}

// memoryFor is a store with room for the keys of a setting, which a MemoryStore divides unevenly among its shards.
func memoryFor(s Setting) *ratelimit.MemoryStore {
	const byDefault = 1_000_000
	return ratelimit.NewMemoryStore(ratelimit.MemoryConfig{MaxKeys: max(byDefault, s.Keys+s.Keys/4)})
}

// oneByOne is a store that asks about each request in a command of its own.
func oneByOne(client *redis.Client) *redisstore.Store {
	return redisstore.New(client).WithoutCoalescing()
}

func rule(s Setting) root.Rule { return root.SlidingWindowLimit("ip", s.Window, s.Limit) }

// sashLimiter is a Limiter with one limit.
type sashLimiter struct {
	*ratelimit.Limiter
	limit  ratelimit.Limit
	client *redis.Client // to be closed after it; nil if there is none
}

func newSash(s Setting, config ratelimit.Config, client *redis.Client) (Limiter, error) {
	config.Timeout = patientEnough
	lim, err := ratelimit.New(config)
	return sashLimiter{lim, limitOf(s), client}, err
}

// limitOf is a setting as a Limit. What is more than a Limit may hold becomes a stricter one: a tenth of it in a tenth of
// the window.
func limitOf(s Setting) ratelimit.Limit {
	l := ratelimit.Limit{MaxRequests: s.Limit, Window: s.Window}
	for l.MaxRequests > ratelimit.MaxMaxRequests {
		l.MaxRequests /= 10
		l.Window /= 10
	}
	return l
}

var errFailed = errors.New("the store failed, and the policy has answered")

// Allow is false with an error where the policy for failures answered in the store's place: that is no measurement.
func (l sashLimiter) Allow(ctx context.Context, key string) (bool, error) {
	d, err := l.Limiter.Allow(ctx, key, l.limit)
	if d.Reason == ratelimit.FailedOpen || d.Reason == ratelimit.FailedClosed || d.Reason == ratelimit.FailedLocal {
		return false, errFailed
	}
	return d.Allowed, err
}

// Filler makes entries in the log of a key, by as few calls as it takes.
type Filler interface {
	Fill(ctx context.Context, key string, n int) error
}

// Batcher decides several keys together, all or none.
type Batcher interface {
	AllowAll(ctx context.Context, keys []string) (bool, error)
}

var (
	_ Filler  = sashLimiter{}
	_ Batcher = sashLimiter{}
)

func (l sashLimiter) Fill(ctx context.Context, key string, n int) error {
	const most = 5000 // at once: a server answers nobody else meanwhile
	for ; n > 0; n -= most {
		d, err := l.AllowN(ctx, key, min(n, most), l.limit)
		if err != nil || d.Reason != ratelimit.Counted {
			return fmt.Errorf("cannot fill the log of %s: %v, %w", key, d.Reason, err)
		}
	}
	return nil
}

func (l sashLimiter) AllowAll(ctx context.Context, keys []string) (bool, error) {
	claims := make([]ratelimit.Claim, len(keys))
	limits := []ratelimit.Limit{l.limit}
	for i, key := range keys {
		claims[i] = ratelimit.Claim{Key: key, Limits: limits, Cost: 1}
	}
	decisions, err := l.Limiter.AllowAll(ctx, claims...)
	for _, d := range decisions {
		if d.Reason != ratelimit.Counted {
			return false, err
		}
	}
	return true, err
}

// NewSliding is Sash in process on a clock that goes by a fixed step whenever it is read, such that a window of one key
// is always full and no request of that key is denied.
func NewSliding(limit int) (Limiter, error) {
	const step = time.Millisecond
	now := time.Now()
	store := ratelimit.NewMemoryStore(ratelimit.MemoryConfig{Now: func() time.Time {
		now = now.Add(step)
		return now
	}})
	return newSash(Setting{Limit: limit, Window: step * time.Duration(limit)}, ratelimit.Config{Store: store}, nil)
}

func (l sashLimiter) Close() error {
	err := l.Limiter.Close()
	if l.client != nil {
		err = errors.Join(err, l.client.Close())
	}
	return err
}
