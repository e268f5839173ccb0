// Package stdmw puts exact rate limits beside net/http handlers. Its middleware fits every chain of
// func(http.Handler) http.Handler: plain ServeMux, chi, alice, gorilla.
//
//	limit := stdmw.Decorator{Limiter: lim}
//	mux.Handle("POST /send/code", limit.SlidingWindowLimit("body.email", time.Minute, 3)(sendCode)) // an http.Handler
//
// A request that may not go on is answered; any other goes on with header fields that tell what is left. Where
// the key comes from the body, the handler reads the same bytes again.
//
// Wrap a handler where it is registered, as above. Around a whole mux no route is known yet: route is "", params
// are empty, and a rule without a name has one quota for the whole mux. With a router that does not set
// http.Request.Pattern and PathValue (ServeMux and chi do, gorilla does not) that is so everywhere: there two
// declarations of the same text share a quota unless they have names.
package stdmw

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// Decorator binds a Limiter to net/http. Only the Limiter is required.
type Decorator struct {
	Limiter *ratelimit.Limiter

	// TrustedProxies are the addresses of the proxies in front of the server. The name ip is the peer, or if
	// the peer is one of these, the rightmost address in the ProxyHeader that is not. None by default.
	TrustedProxies []netip.Prefix

	// ProxyHeader is the one header field in which the TrustedProxies tell whom they forward for, each at its end:
	// sash.XForwardedFor, the default, or sash.Forwarded (RFC 7239). An entry that is no address stands for the
	// proxy that wrote it.
	ProxyHeader sash.ProxyHeader

	// TrustUnixSocket says that whoever calls over a Unix socket is a trusted proxy, which no prefix can say. Without it
	// such requests have no address.
	TrustUnixSocket bool

	// IPv6Prefix is how many bits of an IPv6 address the name ip keeps, 32 to 128: who has one address of a prefix
	// has them all. Customers are given a /64 at least, often a /56 or /48 (RFC 6177). 0 means 64.
	IPv6Prefix int

	// MaxBodyBytes is what a key expression may read of a body. A longer body is answered with 413.
	// 0 means 64 KiB.
	MaxBodyBytes int64

	// Skip is a condition, an expression: a request for which it is true is no rule's concern. "" means none.
	Skip string

	// Headers is the dialect in which responses tell what is left; the draft's by default.
	Headers headers.Dialect

	// ShowDryRun adds a field RateLimit-Dry-Run, in the form of RateLimit, with what dry runs would have said.
	ShowDryRun bool

	// Vars returns a value that the application's own middleware left, in the request's context for example,
	// for vars.name in expressions; false if there is none. nil: expressions must not use vars.
	Vars func(r *http.Request, name string) (any, bool)

	// Observe is told what every rule that applies says of a request, dry runs among them: for metrics.
	Observe func(r *http.Request, rule string, d ratelimit.Decision)

	// Denied answers a denied request, with a status of its own. Its header fields are already set.
	// nil answers with 429 and a problem document.
	Denied func(http.ResponseWriter, *http.Request, ratelimit.Decision)

	// Failed answers a request that could not be decided, mostly because it has no key; sash.Status tells the
	// status that fits. nil answers with that status and a problem document.
	Failed func(http.ResponseWriter, *http.Request, error)

	// Errored answers for a typed handler (see Handle) that returned an error. nil answers as sash.WriteError does.
	Errored func(http.ResponseWriter, *http.Request, error)
}

// SlidingWindowLimit returns middleware that allows at most maxRequests requests of one key in any interval of
// length window. It panics if the declaration is wrong, with all that is wrong with it.
func (d Decorator) SlidingWindowLimit(keyExpr string, window time.Duration, maxRequests int) func(http.Handler) http.Handler {
	return d.Limit(sash.SlidingWindowLimit(keyExpr, window, maxRequests))
}

