// Package ginmw puts exact rate limits beside Gin handlers.
//
//	limit := ginmw.Decorator{Limiter: lim}
//	r.POST("/send/code", limit.SlidingWindowLimit("body.email", time.Minute, 3), sendCode)
//
// A request that may not go on is answered and the chain is aborted; any other goes on with header fields that
// tell what is left. Where the key comes from the body, the handler reads the same bytes again, by whichever of
// Gin's binding methods.
package ginmw

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/headers"
)

// Decorator binds a Limiter to Gin. Only the Limiter is required.
type Decorator struct {
	Limiter *ratelimit.Limiter

	// TrustedProxies are the addresses of the proxies in front of the server. The name ip is the peer, or if
	// the peer is one of these, the rightmost address in the ProxyHeader that is not. None by default, and
	// Gin's own ClientIP, which by default believes any client, is never asked.
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

	// HandleContext is for applications that call Gin's HandleContext: a request that enters the chain again is not
	// counted again by the same middleware. It costs a request two allocations.
	HandleContext bool

	// Observe is told what every rule that applies says of a request, dry runs among them: for metrics.
	Observe func(c *gin.Context, rule string, d ratelimit.Decision)

	// Denied answers a denied request, with a status of its own. Its header fields are already set, and the chain is
	// aborted.
	// nil answers with 429 and a problem document.
	Denied func(*gin.Context, ratelimit.Decision)

	// Failed answers a request that could not be decided, mostly because it has no key; sash.Status tells the
	// status that fits. nil answers with that status and a problem document.
	Failed func(*gin.Context, error)

	// Errored answers for a typed handler (see Handle) that returned an error. nil answers as sash.WriteError does.
	Errored func(*gin.Context, error)
}

// SlidingWindowLimit returns a handler that allows at most maxRequests requests of one key in any interval of
// length window. It panics if the declaration is wrong, with all that is wrong with it.
func (d Decorator) SlidingWindowLimit(keyExpr string, window time.Duration, maxRequests int) gin.HandlerFunc {
	return d.Limit(sash.SlidingWindowLimit(keyExpr, window, maxRequests))
}

// Limit returns a handler that applies rules together: a request is counted by all of them or by none. It
// panics if a declaration is wrong.
func (d Decorator) Limit(rules ...sash.Rule) gin.HandlerFunc {
	handler, err := d.Compile(rules...)
	if err != nil {
		panic(err)
	}
	return handler
}

// Compile is Limit, with an error where Limit panics.
func (d Decorator) Compile(rules ...sash.Rule) (gin.HandlerFunc, error) {
	aspect, err := sash.Compile(d.Limiter, d.options(), rules...)
	if err != nil {
		return nil, err
	}
	return func(c *gin.Context) {
		if d.HandleContext && decidedBefore(c, aspect) {
			return
		}
		src := source{c}
		verdict, goesOn := d.check(c, aspect, src)
		if goesOn && aspect.Watches() {
			watch(c, aspect, verdict, src, c.Next)
		}
	}, nil
}

// PlainJSON is a Denied that answers {"code":429,"message":message,"data":null} instead of a problem document.
func PlainJSON(message string) func(*gin.Context, ratelimit.Decision) {
	return func(c *gin.Context, _ ratelimit.Decision) {
		sash.WritePlain(c.Writer, http.StatusTooManyRequests, message)
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
		Vars:            true,
		Skip:            d.Skip,
		Dialect:         d.Headers,
		ShowDryRun:      d.ShowDryRun,
		Unobserved:      d.Observe == nil,
	}
}

// check decides a request, and answers it if it may not go on.
func (d *Decorator) check(c *gin.Context, aspect *sash.Aspect, src keyexpr.Source) (verdict sash.Verdict, goesOn bool) {
	verdict = aspect.Check(c.Writer.Header(), src)
	return verdict, d.told(c, &verdict)
}

// told tells Observe of a verdict, answers a request that may not go on, and reports whether it may.
func (d *Decorator) told(c *gin.Context, verdict *sash.Verdict) (goesOn bool) {
	if d.Observe != nil {
		for _, o := range verdict.Outcomes {
			d.Observe(c, o.Rule, o.Decision)
		}
	}
	if verdict.Err == nil && verdict.Allowed {
		return true
	}
	d.refuse(c, verdict)
	return false
}

// refuse answers a request that may not go on.
func (d *Decorator) refuse(c *gin.Context, verdict *sash.Verdict) {
	c.Abort()
	switch {
	case verdict.Err != nil && d.Failed != nil:
		d.Failed(c, verdict.Err)
	case verdict.Err == nil && d.Denied != nil:
		d.Denied(c, verdict.Decision)
	default:
		verdict.Answer(c.Writer)
	}
}

// source is a request as Gin knows it. vars are the context's keys.
type source struct{ c *gin.Context }

func (s source) Request() *http.Request           { return s.c.Request }
func (s source) Route() string                    { return s.c.FullPath() }
func (s source) Param(name string) (string, bool) { return s.c.Params.Get(name) }
func (s source) Var(name string) (any, bool)      { return s.c.Get(name) }

// Body is what ShouldBindBodyWith has kept.
func (s source) Body() ([]byte, bool) {
	kept, _ := s.c.Get(gin.BodyBytesKey)
	body, ok := kept.([]byte)
	return body, ok
}
