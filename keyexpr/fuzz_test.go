package keyexpr_test

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

// FuzzCompile: whatever is written, of whatever kind, the compiler says what is
// wrong or yields a program, and the program yields a result or says why not.
// Nothing panics, no part of a key is ever empty, no cost out of range, and no
// choice another.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`body.a.b[0]`, `[ip, route]`, `header("X") ?? ip`, `let x = body?.a; x`, `#a.b`, `$env`, `map(body.a, # > 1)`, `1..2`, `a matches b`,
		`"é` + "\n" + `" + emial`, `((((`, `{"a": 1}[query.a]`, `prefix(ip, 24)`, `email(query.a) | lower()`, `if true {1} else {2}`, `body.a[1:2]`,
		`vars.user?.name ?? form.a ?? cookie("c")`, `not (ip in ["a"]) ? 1e3 : -0x1f`, `int(query.a) ** 2 % 3`, `::lower(ip)`, `b"x"`, `/* c */ ip // d`,
		`string(vars.list)`, `len(vars.user)`, `[vars.user.name, vars.list[0], nil]`, "`raw`", `"\u00e9\x41"`,
		`response.status < 500 && response.header("X") == nil`, `len(recipients) - count`, `not in.urgent`, `in in [in] ? tags : in.user?.next.id`,
		`let u = user; u.next ?? "pro"`, `extra.a[0].b`, `labels["a"] not in ["pro"]`, `plan == "x" ? "pro" : "free"`, `{in: in}`, `(urgent ? in : in).User.ID`,
	} {
		f.Add(seed)
	}
	all := ofHandler[SendRequest]()
	all.Response = true
	configs := []keyexpr.Config{everything, all, ofFunction[SendRequest](), ofFunction[any]()}
	argument := sendRequest()
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 4<<10 {
			return
		}
		for _, config := range configs {
			var src keyexpr.Source = call{&argument}
			if !config.NoRequest {
				src = fuzzed{fuzzRequest(), &argument}
			}
			fuzzKey(t, expression, config, src)
			fuzzOthers(t, expression, config, src)
		}
	})
}

// fuzzed is a Source of everything.
type fuzzed struct {
	*request
	argument any
}

func (f fuzzed) Argument() any               { return f.argument }
func (f fuzzed) Status() int                 { return 404 }
func (f fuzzed) ResponseHeader() http.Header { return http.Header{"X": {"pro"}} }

func fuzzRequest() *request {
	r := httptest.NewRequest("POST", "/p?a=1&b=", strings.NewReader(`{"a":{"b":["x",{"c":1.5}]},"email":"a@b.c"}`))
	r.Header.Set("Content-Type", "application/json")
	return &request{http: r, route: "/p", params: map[string]string{"id": "7"}, vars: map[string]any{
		"user": map[string]any{"name": "n", "id": 7, "nil": nil}, "list": []any{1, "2"}, "f": func() {},
	}}
}

// compiles tells whether an expression compiled, and fails if the fault is not one of ours.
func compiles(t *testing.T, expression string, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	fault, ok := errors.AsType[*keyexpr.CompileError](err)
	if !ok || strings.Contains(err.Error(), "goroutine ") || fault.Message == "" || strings.Contains(err.Error(), "𝚒𝚗") && !strings.Contains(expression, "𝚒𝚗") {
		t.Fatalf("%q: %v", expression, err)
	}
	return false
}

// yields tells whether an evaluation succeeded, and fails if the fault is not one of ours.
func yields(t *testing.T, expression string, err error) bool {
	t.Helper()
	if _, ok := errors.AsType[*keyexpr.KeyError](err); err != nil && !ok {
		t.Fatalf("%q: %v", expression, err)
	}
	return err == nil
}

func fuzzKey(t *testing.T, expression string, config keyexpr.Config, src keyexpr.Source) {
	t.Helper()
	p, err := keyexpr.Compile(expression, config)
	if !compiles(t, expression, err) {
		return
	}
	key, err := p.Key(src, nil)
	if yields(t, expression, err) && len(key) == 0 {
		t.Fatalf("%q yields no part", expression)
	}
	for _, part := range key {
		if part == "" || part == "<nil>" && !strings.Contains(expression, part) {
			t.Fatalf("%q yields %q", expression, key)
		}
	}
}

func fuzzOthers(t *testing.T, expression string, config keyexpr.Config, src keyexpr.Source) {
	t.Helper()
	if c, err := keyexpr.CompileCondition(expression, config); compiles(t, expression, err) {
		_, err := c.Holds(src)
		yields(t, expression, err)
	}
	if c, err := keyexpr.CompileCost(expression, config); compiles(t, expression, err) {
		if n, err := c.Of(src); yields(t, expression, err) && (n < 0 || n > math.MaxInt32) {
			t.Fatalf("%q costs %d", expression, n)
		}
	}
	if c, err := keyexpr.CompileChoice(expression, []string{"pro", "free"}, config); compiles(t, expression, err) {
		if chosen, err := c.Of(src); yields(t, expression, err) && chosen != "pro" && chosen != "free" {
			t.Fatalf("%q chooses %q", expression, chosen)
		}
	}
}
