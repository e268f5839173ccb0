package sash_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ratelimit"
)

type order struct {
	User  struct{ ID int64 } `json:"user"`
	Email string             `json:"email"`
	Items []string           `json:"items"`
}

func ExampleFunc() {
	lim, err := ratelimit.New(ratelimit.Config{})
	if err != nil {
		panic(err)
	}
	defer lim.Close()
	place := sash.Func(lim, sash.Rule{
		Name:    "place-order",
		KeyExpr: "email",
		Limits:  []ratelimit.Limit{{MaxRequests: 1, Window: time.Minute}},
	}, func(_ context.Context, o order) (string, error) {
		return "placed for " + o.Email, nil
	})
	for range 2 {
		reply, err := place(context.Background(), order{Email: "a@example.com"})
		denied, ok := errors.AsType[*sash.DeniedError](err)
		fmt.Println(reply, ok && denied.Decision.RetryAfter > 0)
	}
	// Output:
	// placed for a@example.com false
	//  true
}

func TestAFunctionIsCountedByItsArgument(t *testing.T) {
	t.Parallel()
	lim, _ := ratelimit.New(ratelimit.Config{})
	calls := 0
	f := sash.Func(lim, sash.Rule{Name: "f", KeyExpr: "[user.ID, lower(email)]", Limits: hourly(3), Cost: "len(items)", When: "email != 'root'"},
		func(_ context.Context, o order) (int, error) {
			calls++
			if o.Email == "broken" {
				return 0, errors.New("of its own")
			}
			return calls, nil
		})
	ask := func(email string, items ...string) (int, error) {
		o := order{Email: email, Items: items}
		o.User.ID = 7
		return f(t.Context(), o)
	}
	if n, err := ask("A", "x", "y"); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	_, err := ask("a", "x", "y")
	denied, ok := errors.AsType[*sash.DeniedError](err)
	if !ok || denied.Rule != "f" || denied.Decision.Remaining != 1 || !strings.Contains(err.Error(), "try again in") {
		t.Errorf("got %v", err)
	}
	if _, err = ask("b", "1", "2", "3", "4"); err == nil || !strings.Contains(err.Error(), "costs more than 3/1h0m0s") {
		t.Errorf("got %v", err)
	}
	for range 5 {
		if _, err := ask("root", "x", "y"); err != nil {
			t.Errorf("the rule does not concern root: %v", err)
		}
	}
	if _, err := ask("broken", "x"); err == nil || err.Error() != "of its own" {
		t.Errorf("an error of the function itself: %v", err)
	}
	if _, err := ask("", "x"); err == nil || !strings.Contains(err.Error(), "email") {
		t.Errorf("an argument without a key: %v", err)
	}
	if calls != 7 {
		t.Errorf("the function ran %d times, want 7", calls)
	}
}

func TestAFunctionMayTakeAScalarOrAPointer(t *testing.T) {
	t.Parallel()
	lim, _ := ratelimit.New(ratelimit.Config{})
	byText := sash.Func(lim, sash.Rule{Name: "text", KeyExpr: "in", Limits: hourly(1)},
		func(context.Context, string) (struct{}, error) { return struct{}{}, nil })
	byPointer := sash.Func(lim, sash.Rule{Name: "pointer", KeyExpr: "in.email", Limits: hourly(1)},
		func(context.Context, *order) (struct{}, error) { return struct{}{}, nil })
	for i := range 2 {
		_, textErr := byText(t.Context(), "a")
		_, pointerErr := byPointer(t.Context(), &order{Email: "a"})
		if (textErr != nil) != (i == 1) || (pointerErr != nil) != (i == 1) {
			t.Errorf("call %d: %v; %v", i+1, textErr, pointerErr)
		}
	}
	if _, err := byPointer(t.Context(), nil); err == nil {
		t.Error("nil has no key")
	}
}

func TestAWrongRuleOnAFunctionFailsWhileItIsDeclared(t *testing.T) {
	t.Parallel()
	lim, _ := ratelimit.New(ratelimit.Config{})
	fn := func(context.Context, order) (struct{}, error) { return struct{}{}, nil }
	for _, test := range []struct {
		name string
		rule sash.Rule
		want string
	}{
		{"no name", sash.Rule{KeyExpr: "email", Limits: hourly(1)}, "needs a Name"},
		{"a response", sash.Rule{Name: "r", KeyExpr: "email", Limits: hourly(1), CountIf: "response.status < 500"}, "which a function has not"},
		{"a member that does not exist", sash.Rule{Name: "r", KeyExpr: "emial", Limits: hourly(1)}, `did you mean "email"?`},
		{"a member of a member", sash.Rule{Name: "r", KeyExpr: "user.Idd", Limits: hourly(1)}, `Idd`},
		{"a request", sash.Rule{Name: "r", KeyExpr: "ip", Limits: hourly(1)}, "without a request"},
		{"a struct as the key", sash.Rule{Name: "r", KeyExpr: "user", Limits: hourly(1)}, "not a key"},
		{"no limit", sash.Rule{Name: "r", KeyExpr: "email"}, "unlimited"},
	} {
		if _, err := sash.CompileFunc(lim, test.rule, fn); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q in it", test.name, err, test.want)
		}
	}
	if _, err := sash.CompileFunc[order, int](lim, sash.Rule{Name: "r", KeyExpr: "email", Limits: hourly(1)}, nil); err == nil {
		t.Error("no function to call, and no error")
	}
	defer func() {
		if recover() == nil {
			t.Error("Func did not panic")
		}
	}()
	sash.Func(lim, sash.Rule{}, fn)
}
