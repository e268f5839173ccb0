package keyexpr_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

const allNames = `
  names: body.…, cookie("…"), form.…, header("…"), ip, params.…, query.…, request.…, route, vars.…, ` +
	`email(s), int(x), len(x), lower(s), prefix(ip, bits), split(s, separator), string(x), trim(s), upper(s)`

const requestNames = `
  names: request.host, request.method, request.path, request.proto, request.remoteAddr`

// Each expression is followed by all that its author sees.
func TestAWrongExpressionShowsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ expression, want string }{

		{"", `the key expression is empty
  write what to count by, for example ip or body.email; "global" counts all requests together`},
		{"emial", `1:1: unknown name "emial"
    emial
    ^
  did you mean "email"?` + allNames},
		{"emial(body.x)", `1:1: unknown function "emial"
    emial(body.x)
    ^
  did you mean "email"?` + allNames},
		{"lower(email)", `1:7: email is a function
    lower(email)
          ^
  write email(s)`},
		{"body.x + bdy.y", `1:10: unknown name "bdy"
    body.x + bdy.y
             ^
  did you mean "body.y"?` + allNames},
		{"user.id", `1:1: unknown name "user"
    user.id
    ^
  did you mean "vars.user.id" (left by the application) or "body.user.id" (of the JSON body)?` + allNames},
		{"usr", `1:1: unknown name "usr"
    usr
    ^` + allNames},
		{"req.method", `1:1: unknown name "req"
    req.method
    ^
  did you mean "request.method"?` + allNames},
		{"headers.x", `1:1: unknown name "headers"
    headers.x
    ^
  did you mean header("x")?` + allNames},
		{"url", `1:1: unknown name "url"
    url
    ^
  did you mean "request.path"?` + allNames},
		{"json.email", `1:1: unknown name "json"
    json.email
    ^
  did you mean "body.email"?` + allNames},
		{"keys.id", `1:1: unknown name "keys"
    keys.id
    ^
  did you mean "vars.id"?` + allNames},
		{"let x = ip; xx", `1:13: unknown name "xx"
    let x = ip; xx
                ^
  names: body.…, cookie("…"), form.…, header("…"), ip, params.…, query.…, request.…, route, vars.…, email(s), int(x), len(x), lower(s), prefix(ip, bits), split(s, separator), string(x), trim(s), upper(s), x`},
		{"(let x = ip; x) + x", `1:19: unknown name "x"
    (let x = ip; x) + x
                      ^` + allNames},
		{"request.metod", `1:9: request has no member "metod"
    request.metod
            ^
  did you mean "request.method"?` + requestNames},
		{"request.url", `1:9: request has no member "url"
    request.url
            ^
  did you mean "request.path"?` + requestNames},
		{"request", `1:1: request is not a value to count by
    request
    ^
  name a member: request.host, request.method, request.path, request.proto, request.remoteAddr`},
		{"request[ip]", `1:9: a member of request is named by a constant
    request[ip]
            ^`},
		{"request.host.x", `1:14: request.host is text; it has no members
    request.host.x
                 ^`},
		{"body", `1:1: body is not a value to count by
    body
    ^
  name a member: body.name`},
		{"form", `1:1: form is not a value to count by
    form
    ^
  name a member: form.name`},
		{"body[ip]", `1:6: a member of body is named by a constant: text, or a number from 0
    body[ip]
         ^`},
		{"body[-1]", `1:6: a member of body is named by a constant: text, or a number from 0
    body[-1]
         ^`},
		{"body.a[route].b", `1:8: a member of body is named by a constant: text, or a number from 0
    body.a[route].b
           ^`},
		{"query[0]", `1:7: query is not a list
    query[0]
          ^
  write query.name`},
		{"vars[0]", `1:6: vars is not a list
    vars[0]
         ^
  write vars.name`},
		{"query.a.b", `1:9: query.a is text; it has no members
    query.a.b
            ^`},
		{"ip.x", `1:4: ip is text; it has no members
    ip.x
       ^`},
		{"header", `1:1: header is a function
    header
    ^
  write header("Name")`},
		{"header.X", `1:1: header is a function
    header.X
    ^
  write header("Name")`},
		{"header()", `1:1: header takes one name in quotes
    header()
    ^`},
		{"header(ip)", `1:8: header takes one name in quotes
    header(ip)
           ^`},
		{`header("a b")`, `1:8: "a b" cannot be the name of a header
    header("a b")
           ^`},
		{`cookie("a;b")`, `1:8: "a;b" cannot be the name of a cookie
    cookie("a;b")
           ^`},
		{"lower", `1:1: lower is a function
    lower
    ^
  write lower(s)`},
		{"lower()", `1:1: lower takes 1 argument, not 0
    lower()
    ^
  write lower(s)`},
		{"trim()", `1:1: trim takes 1 or 2 arguments, not 0
    trim()
    ^
  write trim(s) or trim(s, cutset)`},
		{"lower(ip, ip)", `1:1: lower takes 1 argument, not 2
    lower(ip, ip)
    ^
  write lower(s)`},
		{"lower(5)", `1:7: lower takes string, not int
    lower(5)
          ^`},
		{"lwer(ip)", `1:1: unknown function "lwer"
    lwer(ip)
    ^
  did you mean "lower"?` + allNames},
		{"toLowerCase(ip)", `1:1: unknown function "toLowerCase"
    toLowerCase(ip)
    ^
  did you mean "lower"?` + allNames},
		{"ip()", `1:1: ip is not a function
    ip()
    ^`},
		{"vars.user.Delete()", `1:11: only the functions of key expressions can be called, not the methods of a value
    vars.user.Delete()
              ^`},
		{"request.Body.Close()", `1:14: only the functions of key expressions can be called, not the methods of a value
    request.Body.Close()
                 ^`},
		{`header("X").foo()`, `1:13: only the functions of key expressions can be called, not the methods of a value
    header("X").foo()
                ^`},
		{"now()", `1:1: unknown function "now"
    now()
    ^` + allNames},
		{"#email.email", `1:1: unexpected "#"
    #email.email
    ^
  names have no #: write body.email for a member of the JSON body`},
		{"#email", `1:1: unexpected "#"
    #email
    ^
  names have no #: write body.email for a member of the JSON body`},
		{"[#user.id, ip]", `1:2: unexpected "#"
    [#user.id, ip]
     ^
  names have no #: write body.id for a member of the JSON body`},
		{"#ip", `1:1: unexpected "#"
    #ip
    ^
  names have no #: write ip`},
		{"$env", `1:1: $env is not available
    $env
    ^`},
		{"$env.ip", `1:1: $env is not available
    $env.ip
    ^`},
		{"__text(0)", `1:1: unknown function "__text"
    __text(0)
    ^` + allNames},
		{"let __a = 1; __a", `1:5: __a is not available
    let __a = 1; __a
        ^
  choose another name`},
		{"let body = 1; body", `1:5: body already has a meaning
    let body = 1; body
        ^
  choose another name`},
		{"let x = 1; let x = 2; x", `1:16: x already has a meaning
    let x = 1; let x = 2; x
                   ^
  choose another name`},
		{"map(body.a, #)", `1:1: map(…) is not available: a key expression has no loops
    map(body.a, #)
    ^`},
		{"sum(body.a)", `1:1: sum(…) is not available: a key expression has no loops
    sum(body.a)
    ^`},
		{"1..3", `1:2: ranges are not available
    1..3
     ^`},
		{"ip matches route", `1:12: matches takes a pattern in quotes: it is compiled with the expression
    ip matches route
               ^`},
		{`ip matches "("`, "1:4: error parsing regexp: missing closing ): `(`\n    ip matches \"(\"\n       ^"},
		{"nil", `1:1: nil is not a key: every request without one would share it
    nil
    ^`},
		{`""`, `1:1: an empty text is not a key
    ""
    ^`},
		{"1.5", `1:1: a fraction is not a key
    1.5
    ^`},
		{"[]", `1:1: a list of 0 elements is not a key; it takes 1 to 64
    []
    ^`},
		{"[nil]", `1:2: nil is not a key: every request without one would share it
    [nil]
     ^`},
		{`[ip, ""]`, `1:6: an empty text is not a key
    [ip, ""]
         ^`},
		{`{"a": ip}`, `1:1: a map is not a key
    {"a": ip}
    ^
  to count by several values together, write a list: [a, b]`},
		{`[ip, {"a": ip}]`, `1:6: a map is not a key
    [ip, {"a": ip}]
         ^
  to count by several values together, write a list: [a, b]`},
		{"[[ip]]", `1:2: a list within a list is not a key
    [[ip]]
     ^`},
		{`[split(ip, "."), ip]`, `1:2: a list within a list is not a key
    [split(ip, "."), ip]
     ^`},
		{`route == "" ? ip : nil`, `1:20: nil is not a key: every request without one would share it
    route == "" ? ip : nil
                       ^`},
		{`header("X") ?? ""`, `1:16: an empty text is not a key
    header("X") ?? ""
                   ^`},
		{`b"abc"`, `1:1: bytes are not a key
    b"abc"
    ^
  write it without the b`},
		{"ip; route", `1:1: a key expression is one expression, not several
    ip; route
    ^
  to count by several values together, write a list: [a, b]`},
		{"ip ?? route", `1:4: the left side of ?? is never nil, so the right side is never used
    ip ?? route
       ^`},
		{`lower(header("X")) ?? ip`, `1:20: the left side of ?? is never nil, so the right side is never used
    lower(header("X")) ?? ip
                       ^
  ?? goes inside the function: lower(a ?? b)`},
		{"ip +", `1:5: the key expression ends too early
    ip +
        ^`},
		{`(ip
`, `1:4: the key expression ends too early
    (ip
       ^`},
		{"ip = route", `1:4: unexpected "="
    ip = route
       ^
  compare with ==`},
		{"ip)", `1:3: unexpected ")"
    ip)
      ^`},
		{`"abc`, `1:5: the text is not closed
    "abc
        ^`},
		{"ip + 1", `1:4: invalid operation: + (mismatched types string and int)
    ip + 1
       ^`},
		{"ip ? 1 : 2", `1:1: non-bool expression (type string) used as condition
    ip ? 1 : 2
    ^`},
		{"ip @ route", `1:4: unrecognized character: U+0040 '@'
    ip @ route
       ^`},
		{`"名前é" + ipp`, `1:9: unknown name "ipp"
    "名前é" + ipp
              ^
  did you mean "ip"?` + allNames},
		{"\tip + ipp", "1:7: unknown name \"ipp\"\n    \tip + ipp\n    \t     ^\n  did you mean \"ip\"?" + allNames},
		{`ip +
  bdy.b +

  route`, `2:3: unknown name "bdy"
    ip +
      bdy.b +
      ^
      route
  did you mean "body.b"?` + allNames},
		{"prefix(ip, 7)", `1:12: prefix cannot keep 7 bits of an address
    prefix(ip, 7)
               ^
  8 to 32 bits apply to IPv4, 33 to 128 to IPv6`},
		{"prefix(ip, 129)", `1:12: prefix cannot keep 129 bits of an address
    prefix(ip, 129)
               ^
  8 to 32 bits apply to IPv4, 33 to 128 to IPv6`},
		{`prefix(ip, "24")`, `1:12: prefix takes int, not string
    prefix(ip, "24")
               ^`},
		{"1 % 0", `1:3: integer divide by zero
    1 % 0
      ^`},
		{`header("X") ?? ip == "a"`, `1:19: ?? does not mix with other operators
    header("X") ?? ip == "a"
                      ^
  write parentheses: (a ?? b) == c`},
		{"99999999999999999999", `1:20: invalid integer literal
    99999999999999999999
                       ^`},
		{"[1, 2][5]", `1:7: index out of range: 5 (array length is 2)
    [1, 2][5]
          ^`},
		{`int("x")`, `1:1: the key expression never yields a key: its value is not a whole number
    int("x")
    ^`},
		{`email("nobody")`, `1:1: the key expression never yields a key: its value is not an e-mail address
    email("nobody")
    ^`},
		{`prefix("x", 24)`, `1:1: the key expression never yields a key: its value is not an IP address
    prefix("x", 24)
    ^`},
	} {
		_, err := keyexpr.Compile(row.expression, everything)
		if _, ok := errors.AsType[*keyexpr.CompileError](err); !ok {
			t.Errorf("%q: %v, want a CompileError", row.expression, err)
			continue
		}
		if want := "keyexpr: " + row.want; err.Error() != want {
			t.Errorf("%q:\n--- got\n%v\n--- want\n%s", row.expression, err, want)
		}
	}
}

