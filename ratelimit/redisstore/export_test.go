package redisstore

import (
	"fmt"
	"strings"
)

// NewAt returns a store whose scripts read the time from the hash at clock (fields s and us) instead of
// asking the server. It edits their text, which is compiled into tests alone: what production
// sends has no argument and no key that could tell it the time.
func NewAt(client Client, clock string) *Store {
	const real = "redis.call('TIME')"
	told := func(source string) *script {
		if strings.Count(source, real) != 1 {
			panic("a script must ask for the time in one place, as " + real)
		}
		return newScript(strings.Replace(source, real, fmt.Sprintf("redis.call('HMGET', '%s', 's', 'us')", clock), 1))
	}
	s := New(client)
	s.take, s.remind, s.reset = told(takeSource), told(remindSource), told(resetSource)
	return s
}