// Limit returns middleware that applies rules together: a request is counted by all of them or by none. It
// panics if a declaration is wrong.
func (d Decorator) Limit(rules ...sash.Rule) func(http.Handler) http.Handler {
	middleware, err := d.Compile(rules...)
	if err != nil {
		panic(err)
	}
	return middleware
}

// Compile is Limit, with an error where Limit panics.
func (d Decorator) Compile(rules ...sash.Rule) (func(http.Handler) http.Handler, error) {
	aspect, err := sash.Compile(d.Limiter, d.options(), rules...)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			src := d.source(r)
			switch verdict, goesOn := d.check(w, r, aspect, src); {
			case goesOn && aspect.Watches():
				watch(w, r, next, aspect, verdict, src)
			case goesOn:
				next.ServeHTTP(w, r)
			}
		})
	}, nil
}

// PlainJSON is a Denied that answers {"code":429,"message":message,"data":null} instead of a problem document.
func PlainJSON(message string) func(http.ResponseWriter, *http.Request, ratelimit.Decision) {
	return func(w http.ResponseWriter, _ *http.Request, _ ratelimit.Decision) {
		sash.WritePlain(w, http.StatusTooManyRequests, message)
	}
}

// Rules lists every rule that was declared on the Decorator's Limiter.
func (d Decorator) Rules() []ratelimit.Declaration { return d.Limiter.Rules() }

func (d Decorator) options() sash.Options {
	return sash.Options{
		TrustedProxies:  d.TrustedProxies,
		ProxyHeader:     d.ProxyHeader,
		IPv6Prefix:      d.IPv6Prefix,
		TrustUnixSocket: d.TrustUnixSocket,
		MaxBodyBytes:    d.MaxBodyBytes,
		Vars:            d.Vars != nil,
		Skip:            d.Skip,
		Dialect:         d.Headers,
		ShowDryRun:      d.ShowDryRun,
		Unobserved:      d.Observe == nil,
	}
}

// check decides a request, and answers it if it may not go on.
func (d *Decorator) check(w http.ResponseWriter, r *http.Request, aspect *sash.Aspect, src keyexpr.Source) (verdict sash.Verdict, goesOn bool) {
	verdict = aspect.Check(w.Header(), src)
	return verdict, d.told(w, r, &verdict)
}

// told tells Observe of a verdict, answers a request that may not go on, and reports whether it may.
func (d *Decorator) told(w http.ResponseWriter, r *http.Request, verdict *sash.Verdict) (goesOn bool) {
	if d.Observe != nil {
		for _, o := range verdict.Outcomes {
			d.Observe(r, o.Rule, o.Decision)
		}
	}
	if verdict.Err == nil && verdict.Allowed {
		return true
	}
	d.refuse(w, r, verdict)
	return false
}

// refuse answers a request that may not go on.
func (d *Decorator) refuse(w http.ResponseWriter, r *http.Request, verdict *sash.Verdict) {
	switch {
	case verdict.Err != nil && d.Failed != nil:
		d.Failed(w, r, verdict.Err)
	case verdict.Err == nil && d.Denied != nil:
		d.Denied(w, r, verdict.Decision)
	default:
		verdict.Answer(w)
	}
}

func (d *Decorator) source(r *http.Request) keyexpr.Source {
	if d.Vars == nil {
		return source{r}
	}
	return varsSource{source{r}, d.Vars}
}

// source is a request as net/http knows it. It is one pointer, and to pass it on allocates nothing.
type source struct{ r *http.Request }

func (s source) Request() *http.Request { return s.r }
func (s source) Route() string          { return s.r.Pattern }
func (s source) Var(string) (any, bool) { return nil, false }
func (s source) Body() ([]byte, bool)   { return nil, false }

// varsSource is a source with values of the application.
type varsSource struct {
	source
	vars func(*http.Request, string) (any, bool)
}

func (s varsSource) Var(name string) (any, bool) { return s.vars(s.r, name) }

// Param cannot tell an absent parameter from an empty one: both are none.
func (s source) Param(name string) (string, bool) {
	value := s.r.PathValue(name)
	return value, value != ""
}
