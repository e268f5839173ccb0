package rivals

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// fixedWindow counts in KEYS[1] until the end of the window, which KEYS[2] holds. ARGV is now, and the end of a window
// that would begin now, in ms.
const fixedWindow = `
local ends = tonumber(redis.call('GET', KEYS[2]) or 0)
if ends < tonumber(ARGV[1]) then
  ends = tonumber(ARGV[2])
  redis.call('SET', KEYS[1], 0, 'PXAT', ends + 1000)
  redis.call('SET', KEYS[2], ends, 'PXAT', ends + 1000)
end
return {redis.call('INCRBY', KEYS[1], 1), ends}`

// rueidisFixed stands in for rueidislimiter: see Left. Its client sends the commands of many callers together over 4
// connections, by default.
func rueidisFixed() []Contender {
	return []Contender{{
		Name: "rueidis, fixed window", Module: "github.com/redis/rueidis", Algorithm: "fixed window",
		Remark: "stands in for rueidislimiter; 4 connections, which its callers share, by default",
		Redis: func(s Setting, server Server) (Limiter, error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}})
			if err != nil {
				return nil, err
			}
			return rueidisLimiter{client, rueidis.NewLuaScript(fixedWindow), s}, nil
		},
	}}
}

type rueidisLimiter struct {
	client  rueidis.Client
	script  *rueidis.Lua
	setting Setting
}

func (r rueidisLimiter) Allow(ctx context.Context, key string) (bool, error) {
	key = "rueidis:{" + key + "}"
	now := time.Now()
	reply, err := r.script.Exec(ctx, r.client, []string{key, key + ":end"}, []string{
		strconv.FormatInt(now.UnixMilli(), 10),
		strconv.FormatInt(now.Add(r.setting.Window).UnixMilli(), 10),
	}).AsIntSlice()
	return err == nil && reply[0] <= int64(r.setting.Limit), err
}

func (r rueidisLimiter) Close() error {
	r.client.Close()
	return nil
}
