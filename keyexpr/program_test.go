package keyexpr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/keyexpr"
)

type plan string

type user struct {
	ID    int64
	Plan  plan `expr:"plan"`
	Email *string
	inner string
}

func (u *user) Delete() string { panic("a method of a value was called") }

func TestEveryNameReadsWhatItSays(t *testing.T) {
	t.Parallel()
	address := "a@b.c"
	full := postJSON(`{"a":{"b":[{"c":"deep"},7]},"email":"Bob@example.com"}`)
	full.http.URL.Path, full.http.URL.RawQuery = "/users/7", "page=2&page=2&user-id=9"
	full.http.Header.Set("X-Api-Key", "k1")
	full.http.Header.Add("X-Api-Key", "k2")
	full.http.Header.Set("Cookie", `sid=s1; sid=s2; quoted="s3"; escaped=s%34%2b+; broken=%s5`)
	full.route = "/users/:id"
	full.params = map[string]string{"id": "7"}
	full.vars = map[string]any{
		"user":  &user{ID: 42, Plan: "pro", Email: &address},
		"claim": map[string]any{"sub": "x", "aud": []string{"one", "two"}},
		"uid":   uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
		"a-b":   "dash",
	}
	for expression, want := range map[string]string{
		`body.email`:                  "Bob@example.com",
		`body.a.b[0].c`:               "deep",
		`body["a"]["b"][1]`:           "7",
		`body?.a?.b?.[1]`:             "7",
		`query.page`:                  "2",
		`query["user-id"]`:            "9",
		`params.id`:                   "7",
		`header("x-api-key")`:         "k1",
		`header("Host")`:              "example.com",
		`cookie("sid")`:               "s1",
		`cookie("quoted")`:            "s3",
		`cookie("escaped")`:           "s4+ ",
		`cookie("broken")`:            "%s5",
		`ip`:                          "192.0.2.1",
		`route`:                       "/users/:id",
		`request.method`:              "POST",
		`request.path`:                "/users/7",
		`request?.host`:               "example.com",
		`request["proto"]`:            "HTTP/1.1",
		`request.remoteAddr`:          "192.0.2.1:1234",
		`vars.user.ID`:                "42",
		`vars.user.plan`:              "pro",
		`vars.user.Email`:             "a@b.c",
		`vars.claim.sub`:              "x",
		`vars.claim.aud[1]`:           "two",
		`vars.uid`:                    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		`vars["a-b"]`:                 "dash",
		`lower(body.email)`:           "bob@example.com",
		`upper(params.id + "a")`:      "7A",
		`trim("  x ")`:                "x",
		`trim(query.page, "2") + "."`: ".",
		`split(body.email, "@")[1]`:   "example.com",
		`len(body.a.b)`:               "2",
		`len("héé")`:                  "3",
		`int(query.page) + 1`:         "3",
		`string(vars.user.ID) + "!"`:  "42!",
		`vars.user.plan == "pro" ? vars.user.ID : ip`:            "42",
		`vars.user.plan in ["pro"] ? "paid" : "free"`:            "paid",
		`lower(vars.uid) + vars.user.plan`:                       "6ba7b810-9dad-11d1-80b4-00c04fd430c8pro",
		`email(body.email)`:                                      "bob@example.com",
		`body.email | email()`:                                   "bob@example.com",
		`prefix(ip, 24)`:                                         "192.0.2.0/24",
		`let u = vars.user; u.ID`:                                "42",
		`let e = email(body.email); e`:                           "bob@example.com",
		`body.a.b[1] == 7 ? "yes" : "no"`:                        "yes",
		`if ip == "x" {"a"} else {"b"}`:                          "b",
		`ip in ["192.0.2.1"] ? "own" : ip`:                       "own",
		`ip matches "^192[.]" ? "lan" : ip`:                      "lan",
		`body.email[0:3]`:                                        "Bob",
		`{"pro": "gold"}[vars.user.plan == "pro" ? "pro" : "x"]`: "gold",
		`"global"`: "global",
		`7`:        "7",
		`2.0`:      "2",
		`true`:     "true",
	} {
		t.Run(expression, func(t *testing.T) { wantKey(t, expression, full, want) })
	}
}

