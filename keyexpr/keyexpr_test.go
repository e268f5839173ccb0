package keyexpr_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

// request is a Source written down as a literal.
type request struct {
	http   *http.Request
	route  string
	params map[string]string
	vars   map[string]any
	kept   []byte
	asked  []string // what it was asked for besides the request itself, in order
}

func (r *request) Request() *http.Request { return r.http }

func (r *request) Route() string {
	r.asked = append(r.asked, "route")
	return r.route
}

func (r *request) Param(name string) (string, bool) {
	r.asked = append(r.asked, "params."+name)
	value, ok := r.params[name]
	return value, ok
}

func (r *request) Var(name string) (any, bool) {
	r.asked = append(r.asked, "vars."+name)
	value, ok := r.vars[name]
	return value, ok
}

func (r *request) Body() ([]byte, bool) {
	r.asked = append(r.asked, "body")
	return r.kept, r.kept != nil
}

// everything is a Config in which every name works. ip is the remote address
// without its port.
var everything = keyexpr.Config{
	Vars: true,
	ClientIP: func(r *http.Request) (string, error) {
		host, _, ok := strings.Cut(r.RemoteAddr, ":")
		if !ok {
			return "", errors.New("no port in " + r.RemoteAddr)
		}
		return host, nil
	},
}

func compile(t testing.TB, expression string) *keyexpr.Program {
	t.Helper()
	return compileWith(t, expression, everything)
}

func compileWith(t testing.TB, expression string, config keyexpr.Config) *keyexpr.Program {
	t.Helper()
	p, err := keyexpr.Compile(expression, config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(target string) *request { return &request{http: httptest.NewRequest("GET", target, nil)} }

func post(contentType, body string) *request {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return &request{http: r}
}

func postJSON(body string) *request { return post("application/json", body) }

func postForm(body string) *request { return post("application/x-www-form-urlencoded", body) }

func with(vars map[string]any) *request {
	r := get("/")
	r.vars = vars
	return r
}

func withHeader(name, value string) *request {
	r := get("/")
	r.http.Header.Set(name, value)
	return r
}

// wantKey checks the parts of the key.
func wantKey(t *testing.T, expression string, r *request, want ...string) {
	t.Helper()
	key, err := compile(t, expression).Key(r, nil)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	if !slices.Equal(key, want) {
		t.Fatalf("%s yields %q, want %q", expression, key, want)
	}
}

// wantFault checks that there is no key, and why.
func wantFault(t *testing.T, expression string, r *request, problem keyexpr.Problem, part, detail string) *keyexpr.KeyError {
	t.Helper()
	key, err := compile(t, expression).Key(r, []string{"before"})
	failed, ok := errors.AsType[*keyexpr.KeyError](err)
	if !ok {
		t.Fatalf("%s yields %q, %v; want a KeyError", expression, key, err)
	}
	if !slices.Equal(key, []string{"before"}) {
		t.Errorf("%s left the parts as %q", expression, key)
	}
	if failed.Problem != problem || failed.Part != part || failed.Detail() != detail {
		t.Errorf("%s:\n got %v of %s: %s\nwant %v of %s: %s", expression,
			failed.Problem, failed.Part, failed.Detail(), problem, part, detail)
	}
	if failed.Expression != expression {
		t.Errorf("the error is of %q, want %q", failed.Expression, expression)
	}
	return failed
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
