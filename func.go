package sash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/sashlimit/sash/keyexpr"
	"github.com/sashlimit/sash/ratelimit"
)

// Func declares a rule on a function, as an annotation does on a method. The result calls fn if the rule allows it,
// and else returns a *DeniedError. There is no HTTP in it.
//
//	send := sash.Func(lim, sash.Rule{Name: "send-code", KeyExpr: "email", Limits: …}, service.Send)
//
// The rule's expressions see the argument: its members by their names (email, user.id, as in its JSON), and the
// argument itself as in. They are checked against the type In. A rule on a function needs a Name, since a function
// has no route, and cannot have CountIf or ResetIf, since it has no response.
//
// Func panics on a wrong declaration, as regexp.MustCompile does; CompileFunc returns the error.
func Func[In, Out any](limiter *ratelimit.Limiter, rule Rule, fn func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	limited, err := CompileFunc(limiter, rule, fn)
	if err != nil {
		panic(err)
	}
	return limited
}

// CompileFunc is Func, with an error where Func panics.
func CompileFunc[In, Out any](limiter *ratelimit.Limiter, rule Rule, fn func(context.Context, In) (Out, error)) (func(context.Context, In) (Out, error), error) {
	switch {
	case fn == nil:
		return nil, fmt.Errorf("sash: rule %q: there is no function", rule.Name)
	case rule.Name == "":
		return nil, errors.New("sash: a rule on a function needs a Name: there is no route that tells it from others")
	case rule.CountIf != "" || rule.ResetIf != "":
		return nil, fmt.Errorf("sash: rule %q: CountIf and ResetIf wait for an HTTP response, which a function has not", rule.Name)
	}
	aspect, err := compile(limiter, Options{Unobserved: true}, keyexpr.Config{Argument: reflect.TypeFor[In](), NoRequest: true}, []Rule{rule})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in In) (out Out, err error) {
		work := aspect.begin()
		var v Verdict
		aspect.decide(ctx, argument{in}, work, &v)
		aspect.end(work, &v)
		switch {
		case v.Err != nil:
			return out, fmt.Errorf("sash: rule %q: %w", rule.Name, v.Err)
		case !v.Allowed:
			return out, &DeniedError{Rule: rule.Name, Decision: v.Decision}
		}
		return fn(ctx, in)
	}, nil
}

// DeniedError is the error of a call that a rule denied.
type DeniedError struct {
	Rule     string
	Decision ratelimit.Decision // RetryAfter tells when the call would be allowed
}

// StatusCode is that of a typed handler that returns the error: 429.
func (e *DeniedError) StatusCode() int { return http.StatusTooManyRequests }

func (e *DeniedError) Error() string {
	if e.Decision.Reason == ratelimit.TooCostly {
		return fmt.Sprintf("sash: rule %q denies: the call costs more than %v", e.Rule, e.Decision.Limit)
	}
	return fmt.Sprintf("sash: rule %q denies: %v is exhausted, try again in %v", e.Rule, e.Decision.Limit, e.Decision.RetryAfter)
}

// argument is the source of the expressions of a function. There is no request, and nobody asks for it: those that
// would do not compile.
type argument struct{ in any }

func (a argument) Argument() any             { return a.in }
func (argument) Request() *http.Request      { return nil }
func (argument) Route() string               { return "" }
func (argument) Param(string) (string, bool) { return "", false }
func (argument) Var(string) (any, bool)      { return nil, false }
func (argument) Body() ([]byte, bool)        { return nil, false }
