package main

import (
	"context"
	"log/slog"
)

// Sender hands a code to the owner of an address. Its error means that nobody knows whether the code arrived.
type Sender interface {
	Send(ctx context.Context, address, code string) error
}

func newSender(c config) (Sender, error) {
	if c.smtpAddr == "" {
		return logSender{c.logger}, nil
	}
	return newMailSender(c.smtpAddr, c.from)
}

// logSender shows the code to whoever reads the log: for trying things out.
type logSender struct{ logger *slog.Logger }

func (s logSender) Send(ctx context.Context, address, code string) error {
	s.logger.InfoContext(ctx, "verification code", "address", address, "code", code)
	return nil
}
