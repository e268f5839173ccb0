// Package ratelimit decides whether a request may pass under an exact sliding-window limit.
//
// It keeps a log of the requests that it allowed, one log per key, and allows another only if no interval
// of length Window then holds more than MaxRequests. Nothing is estimated, and nothing is denied that could
// have been allowed. The price is memory in proportion to MaxRequests for every active key.
//
//	lim, err := ratelimit.New(ratelimit.Config{}) // in this process; give Config a Store to share a Redis
//	if err != nil {
//		return err
//	}
//	d, err := lim.Allow(ctx, "login:"+user, ratelimit.Limit{MaxRequests: 5, Window: time.Minute})
//	if err != nil {
//		return err // the question was wrong: an empty key, no limit
//	}
//	if !d.Allowed {
//		return fmt.Errorf("try again in %v", d.RetryAfter)
//	}
//
// A denial is not an error, and an error is not a denial. A store that cannot answer is neither: the request
// is allowed (Reason FailedOpen), and the Logger hears of the outage once when it begins and once when it ends.
//
// The package knows no framework, no Redis and no expressions. Those are built on top of it: package sash
// declares limits on HTTP handlers, package redisstore keeps the log in Redis, and package storetest is the
// contract of a Store in executable form.
package ratelimit
