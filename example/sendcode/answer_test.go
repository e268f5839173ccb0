package main

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sashlimit/sash/ratelimit"
)

func TestWhatIsNoFaultOfTheClientIs503(t *testing.T) {
	for name, err := range map[string]error{"a closed limiter": ratelimit.ErrClosed, "any other error": errors.New("?")} {
		if got := undecided(err); got != unavailable {
			t.Errorf("%s is answered with %v", name, got)
		}
	}
}

func TestAFullCodeStoreSendsNothing(t *testing.T) {
	mails := &outbox{last: make(map[string]string)}
	s := service{newCodeStore(time.Now, 1), mails, slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		address string
		want    answer
	}{{"alice@example.com", success}, {"bob@example.com", tooManyCodes}, {"alice@example.com", success}} {
		if got := s.send(t.Context(), sendRequest{c.address}); got != c.want {
			t.Errorf("%s: %v, want %v", c.address, got, c.want)
		}
	}
	if tooManyCodes.status != 503 || mails.lastTo("bob@example.com") != "" {
		t.Errorf("status %d, code %q", tooManyCodes.status, mails.lastTo("bob@example.com"))
	}
}

func TestAWrongCodeReadsLikeNoCode(t *testing.T) {
	mails := &outbox{last: make(map[string]string)}
	s := service{newCodeStore(time.Now, 1), mails, slog.New(slog.DiscardHandler)}
	none := s.verify(verifyRequest{"bob@example.com", "123456"})
	s.send(t.Context(), sendRequest{"bob@example.com"})
	if wrong := s.verify(verifyRequest{"bob@example.com", wrong(mails.lastTo("bob@example.com"))}); wrong != none || none != badCode {
		t.Errorf("a wrong code: %v; none: %v", wrong, none)
	}
}
