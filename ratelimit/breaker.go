package ratelimit

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// tolerance is how many calls must fail in a row for a breaker to open. Fewer would let one lost packet do it.
	tolerance = 3

	// probeEvery is how long an open breaker waits before the next probe.
	probeEvery = 200 * time.Millisecond
)

var (
	errOpen   = errors.New("the store is not asked, because it has failed before: a probe finds out when it is back")
	errPassed = errors.New("not asked, because of another server") // says nothing of this one
)

// breakers keep requests from waiting for a server that does not answer: one for each server of the store.
type breakers struct {
	server func(key string) string
	closed func() // called when a server is back, under a lock: it must not wait

	mu       sync.Mutex
	byServer map[string]*breaker
}

type breaker = gobreaker.TwoStepCircuitBreaker[struct{}]

// pass lets one request through some breakers. The zero pass has been refused.
type pass struct {
	gates  []gate
	probed []Claim // those on servers that failed before, for which no request should wait: the pass is for them alone
}

type gate struct {
	server string
	done   func(error)
}

// enter asks for a pass for claims: through the breakers of all their servers.
func (b *breakers) enter(claims []Claim) (p pass, ok bool) {
	var probe pass
	for i := range claims {
		server := b.server(claims[i].Key)
		if p.has(server) || probe.has(server) {
			continue
		}
		breaker := b.of(server)
		failedBefore := breaker.State() == gobreaker.StateHalfOpen
		done, err := breaker.Allow()
		switch {
		case err != nil:
			p.done(errPassed)
			probe.done(errPassed)
			return pass{}, false
		case failedBefore:
			probe.gates = append(probe.gates, gate{server, done})
			probe.probed = append(probe.probed, claims[i])
		default:
			p.gates = append(p.gates, gate{server, done})
		}
	}
	if probe.probed != nil {
		p.done(errPassed)
		return probe, true
	}
	return p, true
}

func (p pass) has(server string) bool {
	for _, g := range p.gates {
		if g.server == server {
			return true
		}
	}
	return false
}

// done tells all breakers what became of the call.
func (p pass) done(err error) {
	for _, g := range p.gates {
		g.done(err)
	}
}

// decided tells each breaker what became of the claims on its server.
func (p pass) decided(b *breakers, claims []Claim, err error) {
	apart, ok := errors.AsType[ClaimErrors](err)
	if !ok || len(apart) != len(claims) {
		p.done(err)
		return
	}
	for _, g := range p.gates {
		var own error
		for i := range claims {
			if own == nil && b.server(claims[i].Key) == g.server {
				own = apart[i]
			}
		}
		g.done(own)
	}
}

// of returns the breaker of a server.
func (b *breakers) of(server string) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.byServer[server]; ok {
		return known
	}
	made := gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         server,
		MaxRequests:  1, // one probe at a time
		Timeout:      probeEvery,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tolerance },
		IsSuccessful: func(err error) bool { return err == nil || errors.Is(err, ErrNoLog) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errPassed) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateClosed {
				b.closed()
			}
		},
	})
	b.byServer[server] = made
	return made
}