func TestWhatTheRequestDoesNotHaveIsNil(t *testing.T) {
	t.Parallel()
	for expression, r := range map[string]*request{
		`header("X-Api-Key") ?? ip`:            get("/"),
		`cookie("sid") ?? ip`:                  get("/"),
		`query.a ?? ip`:                        get("/?b=1"),
		`params.a ?? ip`:                       get("/"),
		`form.a ?? ip`:                         postForm("b=1"),
		`form["a"] ?? query.a ?? ip`:           get("/"),
		`vars.user ?? ip`:                      get("/"),
		`vars.user.id ?? ip`:                   get("/"),
		`vars.user.id.x ?? vars.nil ?? ip`:     with(map[string]any{"user": map[string]any{"id": nil}, "nil": (*user)(nil)}),
		`vars.list[3] ?? ip`:                   with(map[string]any{"list": []int{1}}),
		`vars.count.x ?? ip`:                   with(map[string]any{"count": map[string]int{}}),
		`vars.map ?? ip`:                       with(map[string]any{"map": map[string]int(nil)}),
		`body.a ?? ip`:                         postJSON(`{}`),
		`body.a.b.c ?? ip`:                     postJSON(`{"a":{}}`),
		`body.a.b ?? body.list[1] ?? ip`:       postJSON(`{"a":null,"list":[1]}`),
		`body.x ?? ip`:                         postJSON(``),
		`body.a == nil ? ip : "there"`:         postJSON(`{"a":null}`),
		`(body?.a?.b ?? header("X")) ?? ip`:    postJSON(`{}`),
		`lower(header("X") ?? ip)`:             get("/"),
		`let h = header("X"); h ?? ip`:         get("/"),
		`vars.user?.id ?? ip`:                  with(map[string]any{"user": (*user)(nil)}),
		`vars.plan == "pro" ? vars.user.id:ip`: get("/"),
	} {
		t.Run(expression, func(t *testing.T) { wantKey(t, expression, r, "192.0.2.1") })
	}
}

func TestAnExpressionReadsOnlyWhatItReaches(t *testing.T) {
	t.Parallel()
	const expression = `vars.plan == "pro" ? vars.id : body.email`
	pro := postJSON(`{"email":"a@b.c"}`)
	pro.vars = map[string]any{"plan": "pro", "id": 1}
	body := pro.http.Body
	wantKey(t, expression, pro, "1")
	if pro.http.Body != body || slices.Contains(pro.asked, "body") {
		t.Errorf("the body of a pro user was read: %q", pro.asked)
	}

	free := postJSON(`{"email":"a@b.c"}`)
	wantKey(t, expression, free, "a@b.c")
	if want := []string{"vars.plan", "body"}; !slices.Equal(free.asked, want) {
		t.Errorf("asked for %q, want %q", free.asked, want)
	}

	none := compile(t, `"global"`)
	if key, err := none.Key(nil, nil); err != nil || !slices.Equal(key, []string{"global"}) {
		t.Errorf("a constant needs no request, but yields %q, %v", key, err)
	}
}

func TestTheBodyIsReadOnceInAnEvaluation(t *testing.T) {
	t.Parallel()
	r := postJSON(`{"a":1,"b":2}`)
	wantKey(t, `[body.a, body.b, body.a]`, r, "1", "2", "1")
	if want := []string{"body"}; !slices.Equal(r.asked, want) {
		t.Errorf("asked for %q, want %q", r.asked, want)
	}
}

