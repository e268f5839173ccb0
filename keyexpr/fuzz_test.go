package keyexpr_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

// FuzzCompile: whatever is written, Compile says what is wrong or yields a
// program, and the program yields a key or says why not. Nothing panics, and no
// part is ever empty.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`body.a.b[0]`, `[ip, route]`, `header("X") ?? ip`, `let x = body?.a; x`, `#a.b`, `$env`, `map(body.a, # > 1)`, `1..2`, `a matches b`,
		`"é` + "\n" + `" + emial`, `((((`, `{"a": 1}[query.a]`, `prefix(ip, 24)`, `email(query.a) | lower()`, `if true {1} else {2}`, `body.a[1:2]`,
		`vars.user?.name ?? form.a ?? cookie("c")`, `not (ip in ["a"]) ? 1e3 : -0x1f`, `int(query.a) ** 2 % 3`, `::lower(ip)`, `b"x"`, `/* c */ ip // d`,
		`string(vars.list)`, `len(vars.user)`, `[vars.user.name, vars.list[0], nil]`, "`raw`", `"\u00e9\x41"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 4<<10 {
			return
		}
		p, err := keyexpr.Compile(expression, everything)
		if err != nil {
			fault, ok := errors.AsType[*keyexpr.CompileError](err)
			if !ok || strings.Contains(err.Error(), "goroutine ") || fault.Message == "" {
				t.Fatalf("%q: %v", expression, err)
			}
			return
		}
		r := httptest.NewRequest("POST", "/p?a=1&b=", strings.NewReader(`{"a":{"b":["x",{"c":1.5}]},"email":"a@b.c"}`))
		src := &request{http: r, route: "/p", params: map[string]string{"id": "7"}, vars: map[string]any{
			"user": map[string]any{"name": "n", "id": 7, "nil": nil}, "list": []any{1, "2"}, "f": func() {},
		}}
		key, err := p.Key(src, nil)
		if _, ok := errors.AsType[*keyexpr.KeyError](err); err != nil && !ok {
			t.Fatalf("%q: %v", expression, err)
		}
		if err == nil && len(key) == 0 {
			t.Fatalf("%q yields no part", expression)
		}
		for _, part := range key {
			if part == "" || part == "<nil>" && !strings.Contains(expression, part) {
				t.Fatalf("%q yields %q", expression, key)
			}
		}
	})
}
