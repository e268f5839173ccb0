package redisstore_test

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit/redisstore"
	"github.com/sashlimit/sash/ratelimit/storetest"
)

func TestContractOverTLSWithAPassword(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t, "secret")
	storetest.Run(t, func(t *testing.T) storetest.Backend { return onRedis(t, server.Client()) })
}

func TestWhoCannotEnterByTLSIsToldWhy(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t, "secret")
	for name, test := range map[string]struct {
		change func(*redis.Options)
		want   string
	}{
		"a wrong password":               {func(o *redis.Options) { o.Password = "wrong" }, "WRONGPASS"},
		"no password":                    {func(o *redis.Options) { o.Password = "" }, "NOAUTH"},
		"a certificate that is unknown":  {func(o *redis.Options) { o.TLSConfig = &tls.Config{} }, "unknown authority"},
		"a certificate of somebody else": {func(o *redis.Options) { o.TLSConfig.ServerName = "other.example" }, "other.example"},
		"no TLS":                         {func(o *redis.Options) { o.TLSConfig = nil }, ""}, // the server hangs up
	} {
		t.Run(name, func(t *testing.T) {
			o := server.Options()
			test.change(o)
			client := redis.NewClient(o)
			t.Cleanup(func() { client.Close() })
			mustFail(t, redisstore.New(client), "k", test.want)
		})
	}
}
