package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// program is a run of run, on a free port.
type program struct {
	addr  string
	log   *logBuffer
	stop  context.CancelFunc
	ended chan struct{} // closed once run has returned err
	err   error
}

func startProgram(t *testing.T, c config) *program {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &program{log: &logBuffer{listening: make(chan string, 1)}, stop: stop, ended: make(chan struct{})}
	c.addr = "127.0.0.1:0"
	c.logger = slog.New(slog.NewJSONHandler(p.log, nil))
	go func() { defer close(p.ended); p.err = run(ctx, c) }()
	select {
	case p.addr = <-p.log.listening:
	case <-p.ended:
		t.Fatalf("it does not start: %v", p.err)
	}
	return p
}

// end tells the program to end, and waits until it has.
func (p *program) end(t *testing.T) {
	t.Helper()
	p.stop()
	p.awaitEnd(t)
}

func (p *program) awaitEnd(t *testing.T) {
	t.Helper()
	if <-p.ended; p.err != nil {
		t.Errorf("it ends with %v", p.err)
	}
}

func (p *program) post(t *testing.T, path, body string) (*http.Response, string) {
	t.Helper()
	response, err := http.Post("http://"+p.addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response, string(answer)
}

// logBuffer keeps all that is logged, and tells the address when the program listens.
type logBuffer struct {
	listening chan string

	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(line)
	var record struct{ Msg, Addr string }
	if err := json.Unmarshal(line, &record); err == nil && record.Msg == "listening" {
		b.listening <- record.Addr
	}
	return len(line), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestTheProgramServesWithoutAnySetupAndPutsCodesIntoTheLog(t *testing.T) {
	t.Parallel()
	for framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, config{framework: framework})
			defer p.end(t)
			if got, want := p.log.String(), `"framework":"`+framework+`","store":"memory"`; !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
			for i, want := range []int{200, 200, 200, 429} {
				if response, body := p.post(t, "/send/code", send6888); response.StatusCode != want {
					t.Errorf("request %d: %d %s, want %d", i+1, response.StatusCode, body, want)
				}
			}
			const logged = `"address":"6888@example.com","code":"`
			log := p.log.String()
			if n := strings.Count(log, logged); n != 3 {
				t.Fatalf("%d codes in the log, want 3:\n%s", n, log)
			}
			code := log[strings.LastIndex(log, logged)+len(logged):][:6]
			if _, body := p.post(t, "/verify/code", `{"email":"6888@example.com","code":"`+code+`"}`); body != okBody {
				t.Errorf("%s: the code %s of the log is not it", body, code)
			}
		})
	}
}

func TestARequestInFlightIsAnsweredBeforeTheProgramEnds(t *testing.T) {
	t.Parallel()
	relay := startRelay(t, "")
	p := startProgram(t, config{framework: "std", smtpAddr: relay.Addr().String(), from: "sender@example.com"})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if response, body := p.post(t, "/send/code", send6888); response.StatusCode != 200 {
			t.Errorf("%d %s", response.StatusCode, body)
		}
	}()
	m := <-relay.mails // and now the handler waits for the relay
	p.stop()
	for { // until nobody else is let in
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			break
		}
		conn.Close()
	}
	select {
	case <-p.ended:
		t.Errorf("it ended, with %v, and left a request unanswered", p.err)
	default:
	}
	close(relay.confirm)
	<-answered
	p.awaitEnd(t)
	if m.to != "6888@example.com" {
		t.Errorf("the mail went to %s", m.to)
	}
}

func TestTheProgramStartsWhileItsRedisIsDownAndLimitsNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Stop()
	for framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			p := startProgram(t, config{framework: framework, redisURL: "redis://bob:hunter2@" + server.Addr()})
			for range 5 {
				response, body := p.post(t, "/send/code", send6888)
				if response.StatusCode != 200 || body != okBody {
					t.Errorf("%d %s", response.StatusCode, body)
				}
				if got := response.Header.Values("RateLimit"); len(got) > 0 {
					t.Errorf("it claims to know what is left: %s", got)
				}
			}
			p.end(t)
			log := p.log.String()
			if want := `"store":"redis at ` + server.Addr() + `"`; !strings.Contains(log, want) {
				t.Errorf("no %s in %s", want, log)
			}
			if n := strings.Count(log, "rate limit store fails"); n != 1 {
				t.Errorf("the log tells %d times of one outage:\n%s", n, log)
			}
			if strings.Contains(log, "hunter2") {
				t.Errorf("the password is in the log:\n%s", log)
			}
		})
	}
}

func TestTheProgramSharesItsLimitsThroughRedis(t *testing.T) {
	t.Parallel()
	url := "redis://" + redistest.Start(t).Addr()
	one, two := startProgram(t, config{framework: "gin", redisURL: url}), startProgram(t, config{framework: "gin", redisURL: url})
	defer one.end(t)
	defer two.end(t)
	for i, p := range []*program{one, two, one, two} {
		want := []int{200, 200, 200, 429}[i]
		if response, body := p.post(t, "/send/code", send6888); response.StatusCode != want {
			t.Errorf("request %d: %d %s, want %d", i+1, response.StatusCode, body, want)
		}
	}
}

func TestTheProgramRefusesToStartOnWhatItCannotDo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name  string
		fault string
		config
	}{
		{"a framework that it does not know", "want gin, std or typed", config{framework: "chi"}},
		{"a Redis URL that is none", errRedisURL.Error(), config{framework: "gin", redisURL: "127.0.0.1:6379"}},
		{"a relay without a port", "-smtp relay: want host:port", config{framework: "gin", smtpAddr: "relay", from: "a@example.com"}},
		{"a port that is taken", "address already in use", config{framework: "gin", addr: taken.Addr().String()}},
	} {
		c.logger = slog.New(slog.DiscardHandler)
		if err := run(t.Context(), c.config); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}
