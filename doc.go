// Package sash declares exact sliding-window rate limits on HTTP handlers, as an annotation does: the limit
// stands beside the handler, and the handler knows nothing of it.
//
//	limit := ginmw.Decorator{Limiter: lim}
//	r.POST("/send/code", limit.SlidingWindowLimit("body.email", time.Minute, 3), sendCode)
//
// No interval of 60 s, wherever it starts, ever sees a fourth request for that e-mail: in one process, or in a
// thousand that share a Redis. What is given up for it: an exact log costs memory in proportion to
// MaxRequests, for every key that is active.
//
// This package holds the declaration, a Rule, and what the adapters share. An application imports an adapter,
// package ginmw for Gin or package stdmw for net/http; package ratelimit is the limiter without HTTP.
//
// A wrong declaration fails while the server is being wired: an expression that does not compile, a limit of
// zero, two rules of one name with different limits. While it serves, a request from which no key can be made
// is answered with 400, for it must neither pass unlimited nor share a bucket with others of its kind.
package sash