func TestReadsAreListedForAudits(t *testing.T) {
	t.Parallel()
	p := compile(t, `[header("x-api-key") ?? ip, body.user.tags[0], vars["a-b"], body.user.tags[0], request.host, route]`)
	want := []string{`body.user.tags[0]`, `header("X-Api-Key")`, `ip`, `request.host`, `route`, `vars["a-b"]`}
	if got := p.Reads(); !slices.Equal(got, want) {
		t.Errorf("reads %q, want %q", got, want)
	}
	if p := compile(t, `"global"`); len(p.Reads()) != 0 || p.String() != `"global"` {
		t.Errorf("%s reads %q", p, p.Reads())
	}
}

type celsius int8

func TestValuesThatAreKeys(t *testing.T) {
	t.Parallel()
	text := "text"
	for _, row := range []struct {
		name  string
		value any
		want  []string
	}{
		{"text is itself", "a:b/c", []string{"a:b/c"}},
		{"text keeps its bytes", "a\x00\n\xff", []string{"a\x00\n\xff"}},
		{"a text of another type", plan("pro"), []string{"pro"}},
		{"a pointer to text", &text, []string{"text"}},
		{"the largest uint64", uint64(math.MaxUint64), []string{"18446744073709551615"}},
		{"the least int64", int64(math.MinInt64), []string{"-9223372036854775808"}},
		{"a small number of another type", celsius(-3), []string{"-3"}},
		{"a bool", false, []string{"false"}},
		{"a whole float", float64(1 << 52), []string{"4503599627370496"}},
		{"a whole float32", float32(3), []string{"3"}},
		{"minus nought", math.Copysign(0, -1), []string{"0"}},
		{"a json.Number, canonically", json.Number("10e-1"), []string{"1"}},
		{"a UUID", uuid.UUID{}, []string{"00000000-0000-0000-0000-000000000000"}},
		{"a marshaler behind a pointer", big.NewInt(12), []string{"12"}},
		{"a list", []any{"a", 1, true}, []string{"a", "1", "true"}},
		{"a list of text", []string{"a", "b"}, []string{"a", "b"}},
		{"an array of numbers", [2]uint16{1, 2}, []string{"1", "2"}},
		{"a list of UUIDs", []uuid.UUID{{}}, []string{"00000000-0000-0000-0000-000000000000"}},
		{"a pointer to a list", &[]int{5}, []string{"5"}},
	} {
		t.Run(row.name, func(t *testing.T) { wantKey(t, "vars.v", with(map[string]any{"v": row.value}), row.want...) })
	}
}

type shy struct{}

func (*shy) MarshalText() ([]byte, error) { return nil, errors.New("secret") }

type loud struct{}

func (loud) MarshalText() ([]byte, error) { panic("secret") }

func TestValuesThatAreNoKeys(t *testing.T) {
	t.Parallel()
	const (
		countable = "must be text, a whole number, true or false, or a list of those."
		wrong     = `The value "v" of the request ` + countable
		missing   = `The request has no value "v".`
		empty     = `The value "v" of the request is empty.`
	)
	for _, row := range []struct {
		name    string
		value   any
		problem keyexpr.Problem
		detail  string
	}{
		{"nil", nil, keyexpr.Missing, missing},
		{"a nil pointer", (*user)(nil), keyexpr.Missing, missing},
		{"a nil marshaler", (*big.Int)(nil), keyexpr.Missing, missing},
		{"empty text", "", keyexpr.Empty, empty},
		{"an empty list", []int{}, keyexpr.Empty, empty},
		{"a method", (*user).Delete, keyexpr.WrongType, wrong},
		{"a list with nil in it", []any{"a", nil}, keyexpr.Missing, missing},
		{"a list with empty text in it", []string{""}, keyexpr.Empty, empty},
		{"a list in a list", []any{[]any{"a"}}, keyexpr.WrongType, wrong},
		{"a map", map[string]any{"a": 1}, keyexpr.WrongType, wrong},
		{"a struct", user{}, keyexpr.WrongType, wrong},
		{"bytes", []byte("abc"), keyexpr.WrongType, wrong},
		{"raw JSON", json.RawMessage(`"abc"`), keyexpr.WrongType, wrong},
		{"a function", func() {}, keyexpr.WrongType, wrong},
		{"a channel", make(chan int), keyexpr.WrongType, wrong},
		{"a time", time.Now(), keyexpr.WrongType, wrong},
		{"a pointer to a time", new(time.Time), keyexpr.WrongType, wrong},
		{"NaN", math.NaN(), keyexpr.WrongType, wrong},
		{"infinity", math.Inf(-1), keyexpr.WrongType, wrong},
		{"a fraction", 1.5, keyexpr.WrongType, wrong},
		{"a float that is no longer exact", float64(1 << 53), keyexpr.WrongType, wrong},
		{"a json.Number that is a fraction", json.Number("1.5"), keyexpr.WrongType, wrong},
		{"a marshaler that fails", &shy{}, keyexpr.WrongType, wrong},
		{"a marshaler that panics", loud{}, keyexpr.WrongType, `The value "v" of the request yields no key.`},
		{"a marshaler that panics in a list", []loud{{}}, keyexpr.Unreadable, `The value "v" of the request could not be read.`},
		{"a list of 65", make([]int, 65), keyexpr.WrongType, `The value "v" of the request has more than 64 elements.`},
	} {
		t.Run(row.name, func(t *testing.T) {
			wantFault(t, "vars.v", with(map[string]any{"v": row.value}), row.problem, "vars.v", row.detail)
		})
	}
}

