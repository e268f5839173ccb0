package report

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// middleware sends whole requests through handlers, over each project's memory store.
func (r *run) middleware() {
	r.page.title(2, "Whole middleware")
	r.page.say("A request through each project's middleware, keyed by the client's address, over its memory store, into a handler that does "+
		"nothing; on one core. The request and the writer are used again and again, and the writer keeps nothing. *Allowed*: %s "+
		"addresses in turn, a limit of 1,000 in a second. *Denied*: one address, 10 in an hour, spent before the clock starts. Each project writes the "+
		"header fields and, when it denies, the body that it writes by default. For Gin there are two; they stand beside a bare Gin, the others "+
		"beside a bare handler.", grouped(r.Addresses))
	for _, denied := range []bool{false, true} {
		what := map[bool]string{false: "allowed", true: "denied"}[denied]
		title := "Middleware, " + what
		all := r.plan(r.Rounds).Run(1, entries(rivals.AroundHandlers(), func(c rivals.Contender) ([]measure.Sample, error) {
			return r.middlewareTurn(c, denied)
		}))
		good := r.results("http-"+what, title, rivals.Sash, r.inProcess, all[0],
			nanoseconds("ns", measure.Time), nanoseconds("CPU ns", measure.CPU), count("allocations", measure.Mallocs))
		r.faster(title, map[bool]float64{false: 1.1, true: 2}[denied], measure.Find(good, rivals.Sash), fastest(good, isRival))
	}
}

func (r *run) middlewareTurn(c rivals.Contender, denied bool) (samples []measure.Sample, err error) {
	setting, want, clients := rivals.Setting{Limit: 1000, Window: time.Second}, measure.Want{Allowed: measure.AllOf}, r.Addresses
	if denied {
		setting, want, clients = rivals.Setting{Limit: 10, Window: time.Hour}, measure.Want{Slack: 1}, 1 // a bucket may gain one
	}
	if c.Role == rivals.Floor {
		want.Allowed = measure.AllOf
	}
	served := 0
	h, err := c.HTTP(setting, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	if err != nil {
		return nil, err
	}
	defer rivals.Close(h)
	site := newSite(h)
	measure.Count(site, addresses(clients), 2*clients+20)
	served = 0
	var s measure.Sample
	measure.OnCores(1, func() { s = measure.Spin(site, addresses(clients), 1, r.Turn) })
	if served != s.Allowed {
		return nil, fmt.Errorf("the handler has served %d requests, and %d were answered with 200", served, s.Allowed)
	}
	return checked(want, s)
}

func addresses(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("10.%d.%d.%d:4711", i>>16, i>>8&255, i&255)
	}
	return list
}

// site is a handler as a limiter of addresses.
type site struct {
	handler http.Handler
	request *http.Request
	writer  discard
}

func newSite(h http.Handler) *site {
	return &site{h, httptest.NewRequest("POST", rivals.Path, http.NoBody), discard{header: make(http.Header)}}
}

func (s *site) Allow(_ context.Context, peer string) (bool, error) {
	s.request.RemoteAddr = peer
	s.writer.status = http.StatusOK
	clear(s.writer.header)
	s.handler.ServeHTTP(&s.writer, s.request)
	switch s.writer.status {
	case http.StatusOK:
		return true, nil
	case http.StatusTooManyRequests:
		return false, nil
	}
	return false, fmt.Errorf("status %d", s.writer.status)
}

// discard keeps the status, and nothing else.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
