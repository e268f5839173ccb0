package keyexpr_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

// again is a body that can be read again and again.
type again struct{ *strings.Reader }

func (again) Close() error { return nil }

func BenchmarkKey(b *testing.B) {
	const body = `{"name":"somebody","email":"6888@example.com","subject":"code","language":"en","client":"web-1.2.3"}`
	for _, row := range []struct{ name, expression, want string }{
		{"constant", `"global"`, "global"},
		{"ip", `ip`, "192.0.2.1"},
		{"header", `header("X-Api-Key")`, "k1"},
		{"query", `query.page`, "2"},
		{"body", `body.email`, "6888@example.com"},
		{"email of body", `email(body.email)`, "6888@example.com"},
		{"composite list", `[vars.user.id, ip]`, "42"},
		{"ternary", `vars.user.plan == "pro" ? vars.user.id : body.email`, "42"},
	} {
		b.Run(row.name, func(b *testing.B) {
			p := compile(b, row.expression)
			reader := strings.NewReader(body)
			r := httptest.NewRequest("POST", "/?page=2", again{reader})
			r.ContentLength = int64(len(body))
			r.Header = http.Header{"X-Api-Key": {"k1"}, "Content-Type": {"application/json"}}
			src := &silent{request{http: r, vars: map[string]any{"user": map[string]any{"id": 42, "plan": "pro"}}}}
			parts := make([]string, 0, 4)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = reader.Seek(0, io.SeekStart)
				r.Body = again{reader}
				key, err := p.Key(src, parts)
				if err != nil || key[0] != row.want {
					b.Fatal(key, err)
				}
			}
		})
	}
}

func BenchmarkCondition(b *testing.B) {
	for _, row := range []struct {
		expression string
		config     keyexpr.Config
		want       bool
	}{
		{`true`, everything, true},
		{`request.method == "POST"`, everything, true},
		{`vars.user != nil`, everything, true},
		{`response.status < 500`, answered(), true},
	} {
		b.Run(row.expression, func(b *testing.B) {
			c := condition(b, row.expression, row.config)
			r := httptest.NewRequest("POST", "/", nil)
			src := &done{silent{request{http: r, vars: map[string]any{"user": &user{}}}}}
			b.ReportAllocs()
			for b.Loop() {
				if holds, err := c.Holds(src); err != nil || holds != row.want {
					b.Fatal(holds, err)
				}
			}
		})
	}
}

func BenchmarkCost(b *testing.B) {
	const body = `{"subject":"code","recipients":["a@example.com","b@example.com","c@example.com"]}`
	c := cost(b, `len(body.recipients)`, everything)
	reader := strings.NewReader(body)
	r := httptest.NewRequest("POST", "/", again{reader})
	r.ContentLength = int64(len(body))
	src := &silent{request{http: r}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = reader.Seek(0, io.SeekStart)
		r.Body = again{reader}
		if n, err := c.Of(src); err != nil || n != 3 {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkArgument(b *testing.B) {
	in := sendRequest()
	var src keyexpr.Source = call{&in}
	for _, row := range []struct{ expression, want string }{
		{`email`, "Bob@example.com"},
		{`email(email)`, "bob@example.com"},
		{`user.id`, "42"},
		{`[tenant, user.id]`, "acme"},
		{`extra.ptr.id`, "8"},
	} {
		b.Run(row.expression, func(b *testing.B) {
			p := compileWith(b, row.expression, ofFunction[SendRequest]())
			parts := make([]string, 0, 4)
			b.ReportAllocs()
			for b.Loop() {
				if key, err := p.Key(src, parts); err != nil || key[0] != row.want {
					b.Fatal(key, err)
				}
			}
		})
	}
}

// done is a request that has been answered.
type done struct{ silent }

func (*done) Status() int                 { return 200 }
func (*done) ResponseHeader() http.Header { return nil }

// silent does not write down what it was asked for.
type silent struct{ request }

func (s *silent) Var(name string) (any, bool) { value, ok := s.vars[name]; return value, ok }
func (s *silent) Body() ([]byte, bool)        { return nil, false }
