package keyexpr_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

const (
	members = `
  members: tenant string, trace string, email string, Subject string, user Account, recipients []Account, tags []string, pair [2]int, labels map[string]string, byNumber map[int8]string, extra any, Secret string, "a-b" string, body string, header string, response string, count int, small uint8, ratio float64, urgent bool, at Time, until Time, id UUID, plan plan, number Number, raw []byte, hook func, Other string, Swapped string`
	handlerNames = `
  names: tenant, trace, email, Subject, user, recipients, tags, pair, labels, byNumber, extra, Secret, count, small, ratio, urgent, at, until, id, plan, number, raw, hook, Other, Swapped, in, body.…, cookie("…"), form.…, header("…"), ip, params.…, query.…, request.…, route, vars.…, email(s), int(x), len(x), lower(s), prefix(ip, bits), split(s, separator), string(x), trim(s), upper(s)`
	functionArgNames = `
  names: tenant, trace, email, Subject, user, recipients, tags, pair, labels, byNumber, extra, Secret, body, header, response, count, small, ratio, urgent, at, until, id, plan, number, raw, hook, Other, Swapped, in, email(s), int(x), len(x), lower(s), prefix(ip, bits), split(s, separator), string(x), trim(s), upper(s)`
)

// compilers are the four kinds of expressions, by the name that a row gives them.
var compilers = map[string]func(string, keyexpr.Config) error{
	"keys": func(expression string, config keyexpr.Config) error {
		_, err := keyexpr.Compile(expression, config)
		return err
	},
	"conditions": func(expression string, config keyexpr.Config) error {
		_, err := keyexpr.CompileCondition(expression, config)
		return err
	},
	"costs": func(expression string, config keyexpr.Config) error {
		_, err := keyexpr.CompileCost(expression, config)
		return err
	},
	"choices": func(expression string, config keyexpr.Config) error {
		_, err := keyexpr.CompileChoice(expression, []string{"pro", "free"}, config)
		return err
	},
}

// configs are what surrounds an expression, by the name that a row gives it.
var configs = map[string]keyexpr.Config{
	"nothing":  {},
	"request":  everything,
	"answered": answered(),
	"handler":  ofHandler[SendRequest](),
	"function": ofFunction[SendRequest](),
}

func answered() keyexpr.Config {
	config := everything
	config.Response = true
	return config
}

