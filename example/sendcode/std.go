package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// newStdHandler is the application on net/http: each limit stands beside its handler.
func newStdHandler(s *service, limiter *ratelimit.Limiter) http.Handler {
	mux := http.NewServeMux()
	app := stdApp{s}
	limit := stdmw.Decorator{Limiter: limiter, Denied: app.denied, Failed: app.failed}

	mux.Handle("POST /send/code", limit.SlidingWindowLimit("body.email", 60*time.Second, 3)(http.HandlerFunc(app.sendCode)))
	mux.Handle("POST /verify/code", limit.SlidingWindowLimit("body.email", 10*time.Minute, 5)(http.HandlerFunc(app.verifyCode)))
	mux.Handle("GET /user/test", limit.SlidingWindowLimit("[ip, route]", time.Minute, 3)(http.HandlerFunc(app.userTest)))

	// ServeMux answers other methods and other paths by itself, but in plain text. A pattern without a method is
	// the more general one: it gets what the routes above leave.
	mux.HandleFunc("/send/code", app.allow("POST"))
	mux.HandleFunc("/verify/code", app.allow("POST"))
	mux.HandleFunc("/user/test", app.allow("GET, HEAD"))
	mux.HandleFunc("/", notFound.write)
	return mux
}

type stdApp struct{ service *service }

func (a stdApp) sendCode(w http.ResponseWriter, r *http.Request) {
	var in sendRequest
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		badRequest.write(w, r)
		return
	}
	a.service.send(r.Context(), in).write(w, r)
}

func (a stdApp) verifyCode(w http.ResponseWriter, r *http.Request) {
	var in verifyRequest
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		badRequest.write(w, r)
		return
	}
	a.service.verify(in).write(w, r)
}

func (stdApp) userTest(w http.ResponseWriter, r *http.Request) { success.write(w, r) }

func (stdApp) denied(w http.ResponseWriter, r *http.Request, _ ratelimit.Decision) {
	tooManyRequests.write(w, r)
}

func (stdApp) failed(w http.ResponseWriter, r *http.Request, err error) { undecided(err).write(w, r) }

// allow answers every method that methods does not list (RFC 9110, section 15.5.6).
func (stdApp) allow(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", methods)
		methodNotAllowed.write(w, r)
	}
}