func TestAFaultHasAPlace(t *testing.T) {
	t.Parallel()
	_, err := keyexpr.Compile("ip +\n\t\"é\" + emial", everything)
	fault, ok := errors.AsType[*keyexpr.CompileError](err)
	if !ok || fault.Line != 2 || fault.Column != 8 || fault.Message != `unknown name "emial"` ||
		fault.Hint != `did you mean "email"?` || !slices.Contains(fault.Names, "ip") {
		t.Errorf("got %+v", fault)
	}
}

func TestWhatTheSurroundingsLackIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		expression string
		config     keyexpr.Config
		want       string
	}{
		{"ip", keyexpr.Config{}, `keyexpr: 1:1: ip is not available: nothing tells the client's address
    ip
    ^
  set keyexpr.Config.ClientIP, or use an adapter that does`},
		{"vars.id", keyexpr.Config{}, `keyexpr: 1:1: vars is not available: nothing hands over values of the application
    vars.id
    ^
  set keyexpr.Config.Vars, or use an adapter that does`},
		{"route", keyexpr.Config{MaxBodyBytes: -1}, `keyexpr: keyexpr.Config.MaxBodyBytes is negative`},
	} {
		if _, err := keyexpr.Compile(row.expression, row.config); err == nil || err.Error() != row.want {
			t.Errorf("%s:\n got %v\nwant %s", row.expression, err, row.want)
		}
	}
	compileWith(t, `[header("X") ?? body.a, form.a, query.a, params.a, route, cookie("c")]`, keyexpr.Config{})
}

