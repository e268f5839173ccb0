package main

import (
	"errors"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// errRedisURL does not say more: what the parser complains of may be a part of the password.
var errRedisURL = errors.New("-redis or REDIS_URL cannot be read: want redis://[user:password@]host:port[/database], special characters percent-escaped")

// newRedisClient returns a client set up for a limiter, which would rather not know than wait. It does not connect
// before the first decision.
func newRedisClient(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errRedisURL
	}
	// Without it a silent server holds a connection for the ReadTimeout of seconds, long after the limiter has
	// given up on it, and a pool full of those makes the outage outlast its cause.
	options.ContextTimeoutEnabled = true
	// The next request is the next try. By default a dial is tried five times, 100 ms apart: all the time there is.
	options.DialerRetries = 1
	// The limiter tells of an outage once; the client would tell of every failed dial, on stderr. The switch is the
	// whole process's, and so a program's to turn, not a library's.
	logging.Disable()
	return redis.NewClient(options), nil
}
