package main

import (
	"context"
	"log/slog"
	"net/mail"
)

// service is the application. It knows no framework and no limit: those stand beside its handlers.
//
// One string is three things: the limiter's key (body.email), the key of the codeStore, and the recipient of the
// mail. It must stay so. If codes were looked up by a canonical form, say in lower case, but attempts counted as
// they are spelled, then each spelling of a victim's address would be another five guesses at the same code; and if
// the mailer read another address out of it than is counted, one mailbox could be flooded under many keys. So the
// service changes nothing in the address, and refuses one that a mailer would read differently. Whoever wants
// spellings counted together writes email(body.email), and uses that same form here.
type service struct {
	codes  *codeStore
	sender Sender
	logger *slog.Logger
}

type sendRequest struct {
	Email string `json:"email"`
}

type verifyRequest struct {
	Email string `json:"email"`
	Code  string `json:"code"`
}

// send makes a new code for the address, in place of any before, and mails it.
func (s *service) send(ctx context.Context, in sendRequest) answer {
	if !isAddress(in.Email) {
		return badAddress
	}
	code := newCode()
	if !s.codes.put(in.Email, code) {
		return tooManyCodes
	}
	if err := s.sender.Send(ctx, in.Email, code); err != nil {
		// The code stays: a relay that did not confirm may have taken the mail all the same.
		s.logger.Error("a code was not sent", "err", err)
		return notSent
	}
	return success
}

// verify uses up the code of the address. It does not tell a wrong code from none: that would tell who has asked
// for one.
func (s *service) verify(in verifyRequest) answer {
	switch {
	case !isAddress(in.Email):
		return badAddress
	case !s.codes.use(in.Email, in.Code):
		return badCode
	}
	return success
}

// maxAddress is the longest path of RFC 5321, section 4.5.3.1.3, without its brackets.
const maxAddress = 254

// isAddress reports whether s is an address and nothing else: no name, no comment, no quotes, no space around it.
func isAddress(s string) bool {
	if len(s) > maxAddress {
		return false
	}
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}