func TestTheLengthOfAnExpressionIsBounded(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		strings.Repeat("(", 4097):                                          "the key expression is 4097 bytes long; at most 4096 are allowed",
		strings.Repeat("(", 3<<20):                                         "the key expression is 3145728 bytes long; at most 4096 are allowed",
		strings.Repeat("(", 4096):                                          "the key expression ends too early",
		strings.Repeat("!", 4096):                                          "the key expression ends too early",
		strings.Repeat("-", 4096):                                          "the key expression ends too early",
		strings.Repeat("[", 2048) + strings.Repeat("]", 2048):              "the key expression has too many parts; at most 500 are allowed",
		strings.Repeat("ip+", 400) + "ip":                                  "the key expression has too many parts; at most 500 are allowed",
		"[" + strings.Repeat("ip,", 65) + "]":                              "a list of 65 elements is not a key; it takes 1 to 64",
		"ip\xff":                                                           "the key expression is not valid UTF-8",
		strings.Repeat(" ", 2000) + "ipp" + strings.Repeat(" ", 2000):      `unknown name "ipp"`,
		strings.Repeat("\n", 100) + "ipp" + strings.Repeat("\n + ip", 100): `unknown name "ipp"`,
	} {
		_, err := keyexpr.Compile(expression, everything)
		fault, ok := errors.AsType[*keyexpr.CompileError](err)
		if !ok || fault.Message != want {
			t.Errorf("%.20q…: %v, want %s", expression, err, want)
		} else if len(fault.Error()) > 1000 {
			t.Errorf("%.20q…: the error is %d bytes long", expression, len(fault.Error()))
		}
	}
	compileWith(t, strings.Repeat("(", 2000)+"ip"+strings.Repeat(")", 2000), everything)
}

func TestACallbackOfTheConfigIsNotCalledWhileCompiling(t *testing.T) {
	t.Parallel()
	compileWith(t, "ip", keyexpr.Config{ClientIP: func(*http.Request) (string, error) { t.Error("called"); return "", nil }})
}
