package keyexpr

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// moody is a Source whose methods do what its fields say.
type moody struct {
	bare
	panics any
}

func (m *moody) Var(name string) (any, bool) {
	if m.panics != nil {
		panic(m.panics)
	}
	return m.bare.Var(name)
}

func (m *moody) Param(name string) (string, bool) {
	if m.panics != nil {
		panic(m.panics)
	}
	return "p1", name == "a"
}

// TestAPlainReadIsWhatTheEvaluatorMakesOfIt asks every kind of read twice, with the evaluator and without.
func TestAPlainReadIsWhatTheEvaluatorMakesOfIt(t *testing.T) {
	t.Parallel()
	config := Config{Vars: true, ClientIP: func(r *http.Request) (string, error) {
		if r.RemoteAddr == "" {
			return "", errors.New("no address")
		}
		return r.RemoteAddr, nil
	}}
	sources := []func() Source{}
	for _, panics := range []any{nil, "moody", http.ErrAbortHandler, fmt.Errorf("wrapped: %w", http.ErrAbortHandler)} {
		for _, url := range []string{"/", "/?a=1", "/?a=", "/?a=1&a=2"} {
			for _, body := range []string{"", `{"a":"x"}`, `{"a":""}`, `{"a":1}`, `{"a":null}`, `{"a":["x",""]}`, `{"a":"x","A":"y"}`, `{`, `a=1`} {
				sources = append(sources, func() Source {
					r := httptest.NewRequest("POST", url, strings.NewReader(body))
					if url != "/" {
						r.Header = http.Header{"A": {"h"}, "Cookie": {"a=%41"}, "Content-Type": {"application/json"}}
					}
					if url == "/?a=" {
						r.RemoteAddr, r.Host, r.Header["A"] = "", "", []string{""}
						r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					}
					return &moody{bare{http: r, vars: map[string]any{"a": body}}, panics}
				})
			}
		}
	}
	for _, expression := range []string{`ip`, `route`, `request.path`, `header("A")`, `header("Host")`, `cookie("a")`, `query.a`,
		`params.a`, `params.b`, `form.a`, `body.a`, `body?.a[0]`, `vars.a`, `vars.b`} {
		p, err := Compile(expression, config)
		if err != nil {
			t.Fatal(err)
		}
		if p.plain == nil {
			t.Errorf("%s is one plain read, and is evaluated", expression)
		}
		q, err := Compile(expression, config)
		if err != nil {
			t.Fatal(err)
		}
		q.plain = nil
		for _, source := range sources {
			got, gotErr := p.Key(source(), []string{"before"})
			want, wantErr := q.Key(source(), []string{"before"})
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || said(gotErr) != said(wantErr) {
				t.Errorf("%s: %q, %s\nwant %q, %s", expression, got, said(gotErr), want, said(wantErr))
			}
		}
	}
	for _, expression := range []string{`lower(query.a)`, `query.a ?? "none"`, `[query.a]`, `let a = query.a; a`, `request.path + "x"`} {
		if p, err := Compile(expression, config); err != nil || p.plain != nil {
			t.Errorf("%s: %v, or taken for a plain read", expression, err)
		}
	}
}

// said is all that an error tells.
func said(err error) string {
	e, ok := errors.AsType[*KeyError](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%v; %q; %v; %v; %v; aborts %v", e, e.Detail(), e.Part, e.Problem, e.Err, errors.Is(e, http.ErrAbortHandler))
}
