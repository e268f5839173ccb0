package keyexpr_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
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
			r.Header.Set("X-Api-Key", "k1")
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

// silent does not write down what it was asked for.
type silent struct{ request }

func (s *silent) Var(name string) (any, bool) { value, ok := s.vars[name]; return value, ok }
func (s *silent) Body() ([]byte, bool)        { return nil, false }