// Each expression is followed by all that its author sees.
func TestAWrongExpressionOfAnyKindShowsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ kind, config, expression, want string }{
		{"conditions", "request", ``, `the condition is empty
  write what must hold, for example request.method == "POST"`},
		{"conditions", "request", `request.method`, `1:9: a condition is true or false, and this is text
    request.method
            ^
  compare it: request.method == "POST"`},
		{"conditions", "request", `route`, `1:1: a condition is true or false, and this is text
    route
    ^
  compare it: route == "…"`},
		{"conditions", "request", `header("X")`, `1:1: a condition is true or false, and this is text
    header("X")
    ^
  compare it: header("X") == "…"`},
		{"conditions", "request", `lower(ip)`, `1:1: a condition is true or false, and this is text
    lower(ip)
    ^
  compare it, as in request.method == "POST"`},
		{"conditions", "request", `len(body.a)`, `1:1: a condition is true or false, and this is a whole number
    len(body.a)
    ^
  compare it: … > 0`},
		{"conditions", "request", `1`, `1:1: a condition is true or false, and this is a whole number
    1
    ^
  compare it: … > 0`},
		{"conditions", "request", `nil`, `1:1: a condition is true or false, and nil is neither
    nil
    ^
  to ask whether there is a value, compare: … != nil`},
		{"conditions", "request", `split(ip, ".")`, `1:1: a condition is true or false, and this is a list
    split(ip, ".")
    ^`},
		{"conditions", "request", `{"a": true}`, `1:1: a condition is true or false, and this is a map
    {"a": true}
    ^`},
		{"conditions", "request", `route == "" ? "x" : true`, `1:15: a condition is true or false, and this is text
    route == "" ? "x" : true
                  ^
  compare it, as in request.method == "POST"`},
		{"conditions", "request", `let x = ip; x`, `1:9: a condition is true or false, and this is text
    let x = ip; x
            ^
  compare it: ip == "…"`},
		{"conditions", "request", `body.a ?? "yes"`, `1:11: a condition is true or false, and this is text
    body.a ?? "yes"
              ^
  compare it, as in request.method == "POST"`},
		{"conditions", "request", `query.a > 3`, `1:9: invalid operation: > (mismatched types string and int)
    query.a > 3
            ^`},
		{"conditions", "request", `ip == nil`, `1:4: ip is never nil
    ip == nil
       ^
  compare it with text: ip == ""`},
		{"conditions", "request", `route != nil`, `1:7: route is never nil
    route != nil
          ^
  compare it with text: route != ""`},
		{"conditions", "request", `b"x"`, `1:1: bytes are not an answer
    b"x"
    ^
  write it without the b`},
		{"conditions", "request", `true; false`, `1:1: a condition is one expression, not several
    true; false
    ^`},
		{"conditions", "request", `all(body.a, true)`, `1:1: all(…) is not available: a condition has no loops
    all(body.a, true)
    ^`},
		{"conditions", "request", `vars.user.Ok()`, `1:11: only the functions of conditions can be called, not the methods of a value
    vars.user.Ok()
              ^`},
		{"conditions", "request", `response.status < 500`, `1:1: response is known only after the handler: use it in CountIf or ResetIf
    response.status < 500
    ^`},
		{"conditions", "request", `response.header("X") == "1"`, `1:1: response is known only after the handler: use it in CountIf or ResetIf
    response.header("X") == "1"
    ^`},
		{"conditions", "request", `int("x") == 1`, `1:1: the condition never yields an answer: its value is not a whole number
    int("x") == 1
    ^`},
		{"conditions", "request", `ip = "x"`, `1:4: unexpected "="
    ip = "x"
       ^
  compare with ==`},
		{"conditions", "request", `in.email == ""`, `1:1: in is the argument of a function or of a typed handler, and there is none here
    in.email == ""
    ^`},
		{"conditions", "request", `!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!`, `1:31: the condition ends too early
    !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!
                                  ^`},
		{"conditions", "answered", `response`, `1:1: response is not a value
    response
    ^
  name a member: response.status, response.header("Name")`},
		{"conditions", "answered", `response.status`, `1:10: a condition is true or false, and this is a whole number
    response.status
             ^
  compare it: response.status < 500`},
		{"conditions", "answered", `response.code > 1`, `1:10: response has no member "code"
    response.code > 1
             ^
  did you mean "response.status"?
  names: response.header("…"), response.status`},
		{"conditions", "answered", `response.headr`, `1:10: response has no member "headr"
    response.headr
             ^
  did you mean response.header("Name")?
  names: response.header("…"), response.status`},
		{"conditions", "answered", `response[ip]`, `1:10: a member of response is named by a constant
    response[ip]
             ^`},
		{"conditions", "answered", `response.header`, `1:10: response.header is a function
    response.header
             ^
  write response.header("Name")`},
		{"conditions", "answered", `response.header()`, `1:10: response.header takes one name in quotes
    response.header()
             ^`},
		{"conditions", "answered", `response.header("a b") == ""`, `1:17: "a b" cannot be the name of a header
    response.header("a b") == ""
                    ^`},
		{"conditions", "answered", `response.status.x`, `1:17: response.status is a whole number; it has no members
    response.status.x
                    ^`},
		{"conditions", "answered", `response.header("X").foo`, `1:22: no member "foo" in string
    response.header("X").foo
                         ^`},
		{"conditions", "answered", `response.foo()`, `1:10: only the functions of conditions can be called, not the methods of a value
    response.foo()
             ^`},
		{"conditions", "answered", `response.status == "200"`, `1:17: invalid operation: == (mismatched types int and string)
    response.status == "200"
                    ^`},
		{"conditions", "answered", `response.status == nil`, `1:17: response.status is never nil
    response.status == nil
                    ^`},
		{"conditions", "answered", `response.status ?? 1`, `1:17: the left side of ?? is never nil, so the right side is never used
    response.status ?? 1
                    ^`},
		{"conditions", "answered", `statuss`, `1:1: unknown name "statuss"
    statuss
    ^
  names: body.…, cookie("…"), form.…, header("…"), ip, params.…, query.…, request.…, route, vars.…, response.header("…"), response.status, email(s), int(x), len(x), lower(s), prefix(ip, bits), split(s, separator), string(x), trim(s), upper(s)`},
		{"conditions", "answered", `let response = 1; true`, `1:5: response already has a meaning
    let response = 1; true
        ^
  choose another name`},
		{"conditions", "answered", `response.status == 1 && `, `1:24: the condition ends too early
    response.status == 1 && 
                           ^`},
		{"costs", "request", ``, `the cost is empty
  write how many requests this one counts for, for example len(body.recipients)`},
		{"costs", "request", `"5"`, `1:1: a cost is a whole number, and this is text
    "5"
    ^
  int(…) is the number that a text says, len(…) is how long it is`},
		{"costs", "request", `query.n`, `1:7: a cost is a whole number, and this is text
    query.n
          ^
  int(query.n) is the number that a text says, len(query.n) is how long it is`},
		{"costs", "request", `ip + "x"`, `1:4: a cost is a whole number, and this is text
    ip + "x"
       ^
  int(…) is the number that a text says, len(…) is how long it is`},
		{"costs", "request", `true`, `1:1: a cost is a whole number, and this is true or false
    true
    ^
  choose one: … ? 1 : 0`},
		{"costs", "request", `ip == "x"`, `1:4: a cost is a whole number, and this is true or false
    ip == "x"
       ^
  choose one: … ? 1 : 0`},
		{"costs", "request", `nil`, `1:1: a cost is a whole number, and nil is none
    nil
    ^
  a request that counts for nothing costs 0`},
		{"costs", "request", `1.5`, `1:1: a cost must be a whole number from 0 to 2147483647
    1.5
    ^`},
		{"costs", "request", `-1`, `1:1: a cost must be a whole number from 0 to 2147483647
    -1
    ^`},
		{"costs", "request", `2 - 3`, `1:3: a cost must be a whole number from 0 to 2147483647
    2 - 3
      ^`},
		{"costs", "request", `99999999999`, `1:1: a cost must be a whole number from 0 to 2147483647
    99999999999
    ^`},
		{"costs", "request", `len(body.a) / 2`, `1:13: a cost is a whole number, and / yields a fraction
    len(body.a) / 2
                ^
  there is no whole-number division`},
		{"costs", "request", `int(len(body.a) / 2)`, `1:17: a cost is a whole number, and / yields a fraction
    int(len(body.a) / 2)
                    ^
  there is no whole-number division`},
		{"costs", "request", `4 / 2`, `1:3: a cost is a whole number, and / yields a fraction
    4 / 2
      ^
  there is no whole-number division`},
		{"costs", "request", `len(body.a) ** 2`, `1:13: a cost is a whole number, and this is a float
    len(body.a) ** 2
                ^
  int(…) takes a float that is whole`},
		{"costs", "request", `ip == "x" ? -1 : 2`, `1:13: a cost must be a whole number from 0 to 2147483647
    ip == "x" ? -1 : 2
                ^`},
		{"costs", "request", `query.n == "x" ? 1 : "2"`, `1:22: a cost is a whole number, and this is text
    query.n == "x" ? 1 : "2"
                         ^
  int(…) is the number that a text says, len(…) is how long it is`},
		{"costs", "request", `let n = -1; n`, `1:9: a cost must be a whole number from 0 to 2147483647
    let n = -1; n
            ^`},
		{"costs", "request", `body.n ?? 1.5`, `1:11: a cost must be a whole number from 0 to 2147483647
    body.n ?? 1.5
              ^`},
		{"costs", "request", `[1]`, `1:1: a cost is a whole number, and this is a list
    [1]
    ^
  count them: len(…)`},
		{"costs", "request", `{"a": 1}`, `1:1: a cost is a whole number, and this is a map
    {"a": 1}
    ^
  count them: len(…)`},
		{"costs", "request", `int("x")`, `1:1: the cost never yields a number: its value is not a whole number
    int("x")
    ^`},
		{"costs", "request", `body`, `1:1: body is not a value
    body
    ^
  name a member: body.name`},
		{"costs", "request", `request`, `1:1: request is not a value
    request
    ^
  name a member: request.host, request.method, request.path, request.proto, request.remoteAddr`},
		{"choices", "request", ``, `the choice is empty
  write which one applies, for example vars.plan == "pro" ? "pro" : "free"`},
		{"choices", "request", `"prp"`, `1:1: "prp" is not among the choices
    "prp"
    ^
  did you mean "pro"?
  choices: pro, free`},
		{"choices", "request", `vars.plan == "x" ? "pro" : "Free"`, `1:28: "Free" is not among the choices
    vars.plan == "x" ? "pro" : "Free"
                               ^
  did you mean "free"?
  choices: pro, free`},
		{"choices", "request", `vars.plan ?? "gold"`, `1:14: "gold" is not among the choices
    vars.plan ?? "gold"
                 ^
  choices: pro, free`},
		{"choices", "request", `let p = "fre"; p`, `1:9: "fre" is not among the choices
    let p = "fre"; p
            ^
  did you mean "free"?
  choices: pro, free`},
		{"choices", "request", `lower("P") + "r"`, `1:12: "pr" is not among the choices
    lower("P") + "r"
               ^
  did you mean "pro"?
  choices: pro, free`},
		{"choices", "request", `"p" + "r"`, `1:5: "pr" is not among the choices
    "p" + "r"
        ^
  did you mean "pro"?
  choices: pro, free`},
		{"choices", "request", `1`, `1:1: a choice is text, and this is a whole number
    1
    ^
  choices: pro, free`},
		{"choices", "request", `vars.a == 1`, `1:8: a choice is text, and this is true or false
    vars.a == 1
           ^
  choose one: … ? "pro" : "free"
  choices: pro, free`},
		{"choices", "request", `nil`, `1:1: a choice is text, and nil is none
    nil
    ^
  choices: pro, free`},
		{"choices", "request", `["pro"]`, `1:1: a choice is text, and this is a list
    ["pro"]
    ^
  choices: pro, free`},
		{"choices", "request", `email("x")`, `1:1: the choice never yields a text: its value is not an e-mail address
    email("x")
    ^`},
		{"choices", "request", `plan`, `1:1: unknown name "plan"
    plan
    ^` + allNames},
		{"keys", "handler", `in.emial`, `1:4: no member "emial" in SendRequest
    in.emial
       ^
  did you mean "email"?` + members},
		{"keys", "handler", `emial`, `1:1: unknown name "emial"
    emial
    ^
  did you mean "email"?` + handlerNames},
		{"keys", "handler", `in`, `1:1: a value of type SendRequest is not a key
    in
    ^
  name a member: in.tenant, in.trace, in.email, in.Subject, in.user, …`},
		{"keys", "handler", `user`, `1:1: a value of type Account is not a key
    user
    ^
  name a member: in.user.id, in.user.email, in.user.next`},
		{"keys", "handler", `user.Id`, `1:6: no member "Id" in Account
    user.Id
         ^
  did you mean "id"?
  members: id int64, email string, next Account`},
		{"keys", "handler", `recipients`, `1:1: each element of this list is a value of type Account, which is not a part of a key
    recipients
    ^`},
		{"keys", "handler", `recipients[0].Next.nope`, `1:20: no member "nope" in Account
    recipients[0].Next.nope
                       ^
  members: id int64, email string, next Account`},
		{"keys", "handler", `email.x`, `1:7: in.email is text; it has no members
    email.x
          ^`},
		{"keys", "handler", `tags.x`, `1:6: in.tags is a list; it has no members with names
    tags.x
         ^
  its elements are in.tags[0], in.tags[1], …`},
		{"keys", "handler", `tags[-1]`, `1:6: a member of the argument is named by a constant: text, or a number from 0
    tags[-1]
         ^`},
		{"keys", "handler", `tags[count]`, `1:6: a member of the argument is named by a constant: text, or a number from 0
    tags[count]
         ^`},
		{"keys", "handler", `pair[2]`, `1:6: in.pair has 2 elements, from [0] on
    pair[2]
         ^`},
		{"keys", "handler", `labels[0]`, `1:8: the members of in.labels have names, not numbers
    labels[0]
           ^`},
		{"keys", "handler", `byNumber.x`, `1:10: the members of in.byNumber have numbers, not names
    byNumber.x
             ^
  write in.byNumber[0]`},
		{"keys", "handler", `byNumber[300]`, `1:10: the members of in.byNumber are numbered by int8, and 300 is none
    byNumber[300]
             ^`},
		{"keys", "handler", `in[0]`, `1:4: in is not a list
    in[0]
       ^
  write in.tenant`},
		{"keys", "handler", `user[0]`, `1:6: in.user is not a list
    user[0]
         ^
  write in.user.id`},
		{"keys", "handler", `at`, `1:1: a time is not a key
    at
    ^`},
		{"keys", "handler", `at.x`, `1:4: in.at is a time; it has no members
    at.x
       ^`},
		{"keys", "handler", `raw`, `1:1: bytes are not a key
    raw
    ^`},
		{"keys", "handler", `hook`, `1:1: a function is not a key
    hook
    ^`},
		{"keys", "handler", `in.Swapped`, `1:4: "Swapped" could be two members of SendRequest: field Other has that name in JSON, another has it in Go
    in.Swapped
       ^`},
		{"keys", "handler", `inner`, `1:1: unknown name "inner"
    inner
    ^` + handlerNames},
		{"keys", "handler", `in.inner`, `1:4: no member "inner" in SendRequest
    in.inner
       ^` + members},
		{"keys", "handler", `in.Delete`, `1:4: no member "Delete" in SendRequest
    in.Delete
       ^` + members},
		{"keys", "handler", `Delete()`, `1:1: unknown function "Delete"
    Delete()
    ^` + handlerNames},
		{"keys", "handler", `user.Delete()`, `1:6: only the functions of key expressions can be called, not the methods of a value
    user.Delete()
         ^`},
		{"keys", "handler", `email()`, `1:1: email takes 1 argument, not 0
    email()
    ^
  write email(s)`},
		{"keys", "handler", `user()`, `1:1: user is not a function
    user()
    ^`},
		{"keys", "handler", `in()`, `1:1: in is not a function
    in()
    ^`},
		{"keys", "handler", `header`, `1:1: header is a function
    header
    ^
  write header("Name"), or in.header for the member of the argument`},
		{"keys", "handler", `response`, `1:1: response is known only after the handler: use it in CountIf or ResetIf
    response
    ^`},
		{"keys", "handler", `email ?? ip`, `1:7: the left side of ?? is never nil, so the right side is never used
    email ?? ip
          ^
  what the caller leaves out is "" here: in.email != "" ? in.email : …`},
		{"keys", "handler", `count ?? 1`, `1:7: the left side of ?? is never nil, so the right side is never used
    count ?? 1
          ^`},
		{"keys", "handler", `email == nil ? 1 : 2`, `1:7: in.email is never nil
    email == nil ? 1 : 2
          ^
  compare it with text: in.email == ""`},
		{"keys", "handler", `count == nil ? 1 : 2`, `1:7: in.count is never nil
    count == nil ? 1 : 2
          ^`},
		{"keys", "handler", `not in.email ? 1 : 2`, `1:1: invalid operation: not (mismatched type string)
    not in.email ? 1 : 2
    ^`},
		{"keys", "handler", `ip + in.count`, `1:4: invalid operation: + (mismatched types string and int)
    ip + in.count
       ^`},
		{"keys", "handler", `let in = 1; in`, `1:5: in already has a meaning
    let in = 1; in
        ^
  choose another name`},
		{"keys", "handler", `let email = 1; email`, `1:5: email already has a meaning
    let email = 1; email
        ^
  choose another name`},
		{"keys", "handler", `let u = user; u.x`, `1:17: no member "x" in Account
    let u = user; u.x
                    ^
  members: id int64, email string, next Account`},
		{"keys", "handler", `(urgent ? in : in).Nope`, `1:20: no member "Nope" in SendRequest
    (urgent ? in : in).Nope
                       ^`},
		{"keys", "handler", `#email`, `1:1: unexpected "#"
    #email
    ^
  names have no #: write email`},
		{"keys", "handler", `#form.email`, `1:1: unexpected "#"
    #form.email
    ^
  names have no #: write form.email`},
		{"keys", "handler", `#in.email`, `1:1: unexpected "#"
    #in.email
    ^
  names have no #: write in.email`},
		{"keys", "handler", `#nope`, `1:1: unexpected "#"
    #nope
    ^
  names have no #`},
		{"keys", "handler", `{in: 1}.in`, `1:2: a map key must be a quoted string, a number, a identifier, or an expression enclosed in parentheses (unexpected token Operator("in"))
    {in: 1}.in
     ^`},
		{"keys", "handler", `"é" + in.emial`, `1:10: no member "emial" in SendRequest
    "é" + in.emial
             ^
  did you mean "email"?` + members},
		{"keys", "handler", `secret`, `1:1: unknown name "secret"
    secret
    ^
  did you mean "Secret"?` + handlerNames},
		{"keys", "function", ``, `the key expression is empty
  write an expression over the members of the argument`},
		{"keys", "function", `ip`, `1:1: ip is not available: a plain function is called without a request
    ip
    ^` + functionArgNames},
		{"keys", "function", `body.x`, `1:6: in.body is text; it has no members
    body.x
         ^`},
		{"keys", "function", `header("X")`, `1:1: header is not a function
    header("X")
    ^`},
		{"keys", "function", `cookie`, `1:1: cookie is not available: a plain function is called without a request
    cookie
    ^` + functionArgNames},
		{"keys", "function", `request.method`, `1:1: request is not available: a plain function is called without a request
    request.method
    ^` + functionArgNames},
		{"keys", "function", `vars.a`, `1:1: vars is not available: a plain function is called without a request
    vars.a
    ^` + functionArgNames},
		{"keys", "function", `nope`, `1:1: unknown name "nope"
    nope
    ^` + functionArgNames},
		{"keys", "function", `toLowerCase(email)`, `1:1: unknown function "toLowerCase"
    toLowerCase(email)
    ^
  did you mean "lower"?` + functionArgNames},
		{"keys", "function", `prefx(email, 24)`, `1:1: unknown function "prefx"
    prefx(email, 24)
    ^
  did you mean "prefix"?` + functionArgNames},
		{"keys", "function", `emial(email)`, `1:1: unknown function "emial"
    emial(email)
    ^
  did you mean "email"?` + functionArgNames},
		{"keys", "nothing", `i`, `1:1: unknown name "i"
    i
    ^` + allNames},
		{"keys", "nothing", `in`, `1:1: in is the argument of a function or of a typed handler, and there is none here
    in
    ^`},
		{"conditions", "function", `"x" + email`, `1:5: a condition is true or false, and this is text
    "x" + email
        ^
  compare it: … == "…"`},
		{"conditions", "function", `email`, `1:1: a condition is true or false, and this is text
    email
    ^
  compare it: in.email == "…"`},
		{"conditions", "function", `count`, `1:1: a condition is true or false, and this is a whole number
    count
    ^
  compare it: in.count > 0`},
		{"conditions", "function", `tags`, `1:1: a condition is true or false, and this is a list
    tags
    ^
  compare its length: len(in.tags) > 0`},
		{"conditions", "function", `user`, `1:1: a condition is true or false, and this is a value of type Account
    user
    ^
  name a member: in.user.id, in.user.email, in.user.next`},
		{"conditions", "function", `response.status == 1`, `1:10: in.response is text; it has no members
    response.status == 1
             ^`},
		{"conditions", "function", ``, `the condition is empty
  write an expression over the members of the argument`},
		{"costs", "function", `ratio`, `1:1: a cost is a whole number, and this is a float
    ratio
    ^
  int(…) takes a float that is whole`},
		{"costs", "function", `tags`, `1:1: a cost is a whole number, and this is a list
    tags
    ^
  count them: len(in.tags)`},
		{"costs", "function", `user`, `1:1: a cost is a whole number, and this is a value of type Account
    user
    ^
  name a member: in.user.id, in.user.email, in.user.next`},
		{"costs", "function", `email`, `1:1: a cost is a whole number, and this is text
    email
    ^
  int(in.email) is the number that a text says, len(in.email) is how long it is`},
		{"costs", "function", `urgent`, `1:1: a cost is a whole number, and this is true or false
    urgent
    ^
  choose one: … ? 1 : 0`},
		{"choices", "function", `count`, `1:1: a choice is text, and this is a whole number
    count
    ^
  choices: pro, free`},
		{"choices", "function", `urgent`, `1:1: a choice is text, and this is true or false
    urgent
    ^
  choose one: … ? "pro" : "free"
  choices: pro, free`},
		{"choices", "function", `user`, `1:1: a choice is text, and this is a value of type Account
    user
    ^
  name a member: in.user.id, in.user.email, in.user.next
  choices: pro, free`},
		{"choices", "function", `header()`, `1:1: header is not a function
    header()
    ^`},
	} {
		err := compilers[row.kind](row.expression, configs[row.config])
		if _, ok := errors.AsType[*keyexpr.CompileError](err); !ok {
			t.Errorf("%s: %q: %v, want a CompileError", row.kind, row.expression, err)
			continue
		}
		if want := "keyexpr: " + row.want; err.Error() != want {
			t.Errorf("%s: %q:\n--- got\n%v\n--- want\n%s", row.kind, row.expression, err, want)
		}
	}
}