func TestAFaultNamesThePart(t *testing.T) {
	t.Parallel()
	const unnamed = "What this request is counted by "
	lonely := get("/")
	lonely.http.RemoteAddr = "@"
	for _, row := range []struct {
		expression string
		request    *request
		problem    keyexpr.Problem
		part       string
		detail     string
	}{
		{`body.email`, postJSON(`{}`), keyexpr.Missing, `body.email`, `The request body has no member "email".`},
		{`body.a["b c"][1]`, postJSON(`{}`), keyexpr.Missing, `body.a["b c"][1]`, `The request body has no member "a[\"b c\"][1]".`},
		{`body.email`, postJSON(`{"email":""}`), keyexpr.Empty, `body.email`, `The member "email" of the request body is empty.`},
		{`body.email`, postJSON(``), keyexpr.Missing, `body.email`, `The request has no body.`},
		{`form.a`, postForm(``), keyexpr.Missing, `form.a`, `The request has no body.`},
		{`form.a`, postForm(`b=1`), keyexpr.Missing, `form.a`, `The request has no form field "a".`},
		{`header("x-api-key")`, get("/"), keyexpr.Missing, `header("X-Api-Key")`, `The request has no header "X-Api-Key".`},
		{`header("X")`, withHeader("X", ""), keyexpr.Empty, `header("X")`, `The header "X" of the request is empty.`},
		{`cookie("sid")`, get("/"), keyexpr.Missing, `cookie("sid")`, `The request has no cookie "sid".`},
		{`query.a`, get("/?a="), keyexpr.Empty, `query.a`, `The query parameter "a" of the request is empty.`},
		{`params.id`, get("/"), keyexpr.Missing, `params.id`, `The request has no path parameter "id".`},
		{`route`, get("/"), keyexpr.Empty, `route`, `The route of the request is empty.`},
		{`ip`, lonely, keyexpr.Unreadable, `ip`, `The client address of the request could not be told.`},
		{`vars.user.id`, get("/"), keyexpr.Missing, `vars.user.id`, `The request has no value "user.id".`},
		{`vars.user.id`, with(map[string]any{"user": user{}}), keyexpr.WrongType, `vars.user.id`, `The value "user.id" of the request cannot be found in what the server knows.`},
		{`vars.user.inner`, with(map[string]any{"user": user{inner: "x"}}), keyexpr.WrongType, `vars.user.inner`, `The value "user.inner" of the request cannot be found in what the server knows.`},
		{`vars.user.Delete`, with(map[string]any{"user": &user{}}), keyexpr.WrongType, `vars.user.Delete`, `The value "user.Delete" of the request cannot be found in what the server knows.`},
		{`vars.m[65]`, with(map[string]any{"m": map[string]string{"A": "x"}}), keyexpr.WrongType, `vars.m[65]`, `The value "m[65]" of the request cannot be found in what the server knows.`},
		{`header("A") ?? header("B")`, get("/"), keyexpr.Missing, `header("B")`, `The request has no header "B".`},
		{`[ip, header("A")]`, get("/"), keyexpr.Missing, `header("A")`, `The request has no header "A".`},
		{`[header("A"), query.a]`, get("/?a="), keyexpr.Missing, `header("A")`, `The request has no header "A".`},
		{`[ip, query.a]`, get("/?a="), keyexpr.Empty, `query.a`, `The query parameter "a" of the request is empty.`},
		{`let x = route; [x, ip]`, get("/"), keyexpr.Empty, `let x = route; [x, ip]`, unnamed + "is empty."},
		{`"user:" + vars.id`, get("/"), keyexpr.Missing, `vars.id`, `The request has no value "id".`},
		{`lower(header("A"))`, get("/"), keyexpr.Missing, `header("A")`, `The request has no header "A".`},
		{`ip + lower(header("A"))`, get("/"), keyexpr.Missing, `header("A")`, `The request has no header "A".`},
		{`string(body.a)`, postJSON(`{"a":null}`), keyexpr.Missing, `body.a`, `The request body has no member "a".`},
		{`string(body.a)`, postJSON(`{"a":{}}`), keyexpr.WrongType, `body.a`, `The member "a" of the request body must be text, a whole number, true or false, or a list of those.`},
		{`string(body.a)`, postJSON(`{"a":[1]}`), keyexpr.WrongType, `body.a`, `The member "a" of the request body must be text, a whole number, true or false, or a list of those.`},
		{`lower(body.a)`, postJSON(`{"a":1}`), keyexpr.WrongType, `body.a`, `The member "a" of the request body must be text.`},
		{`len(body.a)`, postJSON(`{"a":1}`), keyexpr.WrongType, `body.a`, `The member "a" of the request body has no length.`},
		{`int(query.a)`, get("/?a=1x"), keyexpr.WrongType, `query.a`, `The query parameter "a" of the request is not a whole number.`},
		{`int(query.a)`, get("/?a=9223372036854775808"), keyexpr.WrongType, `query.a`, `The query parameter "a" of the request is not a whole number.`},
		{`email(body.a)`, postJSON(`{"a":"nobody"}`), keyexpr.Malformed, `body.a`, `The member "a" of the request body is not an e-mail address.`},
		{`prefix(header("A"), 24)`, withHeader("A", "300.1.2.3"), keyexpr.Malformed, `header("A")`, `The header "A" of the request is not an IP address.`},
		{`prefix(ip, int(query.a))`, get("/?a=7"), keyexpr.WrongType, `prefix(ip, int(query.a))`, `The length of the address prefix is not between 8 and 128.`},
		{`split(query.a, ",")[1]`, get("/?a=1"), keyexpr.WrongType, `query.a`, `The query parameter "a" of the request yields no key.`},
		{`1 / len(query.a)`, get("/?a="), keyexpr.WrongType, `query.a`, `The query parameter "a" of the request must be text, a whole number, true or false, or a list of those.`},
		{`ip == "x" ? 1 : {"a": "b"}[query.a]`, get("/?a=c"), keyexpr.Missing, `ip == "x" ? 1 : {"a": "b"}[query.a]`, "The request lacks what it is counted by."},
	} {
		t.Run(row.expression+" "+row.problem.String(), func(t *testing.T) {
			wantFault(t, row.expression, row.request, row.problem, row.part, row.detail)
		})
	}
}

