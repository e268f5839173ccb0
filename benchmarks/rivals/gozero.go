package rivals

import (
	"context"

	"github.com/zeromicro/go-zero/core/limit"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/stores/redis"
)

// goZero is the PeriodLimit of go-zero. It keeps one client for each address, for ever.
func goZero() []Contender {
	return []Contender{{
		Name: "go-zero", Module: "github.com/zeromicro/go-zero", Algorithm: "fixed window",
		Remark: "`PeriodLimit`; its log is off, and so is what its client says of itself when it connects: its breaker takes the refusal of a server before Redis 7.2 for a failure",
		Redis: func(s Setting, server Server) (Limiter, error) {
			logx.Disable()
			seconds, err := s.seconds()
			if err != nil {
				return nil, err
			}
			client, err := redis.NewRedis(redis.RedisConf{Host: server.Addr, Type: redis.NodeType,
				DisableIdentity: true, MaintNotifications: "disabled"})
			if err != nil {
				return nil, err
			}
			l := limit.NewPeriodLimit(seconds, s.Limit, client, "zero:")
			return allow(func(ctx context.Context, key string) (bool, error) {
				state, err := l.TakeCtx(ctx, key)
				return state == limit.Allowed || state == limit.HitQuota, err
			}), nil
		},
	}}
}