func TestAChoiceNeedsChoices(t *testing.T) {
	t.Parallel()
	const want = "keyexpr: there is nothing to choose from: choices is empty"
	if _, err := keyexpr.CompileChoice(`ip`, nil, everything); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	choices := []string{"pro", "free"}
	c, err := keyexpr.CompileChoice(`vars.plan`, choices, everything)
	if err != nil {
		t.Fatal(err)
	}
	choices[0] = "gold"
	if _, err := c.Of(with(map[string]any{"plan": "gold"})); err == nil {
		t.Error("the choices changed after they were declared")
	}
}

func TestTheSizeOfEveryKindIsBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("(", 2000) + "%s" + strings.Repeat(")", 2000)
	for kind, row := range map[string]struct{ noun, good string }{
		"keys": {"key expression", "ip"}, "conditions": {"condition", "true"}, "costs": {"cost", "1"}, "choices": {"choice", `"pro"`},
	} {
		compile := compilers[kind]
		for expression, want := range map[string]string{
			strings.Repeat(" ", 4096) + "1":                       "the " + row.noun + " is 4097 bytes long; at most 4096 are allowed",
			strings.Repeat("(", 3<<20):                            "the " + row.noun + " is 3145728 bytes long; at most 4096 are allowed",
			strings.Repeat("(", 4096):                             "the " + row.noun + " ends too early",
			strings.Repeat("!", 4096):                             "the " + row.noun + " ends too early",
			strings.Repeat("[", 2048) + strings.Repeat("]", 2048): "the " + row.noun + " has too many parts; at most 500 are allowed",
			strings.Repeat("1+", 400) + "1":                       "the " + row.noun + " has too many parts; at most 500 are allowed",
			"ip\xff":                                              "the " + row.noun + " is not valid UTF-8",
			" \n\t ":                                              "the " + row.noun + " is empty",
		} {
			fault, ok := errors.AsType[*keyexpr.CompileError](compile(expression, everything))
			if !ok || fault.Message != want {
				t.Errorf("%s: %.20q…: %v, want %s", kind, expression, fault, want)
			}
		}
		if err := compile(fmt.Sprintf(deep, row.good), everything); err != nil {
			t.Errorf("%s: %.100v", kind, err)
		}
		if err := compile("ip", keyexpr.Config{MaxBodyBytes: -1}); err == nil || err.Error() != "keyexpr: keyexpr.Config.MaxBodyBytes is negative" {
			t.Errorf("%s: %v", kind, err)
		}
	}
	// Every let doubles the outcomes of the one before.
	expression := "let a0 = header(\"X\") ?? \"pro\"; "
	for i := range 60 {
		expression += fmt.Sprintf("let a%d = route == \"\" ? a%d : a%d; ", i+1, i, i)
	}
	if err := compilers["choices"](expression+"a60", everything); err != nil {
		t.Errorf("%.100v", err)
	}
}