func TestAnErrorNeverEchoesTheRequest(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	for _, row := range []struct {
		expression string
		request    *request
	}{
		{`email(body.a)`, postJSON(`{"a":"` + secret + `"}`)},
		{`int(body.a)`, postJSON(`{"a":"` + secret + `"}`)},
		{`prefix(body.a, 24)`, postJSON(`{"a":"` + secret + `"}`)},
		{`body.a`, postJSON(`{"a":` + secret + `}`)},
		{`body.a`, postJSON(`{"A":"` + secret + `"}`)},
		{`body.a`, postJSON(`{"a":{"` + secret + `":1}}`)},
		{`body.a.b`, postJSON(`{"a":"` + secret + `"}`)},
		{`form.a`, postForm(`a=%` + secret)},
		{`"x" + split(query.a, "-")[1]`, get("/?a=" + secret)},
		{`1 + body.a`, postJSON(`{"a":"` + secret + `"}`)},
		{`{"a": {"b": "c"}}[query.a].d`, get("/?a=" + secret)},
		{`vars.v`, with(map[string]any{"v": &shy{}})},
		{`vars.v`, with(map[string]any{"v": errors.New(secret)})},
	} {
		_, err := compile(t, row.expression).Key(row.request, nil)
		failed, ok := errors.AsType[*keyexpr.KeyError](err)
		if !ok {
			t.Errorf("%s: %v, want a KeyError", row.expression, err)
			continue
		}
		if text := failed.Error() + failed.Detail(); strings.Contains(text, secret) || strings.Contains(text, "secret") {
			t.Errorf("%s echoes the request: %s", row.expression, text)
		}
	}
}

