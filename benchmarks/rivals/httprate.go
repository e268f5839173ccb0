package rivals

import (
	"context"
	"net"
	"net/http"

	"github.com/go-chi/httprate"
)

// httprateChi is go-chi/httprate.
func httprateChi() []Contender {
	return []Contender{{
		Name: "httprate", Module: "github.com/go-chi/httprate", Algorithm: "two counters, weighted",
		Remark: "`OnLimit` without header fields, as it is middleware only",
		Memory: func(s Setting) (Limiter, error) {
			l := httprate.NewRateLimiter(s.Limit, s.Window, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
			r := new(http.Request).WithContext(context.Background())
			return allow(func(_ context.Context, key string) (bool, error) { return !l.OnLimit(nil, r, key), nil }), nil
		},
		HTTP: func(s Setting, next http.Handler) (http.Handler, error) {
			return httprate.LimitBy(s.Limit, s.Window, func(r *http.Request) (string, error) {
				ip, _, err := net.SplitHostPort(r.RemoteAddr)
				return httprate.CanonicalizeIP(ip), err
			})(next), nil
		},
	}}
}
