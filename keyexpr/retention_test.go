package keyexpr

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
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
}

// TestNothingOfARequestOutlivesIt holds the one machine of a program, as a pool
// may do for as long as it likes, and lets it evaluate with success and without.
func TestNothingOfARequestOutlivesIt(t *testing.T) {
	for _, expression := range []string{
		`vars.user.ID`,
		`let u = vars.user; let w = [u, body.list, query.a]; w[0].ID + u.ID`,
		`let u = vars.user; [u.ID, body.a]`,
		`let u = vars.user; [u.ID, body.list, query.a, form.x ?? "none"]`,
		`[vars.user, vars.user, vars.user]`,
		`vars.user.ID + vars.user.Large.x`,
		`{"a": vars.user}[query.a] == nil ? 1 : 2`,
		`lower(vars.user)`,
	} {
		p, err := Compile(expression, Config{Vars: true})
		if err != nil {
			t.Fatal(err)
		}
		m := newMachine(&p.compiled)
		p.machines.New = func() any { return m }
		user, request, body := evaluate(p)
		runtime.GC()
		runtime.GC()
		if user.Value() != nil || request.Value() != nil || body.Value() != nil {
			t.Errorf("%s keeps user %v, request %v, body %v", expression,
				user.Value() != nil, request.Value() != nil, body.Value() != nil)
		}
		runtime.KeepAlive(m)
	}
}

type text struct{ *strings.Reader }

func (*text) Close() error { return nil }

//go:noinline
func evaluate(p *Program) (weak.Pointer[account], weak.Pointer[http.Request], weak.Pointer[text]) {
	user := &account{ID: strings.Clone("u1")}
	body := &text{strings.NewReader(`{"a":"x","list":["y"]}`)}
	r := httptest.NewRequest("POST", "/?a=1", nil)
	r.Body, r.ContentLength = body, -1
	_, _ = p.Key(&bare{http: r, vars: map[string]any{"user": user}}, nil)
	return weak.Make(user), weak.Make(r), weak.Make(body)
}