func TestTheErrorIsForTheLog(t *testing.T) {
	t.Parallel()
	_, err := compile(t, `lower(body.email)`).Key(postJSON(`{}`), nil)
	const want = `keyexpr: lower(body.email): body.email is missing: The request body has no member "email".`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	cause := errors.New("the proxy lies")
	p := compileWith(t, `ip`, keyexpr.Config{ClientIP: func(*http.Request) (string, error) { return "", cause }})
	if _, err := p.Key(get("/"), nil); !errors.Is(err, cause) {
		t.Errorf("%v does not wrap the cause", err)
	}
	if got := keyexpr.Problem(0).String(); got != "Problem(0)" {
		t.Errorf("the zero Problem is %q", got)
	}
}

func TestAPanicOfTheApplicationIsAnError(t *testing.T) {
	t.Parallel()
	p := compileWith(t, `ip`, keyexpr.Config{ClientIP: func(*http.Request) (string, error) { panic("oops") }})
	for range 3 {
		if _, err := p.Key(get("/"), nil); err == nil {
			t.Fatal("no error")
		}
	}
}

func TestKeyAppends(t *testing.T) {
	t.Parallel()
	key, err := compile(t, `[ip, route]`).Key(&request{http: get("/").http, route: "/x"}, []string{"rule"})
	if want := []string{"rule", "192.0.2.1", "/x"}; err != nil || !slices.Equal(key, want) {
		t.Errorf("got %q, %v, want %q", key, err, want)
	}
	constant := compile(t, `["a", "b"]`)
	first, _ := constant.Key(nil, nil)
	second, _ := constant.Key(nil, nil)
	first[0] = "changed"
	if second[0] != "a" {
		t.Error("two keys share their memory")
	}
}

func TestOneProgramServesManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	p := compile(t, `let e = email(body.email); [e, query.n, header("N") ?? "none"]`)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := fmt.Sprintf("%d-%d", worker, i)
				r := postJSON(`{"email":"U` + n + `@example.com"}`)
				r.http.URL.RawQuery = "n=" + n
				want := []string{"u" + n + "@example.com", n, "none"}
				if i%2 == 0 {
					r.http.Header.Set("N", n)
					want[2] = n
				}
				key, err := p.Key(r, nil)
				if err != nil || !slices.Equal(key, want) {
					t.Errorf("got %q, %v, want %q", key, err, want)
				}
			}
		})
	}
	wg.Wait()
}
