package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// newTypedHandler is the application with typed handlers: functions from a request to a reply, with their limits beside
// them. The request is bound once, and its e-mail is counted as the function receives it, whatever the JSON looked
// like. It is the counterpart of @SlidingWindowLimit(keySpel = "#email.email") on a method with a @RequestBody.
func newTypedHandler(s *service, limiter *ratelimit.Limiter) http.Handler {
	mux := http.NewServeMux()
	app := stdApp{s}
	limit := stdmw.Decorator{Limiter: limiter, Denied: app.denied, Failed: app.failed, Errored: errored}

	mux.Handle("POST /send/code", stdmw.Handle(limit, s.sendCode, sash.SlidingWindowLimit("email", 60*time.Second, 3)))
	mux.Handle("POST /verify/code", stdmw.Handle(limit, s.verifyCode, sash.SlidingWindowLimit("email", 10*time.Minute, 5)))
	mux.Handle("GET /user/test", limit.SlidingWindowLimit("[ip, route]", time.Minute, 3)(http.HandlerFunc(app.userTest)))
	mux.HandleFunc("/", notFound.write)
	return mux
}

func (s *service) sendCode(ctx context.Context, in sendRequest) (envelope, error) {
	return reply(s.send(ctx, in))
}

func (s *service) verifyCode(_ context.Context, in verifyRequest) (envelope, error) {
	return reply(s.verify(in))
}

// reply is an answer as functions give it: anything but success is an error.
func reply(a answer) (envelope, error) {
	if a != success {
		return envelope{}, a
	}
	return envelope{Code: a.status, Message: a.en}, nil
}

// Error makes an answer an error. Clients do not read it: errored writes the answer itself.
func (a answer) Error() string { return a.en }

func errored(w http.ResponseWriter, r *http.Request, err error) {
	if a, ok := errors.AsType[answer](err); ok {
		a.write(w, r)
		return
	}
	unavailable.write(w, r)
}
