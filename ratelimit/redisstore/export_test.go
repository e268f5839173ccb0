package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/ratelimit"
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

// Resend sends a Take as it is sent when the answer to the first was lost.
func (s *Store) Resend(ctx context.Context, id uuid.UUID, claims []ratelimit.Claim, decisions []ratelimit.Decision) error {
	q := s.questions.make(id, s.prefix, claims)
	c := newCall([]*question{q}, true)
	reply, err := s.take.run(ctx, s.client, c.keys, c.args)
	if err == nil {
		err = c.answer(reply)
	}
	copy(decisions, q.answers)
	return err
}

// TakeAtOnce decides several requests in one call, as those that wait for the same flight are.
func (s *Store) TakeAtOnce(ctx context.Context, ids []uuid.UUID, requests [][]ratelimit.Claim) ([][]ratelimit.Decision, []error) {
	questions := make([]*question, len(requests))
	for i, claims := range requests {
		questions[i] = s.questions.make(ids[i], s.prefix, claims)
	}
	s.ask(ctx, questions)
	decisions, errs := make([][]ratelimit.Decision, len(questions)), make([]error, len(questions))
	for i, q := range questions {
		decisions[i], errs[i] = q.answers, q.err
	}
	return decisions, errs
}
