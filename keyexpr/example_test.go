package keyexpr_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"

	"github.com/sashlimit/sash/keyexpr"
)

func ExampleCompile() {
	_, err := keyexpr.Compile(`lower(body.email) + request.metod`, keyexpr.Config{})
	fmt.Println(err)
	// Output:
	// keyexpr: 1:29: request has no member "metod"
	//     lower(body.email) + request.metod
	//                                 ^
	//   did you mean "request.method"?
	//   names: request.host, request.method, request.path, request.proto, request.remoteAddr
}

func ExampleProgram_Key() {
	program, err := keyexpr.Compile(`[email(body.email), request.path]`, keyexpr.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("POST", "/send/code", strings.NewReader(`{"email":" 6888@Example.com"}`))

	key, err := program.Key(plain{r}, nil)
	fmt.Printf("%q %v\n", key, err)
	body, _ := io.ReadAll(r.Body) // as the handler does
	fmt.Printf("%s\n", body)
	// Output:
	// ["6888@example.com" "/send/code"] <nil>
	// {"email":" 6888@Example.com"}
}

func ExampleKeyError() {
	program, err := keyexpr.Compile(`header("X-Api-Key")`, keyexpr.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = program.Key(plain{httptest.NewRequest("GET", "/", nil)}, nil)
	fmt.Println(err.(*keyexpr.KeyError).Detail())
	// Output: The request has no header "X-Api-Key".
}

func ExampleCondition() {
	when, err := keyexpr.CompileCondition(`request.method == "POST" && header("X-Internal") == nil`, keyexpr.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(when.Holds(plain{httptest.NewRequest("POST", "/", nil)}))
	fmt.Println(when.Holds(plain{httptest.NewRequest("GET", "/", nil)}))

	_, err = keyexpr.CompileCondition(`request.method`, keyexpr.Config{})
	fmt.Println(err)
	// Output:
	// true <nil>
	// false <nil>
	// keyexpr: 1:9: a condition is true or false, and this is text
	//     request.method
	//             ^
	//   compare it: request.method == "POST"
}

func ExampleCost() {
	cost, err := keyexpr.CompileCost(`len(body.recipients)`, keyexpr.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cost.Of(plain{httptest.NewRequest("POST", "/", strings.NewReader(`{"recipients":["a","b","c"]}`))}))

	_, err = keyexpr.CompileCost(`len(body.recipients) / 2`, keyexpr.Config{})
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// keyexpr: 1:22: a cost is a whole number, and / yields a fraction
	//     len(body.recipients) / 2
	//                          ^
	//   there is no whole-number division
}

func ExampleChoice() {
	plans := []string{"pro", "free"}
	plan, err := keyexpr.CompileChoice(`header("X-Plan") == "pro" ? "pro" : "free"`, plans, keyexpr.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Of(plain{httptest.NewRequest("GET", "/", nil)}))

	_, err = keyexpr.CompileChoice(`header("X-Plan") ?? "fre"`, plans, keyexpr.Config{})
	fmt.Println(err)
	// Output:
	// free <nil>
	// keyexpr: 1:21: "fre" is not among the choices
	//     header("X-Plan") ?? "fre"
	//                         ^
	//   did you mean "free"?
	//   choices: pro, free
}

// A function is limited by its argument; a wrong name is found while it is wired.
func ExampleConfig_argument() {
	type SendCode struct {
		Email  string `json:"email"`
		Tenant string `json:"tenant"`
	}
	config := keyexpr.Config{Argument: reflect.TypeFor[SendCode](), NoRequest: true}
	program, err := keyexpr.Compile(`[tenant, email(email)]`, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := program.Key(called{plain{}, SendCode{Email: "6888@Example.com", Tenant: "acme"}}, nil)
	fmt.Printf("%q %v\n", key, err)

	_, err = keyexpr.Compile(`in.emial`, config)
	fmt.Println(err)
	// Output:
	// ["acme" "6888@example.com"] <nil>
	// keyexpr: 1:4: no member "emial" in SendCode
	//     in.emial
	//        ^
	//   did you mean "email"?
	//   members: email string, tenant string
}

// called is a Source of a function's argument.
type called struct {
	plain
	argument any
}

func (c called) Argument() any { return c.argument }

// plain is a Source for net/http without a mux.
type plain struct{ r *http.Request }

func (p plain) Request() *http.Request { return p.r }
func (p plain) Route() string          { return "" }
func (p plain) Param(name string) (string, bool) {
	return p.r.PathValue(name), p.r.PathValue(name) != ""
}
func (p plain) Var(string) (any, bool) { return nil, false }
func (p plain) Body() ([]byte, bool)   { return nil, false }
