package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/wneessen/go-mail"
)

// mailTimeout bounds one mail, from the dial to the relay's last word.
const mailTimeout = 10 * time.Second

// mailSender mails codes through a relay that takes mail without a password: one in the same network.
type mailSender struct {
	from   string
	client *mail.Client // dials anew for each mail, and is safe for concurrent use
}

// newMailSender does not connect: a relay that is down fails mails, not the start.
func newMailSender(addr, from string) (*mailSender, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("-smtp %s: want host:port", addr)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("-smtp %s: the port is not a number", addr)
	}
	if err := mail.NewMsg().From(from); err != nil {
		return nil, fmt.Errorf("-from %s: %w", from, err)
	}
	client, err := mail.NewClient(host,
		mail.WithPort(port),
		// TLS if the relay offers it. To insist would shut out most relays that need no password; across a
		// network that is not yours, use mail.TLSMandatory.
		mail.WithTLSPolicy(mail.TLSOpportunistic),
		mail.WithTimeout(mailTimeout),
	)
	if err != nil {
		return nil, fmt.Errorf("-smtp %s: %w", addr, err)
	}
	return &mailSender{from, client}, nil
}

func (s *mailSender) Send(ctx context.Context, address, code string) error {
	m := mail.NewMsg()
	if err := m.From(s.from); err != nil {
		return err
	}
	if err := m.To(address); err != nil {
		return err
	}
	m.Subject("验证码 / Your verification code")
	m.SetBodyString(mail.TypeTextPlain, fmt.Sprintf(
		"您的验证码是 %s,5 分钟内有效。\r\n\r\nYour verification code is %s. It expires in 5 minutes.\r\n", code, code))
	return s.client.DialAndSendWithContext(ctx, m)
}
