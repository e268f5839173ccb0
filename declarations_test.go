package sash_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash"
	"github.com/sashlimit/sash/ginmw"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/stdmw"
)

// testdata/declarations.txt has the exact message that each wrong declaration gives, under its name. Read it: these are
// messages that you may get yourself.
func TestEveryWrongDeclarationSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/declarations.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for section := range strings.SplitSeq("\n"+string(text), "\n## ") {
		name, message, _ := strings.Cut(section, "\n")
		want[name] = strings.TrimRight(message, "\n")
	}
	for _, row := range wrongDeclarations() {
		lim, err := ratelimit.New(ratelimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, got := ginmw.Decorator{Limiter: lim}.Compile(row.rule)
		if got := fmt.Sprint(got); got != want[row.name] {
			t.Errorf("## %s\n%s\n\nwant\n%s", row.name, got, want[row.name])
		}
		vars := func(*http.Request, string) (any, bool) { return nil, false }
		if _, std := (stdmw.Decorator{Limiter: lim, Vars: vars}).Compile(row.rule); fmt.Sprint(std) != fmt.Sprint(got) {
			t.Errorf("%s: the adapters differ:\n%v\n%v", row.name, got, std)
		}
		if n := len(lim.Rules()); n != 0 {
			t.Errorf("%s: it was declared all the same", row.name)
		}
		delete(want, row.name)
	}
	delete(want, "")
	for name := range want {
		t.Errorf("no declaration is named %q", name)
	}
}

type wrongDeclaration struct {
	name string
	rule sash.Rule
}

