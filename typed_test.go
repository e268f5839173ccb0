package sash_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ratelimit"
)

// Typed handlers, through both adapters.

type sendRequest struct {
	Email string `json:"email"`
}

type sendReply struct {
	Sent any `json:"sent"`
}

type teapot struct{ status int }

func (teapot) Error() string     { return "secret" }
func (t teapot) StatusCode() int { return t.status }

// typed is the handler of the tests. Its answer depends on the e-mail.
func (a *app) typed(_ context.Context, in sendRequest) (sendReply, error) {
	a.handled++
	switch in.Email {
	case "teapot":
		return sendReply{}, teapot{418}
	case "confused": // success is no error
		return sendReply{}, teapot{204}
	case "broken":
		return sendReply{}, errors.New("secret")
	case "unspeakable": // in JSON
		return sendReply{func() {}}, nil
	case "denied further in":
		return sendReply{}, &sash.DeniedError{Rule: "inner", Decision: ratelimit.Decision{Limit: hourly(1)[0], RetryAfter: 1}}
	}
	return sendReply{in.Email}, nil
}

func TestATypedHandlerIsCountedByTheValueThatItReceives(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handleTyped("/", 0, sash.SlidingWindowLimit("email", hourly(2)[0].Window, 2))
		for i, body := range []string{`{"EMAIL":"a"}`, `{"email":"x","email":"a"}`} { // as encoding/json takes them
			got := app.post(t, "/", body)
			got.wants(t, 200, "")
			if strings.TrimSpace(got.body) != `{"sent":"a"}` || got.header.Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("request %d: %s, %v", i+1, got.body, got.header)
			}
		}
		app.post(t, "/", `{"email":"a"}`).wants(t, 429, `"email";r=0`)
	})
}

func TestATypedHandlerAnswersForWhatItCannotTakeOrSay(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.handleTyped("/", 100, sash.Rule{Name: "r", KeyExpr: "email", Limits: hourly(1), CountIf: "response.status < 400"})
		for _, test := range []struct {
			body   string
			status int
		}{
			{`{"email":"teapot"}`, 418}, {`{"email":"teapot"}`, 418}, // not counted, and so the next
			{`{"email":"confused"}`, 500}, {`{"email":"confused"}`, 500},
			{`{"email":"broken"}`, 500}, {`{"email":"broken"}`, 500},
			{`{"email":"unspeakable"}`, 500}, {`{"email":"unspeakable"}`, 500},
			{`{"email":"denied further in"}`, 429},
			{`{"email":"a"}`, 200}, {`{"email":"a"}`, 429},
			{`{}`, 400}, {`no JSON`, 400}, {``, 400}, {`{"email":"` + strings.Repeat("x", 100) + `"}`, 413},
		} {
			if got := app.post(t, "/", test.body); got.status != test.status || strings.Contains(got.body, "secret") {
				t.Errorf("%.30s: %d %s, want %d", test.body, got.status, got.body, test.status)
			}
		}
		if got := app.post(t, "/", `{"email":"denied further in"}`); got.header.Get("Retry-After") != "1" {
			t.Errorf("a DeniedError is answered as a denial is: %v", got.header)
		}
		if app.handled != 11 {
			t.Errorf("the handler ran %d times, want 11", app.handled)
		}
	})
}

func TestADenialMayBePlainJSON(t *testing.T) {
	everywhere(t, func(t *testing.T, app *app) {
		app.plain = "请求过于频繁,请稍后再试"
		app.handle("GET", "/", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(1)})
		app.get(t, "/").wants(t, 200, ``)
		got := app.get(t, "/")
		got.wants(t, 429, `"r";r=0`)
		if want := `{"code":429,"message":"请求过于频繁,请稍后再试","data":null}`; got.body != want || got.header.Get("Retry-After") != "3600" {
			t.Errorf("got %s %v", got.body, got.header)
		}
	})
}
