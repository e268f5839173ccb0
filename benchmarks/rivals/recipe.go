package rivals

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// recipe is the sliding window on Redis as articles publish it: a ZSET for each key, scored with the client's clock in
// milliseconds, once as commands one after another and once as a script.
func recipe() []Contender {
	return []Contender{{
		Name: "recipe, commands", Algorithm: "log, client's clock",
		Remark: "ZREMRANGEBYSCORE, ZCOUNT, ZADD, EXPIRE, one after another",
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			return closing{commands{client, s}, client}, nil
		},
	}, {
		Name: "recipe, script", Algorithm: "log, client's clock",
		Remark: "the same commands in a Lua script",
		Redis: func(s Setting, server Server) (Limiter, error) {
			client := server.Client()
			return closing{scripted{client, redis.NewScript(recipeScript), s}, client}, nil
		},
	}}
}

type commands struct {
	*redis.Client
	Setting
}

func (c commands) Allow(ctx context.Context, key string) (bool, error) {
	key = "recipe:" + key
	now := time.Now().UnixMilli()
	since := strconv.FormatInt(now-c.Window.Milliseconds(), 10)
	if err := c.ZRemRangeByScore(ctx, key, "0", since).Err(); err != nil {
		return false, err
	}
	count, err := c.ZCount(ctx, key, since, strconv.FormatInt(now, 10)).Result()
	if err != nil || count >= int64(c.Limit) {
		return false, err
	}
	if err := c.ZAdd(ctx, key, redis.Z{Score: float64(now), Member: uuid.NewString()}).Err(); err != nil {
		return false, err
	}
	return true, c.Expire(ctx, key, atLeastASecond(c.Window)).Err()
}

const recipeScript = `
local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
if redis.call('ZCOUNT', KEYS[1], now - window, now) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], now, ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1`

type scripted struct {
	client *redis.Client
	script *redis.Script
	Setting
}

func (r scripted) Allow(ctx context.Context, key string) (bool, error) {
	allowed, err := r.script.Run(ctx, r.client, []string{"recipe:" + key}, time.Now().UnixMilli(), r.Window.Milliseconds(),
		r.Limit, uuid.NewString(), int(atLeastASecond(r.Window)/time.Second)).Int()
	return allowed == 1, err
}

// atLeastASecond is a window as EXPIRE can be told it.
func atLeastASecond(window time.Duration) time.Duration {
	return max(window.Truncate(time.Second), time.Second)
}
