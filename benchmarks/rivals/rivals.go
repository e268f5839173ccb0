// Package rivals puts Sash, the rate limiters of other projects and a few floors behind interfaces of one method, so
// that all of them can be measured by the same code. Each file is one project, set up as its own documentation says.
//
// What is given up: a Limiter here answers yes or no. Most projects tell more, how long to wait for example, and
// compute it whether it is asked for or not.
package rivals

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Setting is the limit that a contender is given: Limit requests in a Window. One that refills steadily is given the
// Limit as its burst, and Limit/Window as its rate: with a smaller burst it would deny what a client may do.
type Setting struct {
	Limit  int
	Window time.Duration

	// Keys is how many keys will be used. Where it is 1, a limiter that knows no keys is used bare, and else behind
	// a map. 0 means that nobody knows.
	Keys int
}

// Limiter decides requests, counted by key. If it is an io.Closer, it wants to be closed.
type Limiter interface {
	Allow(ctx context.Context, key string) (bool, error)
}

// Server is a Redis server.
type Server struct{ Addr string }

// Client returns a new client with go-redis's defaults, so with 10 connections for each core, which go-zero does not
// let anybody change.
func (s Server) Client() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.Addr}) }

// Role says what a contender is compared for.
type Role int

const (
	Rival Role = iota
	Ours
	Floor // does less than any limiter could: no limit is kept
)

// Contender is one thing to measure, and where it can be: in this process, on Redis, around an HTTP handler.
type Contender struct {
	Name      string
	Module    string // the path of its module; "" if it is written here
	Algorithm string
	Remark    string // what else was set; "" for nothing
	Role      Role
	Waits     bool // it does not deny: it lets the caller wait
	Unkeyed   bool // it knows no keys: behind a map of ours, or bare

	// Exact names the contender whose answers these are, for the verdict on them; "" for itself.
	Exact string

	Memory func(Setting) (Limiter, error)
	Redis  func(Setting, Server) (Limiter, error)
	HTTP   func(Setting, http.Handler) (http.Handler, error)
}

// Answers is the name under which its exactness is known.
func (c Contender) Answers() string {
	if c.Exact != "" {
		return c.Exact
	}
	return c.Name
}

// All lists the contenders, Sash first and the floors last.
func All() []Contender {
	return slices.Concat(sash(),
		xtime(), goLimiter(), throttledGo(), ululeLimiter(), httprateChi(), tollboothDidip(), failsafeGo(), uber(),
		redisRate(), goZero(), rueidisFixed(), recipe(),
		floors())
}

// InProcess lists those that decide in this process and can deny.
func InProcess() []Contender {
	return only(func(c Contender) bool { return c.Memory != nil && !c.Waits })
}

// OnRedis lists those that decide on Redis.
func OnRedis() []Contender { return only(func(c Contender) bool { return c.Redis != nil }) }

// AroundHandlers lists those that are middleware.
func AroundHandlers() []Contender { return only(func(c Contender) bool { return c.HTTP != nil }) }

func only(wanted func(Contender) bool) []Contender {
	return slices.DeleteFunc(All(), func(c Contender) bool { return !wanted(c) })
}

// Left are the projects that could not be had from the module proxy, and what stands in for them.
var Left = []struct{ Module, Instead string }{
	{"github.com/clipperhouse/rate", "left out"},
	{"github.com/didip/tollbooth/v8", "v7 is measured"},
	{"github.com/redis/rueidis/rueidislimiter", "a stand-in written here is measured: the same client, rueidis, " +
		"with a script that sends Redis the same commands, GET and INCRBY on two keys, and SET twice when a window begins"},
}

// Close closes a limiter or a handler that wants it.
func Close(c any) error {
	if c, ok := c.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// allow is a Limiter that is a function.
type allow func(ctx context.Context, key string) (bool, error)

func (f allow) Allow(ctx context.Context, key string) (bool, error) { return f(ctx, key) }

// closing is a Limiter together with what is to be closed after it.
type closing struct {
	Limiter
	io.Closer
}

// perKey is what programs put around a limiter that knows no keys: a map behind a lock, from which nothing is ever
// removed.
type perKey[L any] struct {
	one func() L

	mu  sync.RWMutex
	all map[string]L
}

func newPerKey[L any](one func() L) *perKey[L] {
	return &perKey[L]{one: one, all: make(map[string]L)}
}

func (p *perKey[L]) of(key string) L {
	p.mu.RLock()
	l, ok := p.all[key]
	p.mu.RUnlock()
	if ok {
		return l
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l, ok = p.all[key]; !ok {
		l = p.one()
		p.all[key] = l
	}
	return l
}

// perSecond is the rate of a setting.
func (s Setting) perSecond() float64 { return float64(s.Limit) / s.Window.Seconds() }

// seconds is the window of a limiter that knows whole seconds only.
func (s Setting) seconds() (int, error) {
	if s.Window%time.Second != 0 {
		return 0, fmt.Errorf("its windows are whole seconds, %v is none", s.Window)
	}
	return int(s.Window / time.Second), nil
}