func wrongDeclarations() []wrongDeclaration {
	h := []ratelimit.Limit{{MaxRequests: 1, Window: time.Hour}}
	plans := map[string][]ratelimit.Limit{"free": h, "pro": h}
	tell := func(context.Context, string) ([]ratelimit.Limit, error) { return nil, nil }
	return []wrongDeclaration{
		{"an unknown name", sash.Rule{KeyExpr: "emial", Limits: h}},
		{"an unknown function", sash.Rule{KeyExpr: "emial(body.email)", Limits: h}},
		{"a name of the application", sash.Rule{KeyExpr: "user.id", Limits: h}},
		{"a member of the request that does not exist", sash.Rule{KeyExpr: "request.metod", Limits: h}},
		{"a method", sash.Rule{KeyExpr: "request.Body.Close()", Limits: h}},
		{"a method of a value", sash.Rule{KeyExpr: "vars.user.Name()", Limits: h}},
		{"Java's hash", sash.Rule{KeyExpr: "#email.email", Limits: h}},
		{"no expression", sash.Rule{Name: "r", Limits: h}},
		{"an expression that ends too early", sash.Rule{KeyExpr: "body.", Limits: h}},
		{"an assignment", sash.Rule{KeyExpr: "ip = 1", Limits: h}},
		{"a map as the key", sash.Rule{KeyExpr: "{\"a\": ip}", Limits: h}},
		{"nil as the key", sash.Rule{KeyExpr: "nil", Limits: h}},
		{"the empty text as the key", sash.Rule{KeyExpr: `""`, Limits: h}},
		{"a fraction as the key", sash.Rule{KeyExpr: "1.5", Limits: h}},
		{"a list within a list", sash.Rule{KeyExpr: "[[ip], route]", Limits: h}},
		{"a whole namespace as the key", sash.Rule{KeyExpr: "body", Limits: h}},
		{"a loop", sash.Rule{KeyExpr: "map(body.a, #)", Limits: h}},
		{"a range", sash.Rule{KeyExpr: "1..9", Limits: h}},
		{"a pattern that is not constant", sash.Rule{KeyExpr: `ip matches body.a ? "a" : "b"`, Limits: h}},
		{"an expression that is too long", sash.Rule{Name: "r", KeyExpr: `"` + strings.Repeat("x", 4095) + `"`, Limits: h}},
		{"an expression of too many parts", sash.Rule{Name: "r", KeyExpr: "1" + strings.Repeat("+1", 600), Limits: h}},
		{"dead code behind ??", sash.Rule{KeyExpr: "ip ?? route", Limits: h}},
		{"prefix bits that no address has", sash.Rule{KeyExpr: "prefix(ip, 129)", Limits: h}},
		{"the response in the key", sash.Rule{KeyExpr: "response.status", Limits: h}},
		{"the response in When", sash.Rule{KeyExpr: "ip", Limits: h, When: "response.status == 200"}},
		{"a When that is no condition", sash.Rule{KeyExpr: "ip", Limits: h, When: "request.method"}},
		{"a When with one =", sash.Rule{KeyExpr: "ip", Limits: h, When: `request.method = "POST"`}},
		{"a CountIf that is no condition", sash.Rule{KeyExpr: "ip", Limits: h, CountIf: "response.status"}},
		{"a CountIf on a member that a response has not", sash.Rule{KeyExpr: "ip", Limits: h, CountIf: "response.code < 500"}},
		{"a ResetIf on text", sash.Rule{KeyExpr: "ip", Limits: h, ResetIf: `"200"`}},
		{"a division in a Cost", sash.Rule{KeyExpr: "ip", Limits: h, Cost: "len(body.to) / 2"}},
		{"a negative Cost", sash.Rule{KeyExpr: "ip", Limits: h, Cost: "-1"}},
		{"a Cost that is text", sash.Rule{KeyExpr: "ip", Limits: h, Cost: "ip"}},
		{"a Cost that is a fraction", sash.Rule{KeyExpr: "ip", Limits: h, Cost: "0.5"}},
		{"no limits", sash.Rule{KeyExpr: "ip"}},
		{"a limit of 0", sash.SlidingWindowLimit("ip", time.Minute, 0)},
		{"a negative limit", sash.SlidingWindowLimit("ip", time.Minute, -1)},
		{"a limit that no log can hold", sash.SlidingWindowLimit("ip", time.Minute, 1_000_001)},
		{"a window without a unit", sash.SlidingWindowLimit("ip", 60, 3)},
		{"a window of years", sash.SlidingWindowLimit("ip", 10000*time.Hour, 3)},
		{"a window in nanoseconds", sash.SlidingWindowLimit("ip", time.Second+1, 3)},
		{"two limits of one window", sash.Rule{KeyExpr: "ip", Limits: append(h, h...)}},
		{"plans without a choice", sash.Rule{KeyExpr: "ip", Plans: plans}},
		{"a choice without plans", sash.Rule{KeyExpr: "ip", LimitsBy: "ip"}},
		{"limits and a choice", sash.Rule{KeyExpr: "ip", Limits: h, LimitsBy: "ip", Plans: plans}},
		{"a choice that no plan has", sash.Rule{KeyExpr: "ip", LimitsBy: `vars.pro ? "pro" : "fre"`, Plans: plans}},
		{"a choice that is a number", sash.Rule{KeyExpr: "ip", LimitsBy: `1`, Plans: plans}},
		{"a plan without limits", sash.Rule{KeyExpr: "ip", LimitsBy: `"free"`, Plans: map[string][]ratelimit.Limit{"free": nil}}},
		{"a function without Keep", sash.Rule{KeyExpr: "ip", LimitsBy: "ip", LimitsFunc: tell}},
		{"Keep without a function", sash.Rule{KeyExpr: "ip", Limits: h, Keep: time.Hour}},
		{"a CountIf on the body", sash.Rule{KeyExpr: "ip", Limits: h, CountIf: "body.dry == true"}},
		{"a name that no header carries", sash.Rule{Name: "é", KeyExpr: "ip", Limits: h}},
		{"a name with a line break", sash.Rule{Name: "a\nb", KeyExpr: "ip", Limits: h}},
		{"a name with a slash", sash.Rule{Name: "a/b", KeyExpr: "ip", Limits: h}},
		{"a name that is too long", sash.Rule{Name: strings.Repeat("x", 129), KeyExpr: "ip", Limits: h}},
		{"an expression that no header carries", sash.Rule{KeyExpr: `"é"`, Limits: h}},
	}
}