func condition(t testing.TB, expression string, config keyexpr.Config) *keyexpr.Condition {
	t.Helper()
	c, err := keyexpr.CompileCondition(expression, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cost(t testing.TB, expression string, config keyexpr.Config) *keyexpr.Cost {
	t.Helper()
	c, err := keyexpr.CompileCost(expression, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func choice(t testing.TB, expression string, config keyexpr.Config) *keyexpr.Choice {
	t.Helper()
	c, err := keyexpr.CompileChoice(expression, []string{"pro", "free"}, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAConditionHolds(t *testing.T) {
	t.Parallel()
	yes := true
	for _, row := range []struct {
		expression string
		request    *request
		want       bool
	}{
		{`request.method == "POST"`, postJSON(``), true},
		{`request.method == "POST"`, get("/"), false},
		{`request.method in ["POST", "PUT"]`, postJSON(``), true},
		{`vars.user == nil`, get("/"), true},
		{`vars.user == nil`, with(map[string]any{"user": (*user)(nil)}), true},
		{`vars.user == nil`, with(map[string]any{"user": &user{}}), false},
		{`vars.user != nil`, with(map[string]any{"user": map[string]any{}}), true},
		{`nil != vars.user`, with(map[string]any{"user": 0}), true},
		{`header("X") != nil`, get("/"), false},
		{`header("X") != nil`, withHeader("X", ""), true},
		{`header("X") == nil || header("X") == "a"`, get("/"), true},
		{`header("X") == "a"`, get("/"), false},
		{`body.dry`, postJSON(`{"dry":true}`), true},
		{`body.dry == true`, postJSON(`{}`), false},
		{`not body.dry`, postJSON(`{"dry":false}`), true},
		{`body.dry ?? false`, postJSON(`{}`), false},
		{`vars.beta`, with(map[string]any{"beta": &yes}), true},
		{`vars.beta`, with(map[string]any{"beta": boolean(true)}), true},
		{`len(body.list) > 1 && body.list[0] == "a"`, postJSON(`{"list":["a","b"]}`), true},
		{`let p = request.path; p startsWith "/admin"`, get("/admin/x"), true},
		{`ip in ["192.0.2.1"]`, get("/"), true},
		{`let l = vars.l; l[0]`, with(map[string]any{"l": []boolean{true}}), true},
		{`route != ""`, get("/"), false},
		{`true`, nil, true},
		{`1 > 2`, nil, false},
	} {
		var src keyexpr.Source
		if row.request != nil {
			src = row.request
		}
		if holds, err := condition(t, row.expression, everything).Holds(src); err != nil || holds != row.want {
			t.Errorf("%s is %v, %v, want %v", row.expression, holds, err, row.want)
		}
	}
}

type boolean bool

func TestACostIsAWholeNumber(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		expression string
		request    *request
		want       int
	}{
		{`len(body.recipients)`, postJSON(`{"recipients":["a","b","c"]}`), 3},
		{`len(body.recipients)`, postJSON(`{"recipients":[]}`), 0},
		{`int(query.n)`, get("/?n=2147483647"), 2147483647},
		{`body.n`, postJSON(`{"n":2}`), 2},
		{`body.n`, postJSON(`{"n":2.0}`), 2},
		{`body.n ?? 1`, postJSON(`{}`), 1},
		{`vars.n`, with(map[string]any{"n": uint8(7)}), 7},
		{`vars.n`, with(map[string]any{"n": celsius(7)}), 7},
		{`vars.n * 2 + 1`, with(map[string]any{"n": float32(7)}), 15},
		{`int(vars.n ** 2)`, with(map[string]any{"n": 3}), 9},
		{`[vars.n][0]`, with(map[string]any{"n": 3}), 3},
		{`request.method == "GET" ? 0 : 5`, get("/"), 0},
		{`5 % 3`, nil, 2},
		{`2 ** 3`, nil, 8},
		{`2147483647`, nil, 2147483647},
		{`0`, nil, 0},
	} {
		var src keyexpr.Source
		if row.request != nil {
			src = row.request
		}
		if n, err := cost(t, row.expression, everything).Of(src); err != nil || n != row.want {
			t.Errorf("%s is %d, %v, want %d", row.expression, n, err, row.want)
		}
	}
}

func TestAChoiceIsOneOfThose(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		expression string
		request    *request
		want       string
	}{
		{`vars.user.plan == "pro" ? "pro" : "free"`, with(map[string]any{"user": &user{Plan: "pro"}}), "pro"},
		{`vars.user.plan == "pro" ? "pro" : "free"`, get("/"), "free"},
		{`vars.user.plan`, with(map[string]any{"user": &user{Plan: "pro"}}), "pro"},
		{`vars.plan ?? "free"`, get("/"), "free"},
		{`header("X-Plan") ?? "free"`, withHeader("X-Plan", "pro"), "pro"},
		{`[vars.user][0].Plan`, with(map[string]any{"user": user{Plan: "pro"}}), "pro"},
		{`lower("PRO")`, nil, "pro"},
	} {
		var src keyexpr.Source
		if row.request != nil {
			src = row.request
		}
		if chosen, err := choice(t, row.expression, everything).Of(src); err != nil || chosen != row.want {
			t.Errorf("%s is %q, %v, want %q", row.expression, chosen, err, row.want)
		}
	}
}

// results are the three kinds beside keys, by what they yield of a request.
func results(t testing.TB, kind, expression string, src keyexpr.Source) error {
	t.Helper()
	var err error
	switch kind {
	case "conditions":
		var holds bool
		if holds, err = condition(t, expression, everything).Holds(src); err != nil && holds {
			t.Errorf("%s holds, although %v", expression, err)
		}
	case "costs":
		var n int
		if n, err = cost(t, expression, everything).Of(src); err != nil && n != 0 {
			t.Errorf("%s is %d, although %v", expression, n, err)
		}
	case "choices":
		var chosen string
		if chosen, err = choice(t, expression, everything).Of(src); err != nil && chosen != "" {
			t.Errorf("%s is %q, although %v", expression, chosen, err)
		}
	}
	return err
}

func TestAFaultOfAnyKindNamesThePart(t *testing.T) {
	t.Parallel()
	const (
		secret   = "s3cr3t"
		noBool   = `The value "v" of the request must be true or false.`
		noCost   = `The value "v" of the request must be a whole number from 0 to 2147483647.`
		noChoice = `The value "v" of the request is none of the values that are expected.`
		missing  = `The request has no value "v".`
	)
	value := func(v any) *request { return with(map[string]any{"v": v}) }
	for _, row := range []struct {
		kind, expression string
		request          *request
		problem          keyexpr.Problem
		part, detail     string
	}{
		{"conditions", `vars.v`, get("/"), keyexpr.Missing, `vars.v`, missing},
		{"conditions", `vars.v`, value(secret), keyexpr.WrongType, `vars.v`, noBool},
		{"conditions", `vars.v`, value(1), keyexpr.WrongType, `vars.v`, noBool},
		{"conditions", `vars.v`, value([]any{true}), keyexpr.WrongType, `vars.v`, noBool},
		{"conditions", `not vars.v`, get("/"), keyexpr.Missing, `vars.v`, missing},
		{"conditions", `not vars.v`, value(secret), keyexpr.WrongType, `vars.v`, `The value "v" of the request yields no answer.`},
		{"conditions", `not vars.v || vars.w`, value(secret), keyexpr.WrongType, `not vars.v || vars.w`, `What this request is judged by yields no answer.`},
		{"conditions", `vars.v > 1`, get("/"), keyexpr.Missing, `vars.v`, missing},
		{"conditions", `{"a": true}[query.a + route]`, get("/?a=b"), keyexpr.Missing, `{"a": true}[query.a + route]`, `The request lacks what it is judged by.`},
		{"conditions", `email(body.a) == "x"`, postJSON(`{"a":"` + secret + `"}`), keyexpr.Malformed, `body.a`, `The member "a" of the request body is not an e-mail address.`},
		{"conditions", `body.a == 1`, postJSON(`{"a":1,"A":2}`), keyexpr.Ambiguous, `body.a`, `The member "a" of the request body is given more than once, or in another case.`},
		{"conditions", `body.a`, postJSON(``), keyexpr.Missing, `body.a`, `The request has no body.`},
		{"costs", `vars.v`, get("/"), keyexpr.Missing, `vars.v`, missing},
		{"costs", `vars.v`, value(-1), keyexpr.WrongType, `vars.v`, noCost},
		{"costs", `vars.v`, value(1.5), keyexpr.WrongType, `vars.v`, noCost},
		{"costs", `vars.v`, value(int64(2147483648)), keyexpr.WrongType, `vars.v`, noCost},
		{"costs", `vars.v`, value(uint64(1 << 63)), keyexpr.WrongType, `vars.v`, noCost},
		{"costs", `vars.v`, value("1"), keyexpr.WrongType, `vars.v`, noCost},
		{"costs", `vars.v`, value(true), keyexpr.WrongType, `vars.v`, noCost},
		{"costs", `vars.v - 2`, value(1), keyexpr.WrongType, `vars.v`, `The value "v" of the request must be a whole number from 0 to 2147483647.`},
		{"costs", `vars.v - vars.v - len(route + "x")`, value(1), keyexpr.WrongType, `vars.v - vars.v - len(route + "x")`, `What this request is weighed by must be a whole number from 0 to 2147483647.`},
		{"costs", `vars.v + 1`, value(secret), keyexpr.WrongType, `vars.v`, `The value "v" of the request yields no cost.`},
		{"costs", `len(body.to)`, postJSON(`{}`), keyexpr.Missing, `body.to`, `The request body has no member "to".`},
		{"costs", `len(body.to)`, postJSON(`{"to":7}`), keyexpr.WrongType, `body.to`, `The member "to" of the request body has no length.`},
		{"choices", `vars.v`, get("/"), keyexpr.Missing, `vars.v`, missing},
		{"choices", `vars.v`, value(secret), keyexpr.WrongType, `vars.v`, noChoice},
		{"choices", `vars.v`, value(""), keyexpr.WrongType, `vars.v`, noChoice},
		{"choices", `vars.v`, value("Pro"), keyexpr.WrongType, `vars.v`, noChoice},
		{"choices", `vars.v`, value(1), keyexpr.WrongType, `vars.v`, noChoice},
		{"choices", `vars.v ?? "free"`, value(secret), keyexpr.WrongType, `vars.v`, noChoice},
		{"choices", `vars.a == 1 ? vars.v : "free"`, with(map[string]any{"a": 1}), keyexpr.Missing, `vars.v`, missing},
		{"choices", `vars.v + "x"`, value(secret), keyexpr.WrongType, `vars.v`, `The value "v" of the request is none of the values that are expected.`},
		{"choices", `vars.v + route`, value(secret), keyexpr.WrongType, `vars.v + route`, `What this request is limited by is none of the values that are expected.`},
	} {
		err := results(t, row.kind, row.expression, row.request)
		failed, ok := errors.AsType[*keyexpr.KeyError](err)
		if !ok || failed.Problem != row.problem || failed.Part != row.part || failed.Detail() != row.detail {
			t.Errorf("%s:\n got %+v\nwant %v of %s: %s", row.expression, failed, row.problem, row.part, row.detail)
		}
		if ok && strings.Contains(failed.Error()+failed.Detail(), secret) {
			t.Errorf("%s echoes the request: %v", row.expression, failed)
		}
	}
}

func TestAConditionReadsOnlyWhatItReaches(t *testing.T) {
	t.Parallel()
	c := condition(t, `request.method == "POST" && body.dry != true && vars.user == nil`, everything)
	r := get("/")
	if holds, err := c.Holds(r); holds || err != nil || len(r.asked) > 0 {
		t.Errorf("a GET: %v, %v, asked for %q", holds, err, r.asked)
	}
	r = postJSON(`{"dry":true}`)
	if holds, err := c.Holds(r); holds || err != nil || !slices.Equal(r.asked, []string{"body"}) {
		t.Errorf("a dry POST: %v, %v, asked for %q", holds, err, r.asked)
	}
	if got := readAll(t, r.http.Body); got != `{"dry":true}` {
		t.Errorf("the handler reads %q", got)
	}
	want := []string{"body.dry", "request.method", "vars.user"}
	if got := c.Reads(); !slices.Equal(got, want) || c.Constant() || c.String() != `request.method == "POST" && body.dry != true && vars.user == nil` {
		t.Errorf("%s reads %q, want %q", c, got, want)
	}
}

func TestAConstantReadsNothing(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]bool{`"global"`: true, `lower("A") + "b"`: true, `["a", 1]`: true, `ip`: false, `route == "" ? "a" : "b"`: false} {
		if got := compile(t, expression).Constant(); got != want {
			t.Errorf("%s is constant: %v", expression, got)
		}
	}
	if !cost(t, `5`, everything).Constant() || !condition(t, `true`, everything).Constant() || !choice(t, `"pro"`, everything).Constant() {
		t.Error("a constant of another kind is none")
	}
	if got := compile(t, `[ip, lower(query.a), header("A") ?? "x", len(body.a)]`).Verbatim(); !slices.Equal(got, []string{`header("A")`, "ip"}) {
		t.Errorf("as they are: %q", got)
	}
	if got := compile(t, `let e = body.email; route == "" ? e : [email(body.b), e]`).Verbatim(); !slices.Equal(got, []string{"body.email"}) {
		t.Errorf("as they are: %q", got)
	}
}

func TestEveryKindServesManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	holds := condition(t, `query.n == body.n`, everything)
	costs := cost(t, `len(body.list) + int(query.n)`, everything)
	chosen := choice(t, `query.n == "0" ? "pro" : "free"`, everything)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 100 {
				r := postJSON(fmt.Sprintf(`{"n":"%d","list":[1,2]}`, i%2))
				r.http.URL.RawQuery = fmt.Sprintf("n=%d", worker)
				if got, err := holds.Holds(r); err != nil || got != (worker == i%2) {
					t.Errorf("%v, %v", got, err)
				}
				if got, err := costs.Of(r); err != nil || got != worker+2 {
					t.Errorf("%v, %v", got, err)
				}
				if got, err := chosen.Of(r); err != nil || (got == "pro") != (worker == 0) {
					t.Errorf("%v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
