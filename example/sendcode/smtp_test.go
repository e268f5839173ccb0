package main

import (
	"bufio"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
)

// relay is the least of an SMTP server (RFC 5321). It hands each mail to the test before it confirms it.
type relay struct {
	net.Listener
	refuses string // the recipient whom it does not know
	mails   chan envelopedMail
	confirm chan struct{} // a mail is confirmed once this is closed
}

type envelopedMail struct {
	from, to string
	data     string
}

func startRelay(t *testing.T, refuses string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener, refuses, make(chan envelopedMail), make(chan struct{})}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	say := func(line string) { io.WriteString(conn, line+"\r\n") }
	var m envelopedMail
	say("220 relay.example.com")
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), ":")
		switch {
		case verb == "MAIL FROM":
			m = envelopedMail{from: address(rest)}
			say("250 OK")
		case verb == "RCPT TO" && address(rest) == r.refuses:
			say("550 no such mailbox")
		case verb == "RCPT TO":
			m.to += address(rest)
			say("250 OK")
		case verb == "DATA":
			say("354 go on")
			for lines.Scan() && lines.Text() != "." {
				m.data += lines.Text() + "\r\n"
			}
			r.mails <- m
			<-r.confirm
			say("250 OK")
		case verb == "QUIT":
			say("221 bye")
			return
		default: // EHLO, NOOP, RSET
			say("250 OK")
		}
	}
}

// address is what stands between the brackets of a path.
func address(path string) string {
	_, path, _ = strings.Cut(path, "<")
	path, _, _ = strings.Cut(path, ">")
	return path
}

func TestACodeIsMailedToItsAddress(t *testing.T) {
	t.Parallel()
	r := startRelay(t, "")
	close(r.confirm)
	s := mustMailSender(t, r, "sender@example.com")
	want := map[string]string{"6888@example.com": "012345", "bob+tag@example.com": "678901"}
	var wg sync.WaitGroup
	for address, code := range want { // at once: the sender is shared by all handlers
		wg.Go(func() {
			if err := s.Send(t.Context(), address, code); err != nil {
				t.Error(err)
			}
		})
	}
	for range want {
		m := <-r.mails
		if m.from != "sender@example.com" {
			t.Errorf("it comes from %q", m.from)
		}
		checkMail(t, m, want[m.to])
	}
	wg.Wait()
}

// checkMail reads the mail as its recipient would.
func checkMail(t *testing.T, m envelopedMail, code string) {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(m.data))
	if err != nil {
		t.Fatalf("%v in\n%s", err, m.data)
	}
	recipients, err := message.Header.AddressList("To")
	if err != nil || len(recipients) != 1 || recipients[0].Address != m.to {
		t.Errorf("To: %v, %v, want %s", recipients, err, m.to)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
	if want := "验证码 / Your verification code"; subject != want {
		t.Errorf("Subject: %q, %v, want %q", subject, err, want)
	}
	if encoding := message.Header.Get("Content-Transfer-Encoding"); encoding != "quoted-printable" {
		t.Fatalf("the encoding is %q", encoding)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"您的验证码是 " + code + ",", "Your verification code is " + code + "."} {
		if code == "" || !strings.Contains(string(body), want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

func TestAMailThatIsNotTakenIsAnError(t *testing.T) {
	t.Parallel()
	r := startRelay(t, "nobody@example.com")
	s := mustMailSender(t, r, "sender@example.com")
	if err := s.Send(t.Context(), "nobody@example.com", "123456"); err == nil {
		t.Error("a refused recipient is no error")
	}
	r.Close()
	if err := s.Send(t.Context(), "bob@example.com", "123456"); err == nil {
		t.Error("a relay that is down is no error")
	}
}

func TestAMailSenderIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ addr, from, fault string }{
		{"localhost", "a@example.com", "-smtp localhost: want host:port"},
		{"localhost:smtp", "a@example.com", "-smtp localhost:smtp: the port"},
		{"localhost:70000", "a@example.com", "-smtp localhost:70000"},
		{":25", "a@example.com", "-smtp :25"},
		{"localhost:25", "nobody", "-from nobody"},
	} {
		if _, err := newMailSender(c.addr, c.from); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s, %s: %v, want %q", c.addr, c.from, err, c.fault)
		}
	}
}

func TestAnAddressIsWhatAMailerReadsAsItself(t *testing.T) {
	t.Parallel()
	good := []string{"6888@example.com", "Bob@Example.com", "a.b+c@example.co.uk", "用户@例子.中国", strings.Repeat("a", maxAddress-12) + "@example.com"}
	bad := []string{"", "bob", "@example.com", "bob@", "Bob <bob@example.com>", "<bob@example.com>", "bob@example.com ",
		"bob@example.com,eve@example.com", "group: bob@example.com;", `"bob"@example.com`, "bob(x)@example.com",
		"bob@example.com\r\nBcc: eve@example.com", strings.Repeat("a", maxAddress-11) + "@example.com"}
	for _, address := range slices.Concat(good, bad) {
		if got, want := isAddress(address), slices.Contains(good, address); got != want {
			t.Errorf("isAddress(%q) = %v, want %v", address, got, want)
		}
	}
}

func mustMailSender(t *testing.T, r *relay, from string) *mailSender {
	t.Helper()
	s, err := newMailSender(r.Addr().String(), from)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
