package main

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

func TestTypedHandlersAnswerAsTheOthersDo(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := newTypedHandler(&service{codes: newCodeStore(time.Now, maxCodes), sender: &outbox{last: make(map[string]string)}, logger: slog.New(slog.DiscardHandler)}, limiter)
	for _, test := range []struct {
		name, path, body string
		status           int
		answer           string
	}{
		{"the first", "/send/code", send6888, 200, okBody},
		{"the second, in another case", "/send/code", `{"EMAIL":"6888@example.com"}`, 200, okBody}, // as the function receives it
		{"the third, twice", "/send/code", `{"email":"no","email":"6888@example.com"}`, 200, okBody},
		{"the fourth", "/send/code", send6888, 429, deniedZh},
		{"no address", "/send/code", `{"email":"no address"}`, 400, addressZh},
		{"no key", "/send/code", `{}`, 400, malformed},
		{"no JSON", "/send/code", `nonsense`, 400, malformed},
		{"two documents", "/send/code", send6888 + send6888, 400, malformed},
		{"too large", "/send/code", `{"email":"` + strings.Repeat("x", 70_000) + `"}`, 413, tooLargeZh},
		{"a wrong code", "/verify/code", `{"email":"6888@example.com","code":"x"}`, 400, badCodeZh},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", test.path, strings.NewReader(test.body)))
		if w.Code != test.status || w.Body.String() != test.answer {
			t.Errorf("%s: %d %s\nwant %d %s", test.name, w.Code, w.Body, test.status, test.answer)
		}
	}
}
