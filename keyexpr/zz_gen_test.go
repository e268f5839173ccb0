package keyexpr_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestZZGen(t *testing.T) {
	var b strings.Builder
	lit := func(s string) string {
		if strings.Contains(s, "`") {
			return fmt.Sprintf("%q", s)
		}
		return "`" + s + "`"
	}
	lists := []struct {
		kind, config string
		es           []string
	}{
		{"conditions", "request", []string{"", `request.method`, `route`, `header("X")`, `lower(ip)`, `len(body.a)`, `1`, `nil`, `split(ip, ".")`, `{"a": true}`, `route == "" ? "x" : true`, `let x = ip; x`, `body.a ?? "yes"`, `query.a > 3`, `ip == nil`, `route != nil`, `b"x"`, `true; false`, `all(body.a, true)`, `vars.user.Ok()`, `response.status < 500`, `response.header("X") == "1"`, `int("x") == 1`, `ip = "x"`, `in.email == ""`, strings.Repeat("!", 30)}},
		{"conditions", "answered", []string{`response`, `response.status`, `response.code > 1`, `response.headr`, `response[ip]`, `response.header`, `response.header()`, `response.header("a b") == ""`, `response.status.x`, `response.header("X").foo`, `response.foo()`, `response.status == "200"`, `response.status == nil`, `response.status ?? 1`, `statuss`, `let response = 1; true`, `response.status == 1 && `}},
		{"costs", "request", []string{"", `"5"`, `query.n`, `ip + "x"`, `true`, `ip == "x"`, `nil`, `1.5`, `-1`, `2 - 3`, `99999999999`, `len(body.a) / 2`, `int(len(body.a) / 2)`, `4 / 2`, `len(body.a) ** 2`, `ip == "x" ? -1 : 2`, `query.n == "x" ? 1 : "2"`, `let n = -1; n`, `body.n ?? 1.5`, `[1]`, `{"a": 1}`, `int("x")`, `body`, `request`}},
		{"choices", "request", []string{"", `"prp"`, `vars.plan == "x" ? "pro" : "Free"`, `vars.plan ?? "gold"`, `let p = "fre"; p`, `lower("P") + "r"`, `"p" + "r"`, `1`, `vars.a == 1`, `nil`, `["pro"]`, `email("x")`, `plan`}},
		{"keys", "handler", []string{`in.emial`, `emial`, `in`, `user`, `user.Id`, `recipients`, `recipients[0].Next.nope`, `email.x`, `tags.x`, `tags[-1]`, `tags[count]`, `pair[2]`, `labels[0]`, `byNumber.x`, `byNumber[300]`, `in[0]`, `user[0]`, `at`, `at.x`, `raw`, `hook`, `in.Swapped`, `inner`, `in.inner`, `in.Delete`, `Delete()`, `user.Delete()`, `email()`, `user()`, `in()`, `header`, `response`, `email ?? ip`, `count ?? 1`, `email == nil ? 1 : 2`, `count == nil ? 1 : 2`, `not in.email ? 1 : 2`, `ip + in.count`, `let in = 1; in`, `let email = 1; email`, `let u = user; u.x`, `(urgent ? in : in).Nope`, `#email`, `#form.email`, `#in.email`, `#nope`, `{in: 1}.in`, `"é" + in.emial`, `secret`}},
		{"keys", "function", []string{"", `ip`, `body.x`, `header("X")`, `cookie`, `request.method`, `vars.a`, `nope`, `toLowerCase(email)`, `prefx(email, 24)`, `emial(email)`}},
		{"keys", "nothing", []string{`in`}},
		{"conditions", "function", []string{`"x" + email`, `email`, `count`, `tags`, `user`, `response.status == 1`, ``}},
		{"costs", "function", []string{`ratio`, `tags`, `user`, `email`, `urgent`}},
		{"choices", "function", []string{`count`, `urgent`, `user`, `header`, `header()`}},
	}
	for _, l := range lists {
		for _, e := range l.es {
			err := compilers[l.kind](e, configs[l.config])
			if err == nil {
				fmt.Println("OK??", l, e)
				continue
			}
			w := strings.TrimPrefix(err.Error(), "keyexpr: ")
			w = strings.ReplaceAll(w, handlerNames, "«H»")
			w = strings.ReplaceAll(w, functionArgNames, "«F»")
			w = strings.ReplaceAll(w, members, "«M»")
			w = strings.ReplaceAll(w, allNames, "«A»")
			w = lit(w)
			for k, v := range map[string]string{"«H»": "handlerNames", "«F»": "functionArgNames", "«M»": "members", "«A»": "allNames"} {
				w = strings.ReplaceAll(w, k+"`", "` + "+v)
			}
			fmt.Fprintf(&b, "\t\t{%q, %q, %s, %s},\n", l.kind, l.config, lit(e), w)
		}
	}
	os.WriteFile("/tmp/rows.txt", []byte(b.String()), 0o644)
}
