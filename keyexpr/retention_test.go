package keyexpr

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"
)

// bare is a Source that has variables only.
type bare struct {
	http *http.Request
	vars map[string]any
}

func (b *bare) Request() *http.Request      { return b.http }
func (b *bare) Route() string               { return "" }
func (b *bare) Param(string) (string, bool) { return "", false }
func (b *bare) Var(name string) (any, bool) { v, ok := b.vars[name]; return v, ok }
func (b *bare) Body() ([]byte, bool)        { return nil, false }

// account is too large for the allocator to share its block with others.
type account struct {
	ID    string
	Large [1 << 10]byte
	Any   any
}

// Argument, Status and ResponseHeader make it a source of everything.
func (b *bare) Argument() any               { return b.vars["user"] }
func (b *bare) Status() int                 { return 200 }
func (b *bare) ResponseHeader() http.Header { return http.Header{"X": {b.http.URL.RawQuery}} }

// TestNothingOfARequestOutlivesIt holds the one machine of a program, as a pool
// may do for as long as it likes, and lets it evaluate with success and without.
func TestNothingOfARequestOutlivesIt(t *testing.T) {
	config := Config{Vars: true, Response: true, Argument: reflect.TypeFor[*account]()}
	for _, expression := range []string{
		`vars.user.ID`,
		`let u = vars.user; let w = [u, body.list, query.a]; w[0].ID + u.ID`,
		`let u = vars.user; [u.ID, body.a]`,
		`let u = vars.user; [u.ID, body.list, query.a, form.x ?? "none"]`,
		`[vars.user, vars.user, vars.user]`,
		`vars.user.ID + vars.user.Large.x`,
		`{"a": vars.user}[query.a] == nil ? 1 : 2`,
		`lower(vars.user)`,
		`ID`,
		`let u = in; [u.ID, body.a]`,
		`let u = [in, in, response.header("X")]; u[0].ID`,
		`lower(in.Any)`,
		`in.Any`,
		`response.header("X") == "" ? in.Any : in.ID`,
	} {
		p, err := Compile(expression, config)
		if err != nil {
			t.Fatal(err)
		}
		keepsNothing(t, &p.compiled, func(src Source) { _, _ = p.Key(src, nil) })
	}
	for _, expression := range []string{`vars.user`, `in.Any`, `let u = in; let l = [u, body.list]; u.ID in l`, `[vars.user][0].ID == response.header("X")`} {
		c, err := CompileCondition(expression, config)
		if err != nil {
			t.Fatal(err)
		}
		keepsNothing(t, &c.compiled, func(src Source) { _, _ = c.Holds(src) })
	}
	for _, expression := range []string{`vars.user`, `len(body.list)`, `let u = [in, vars.user]; len(u)`} {
		c, err := CompileCost(expression, config)
		if err != nil {
			t.Fatal(err)
		}
		keepsNothing(t, &c.compiled, func(src Source) { _, _ = c.Of(src) })
	}
	u1 := []string{"u1"}
	for _, expression := range []string{`vars.user.ID`, `ID`, `body.list[0] == "y" ? ID : query.a`} {
		c, err := CompileChoice(expression, u1, config)
		if err != nil {
			t.Fatal(err)
		}
		keepsNothing(t, &c.compiled, func(src Source) {
			if chosen, _ := c.Of(src); unsafe.StringData(chosen) != unsafe.StringData(u1[0]) {
				t.Errorf("%s yields %q, but not as it was declared", expression, chosen)
			}
		})
	}
}

func keepsNothing(t *testing.T, c *compiled, evaluate func(Source)) {
	t.Helper()
	m := newMachine(c)
	c.machines.New = func() any { return m }
	user, request, body := lend(evaluate)
	runtime.GC()
	runtime.GC()
	if user.Value() != nil || request.Value() != nil || body.Value() != nil {
		t.Errorf("%s keeps user %v, request %v, body %v", c,
			user.Value() != nil, request.Value() != nil, body.Value() != nil)
	}
	runtime.KeepAlive(m)
}

type text struct{ *strings.Reader }

func (*text) Close() error { return nil }

//go:noinline
func lend(evaluate func(Source)) (weak.Pointer[account], weak.Pointer[http.Request], weak.Pointer[text]) {
	user := &account{ID: strings.Clone("u1")}
	user.Any = user
	body := &text{strings.NewReader(`{"a":"x","list":["y"]}`)}
	r := httptest.NewRequest("POST", "/?a=1", nil)
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = body, -1
	evaluate(&bare{http: r, vars: map[string]any{"user": user}})
	return weak.Make(user), weak.Make(r), weak.Make(body)
}
