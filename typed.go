package sash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
)

// CompileFor is Compile for the rules of a typed handler: their expressions also see the value In that the request
// is bound to, as those of Func do. The limiter then counts by the very value that the handler receives.
func CompileFor[In any](limiter *ratelimit.Limiter, options Options, rules ...Rule) (*Aspect, error) {
	config, err := options.config()
	if err != nil {
		return nil, fmt.Errorf("sash: %w", err)
	}
	config.Argument = reflect.TypeFor[In]()
	return compile(limiter, options, config, rules)
}

// WithArgument is a source whose expressions see in.
func WithArgument(src keyexpr.Source, in any) keyexpr.Source { return bound{src, in} }

type bound struct {
	keyexpr.Source
	in any
}

func (b bound) Argument() any { return b.in }

// WithResponse is a source whose expressions see the response, and the argument if src has one.
func WithResponse(src keyexpr.Source, status int, header http.Header) keyexpr.ResponseSource {
	return response{src, status, header}
}

type response struct {
	keyexpr.Source
	status int
	header http.Header
}

func (r response) Status() int                 { return r.status }
func (r response) ResponseHeader() http.Header { return r.header }

// Argument is that of the Source, which embedding hides.
func (r response) Argument() any {
	if bound, ok := r.Source.(keyexpr.ArgumentSource); ok {
		return bound.Argument()
	}
	return nil
}

// BindError is the error of a request that is not what a typed handler takes. Its Status is 400, or 413 if the body
// is over the cap.
type BindError struct{ Err error }

func (e *BindError) Error() string { return "sash: bind: " + e.Err.Error() }
func (e *BindError) Unwrap() error { return e.Err }

// BindJSON reads a request's body, one JSON document of at most maxBytes, into in. The error is a *BindError.
func BindJSON(w http.ResponseWriter, r *http.Request, maxBytes int64, in any) error {
	if maxBytes <= 0 {
		maxBytes = keyexpr.DefaultMaxBodyBytes
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBytes))
	if err := decoder.Decode(in); err != nil {
		return &BindError{err}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &BindError{errors.New("something follows the JSON document")}
	}
	return nil
}
