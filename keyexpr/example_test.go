package keyexpr_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// plain is a Source for net/http without a mux.
type plain struct{ r *http.Request }

func (p plain) Request() *http.Request { return p.r }
func (p plain) Route() string          { return "" }
func (p plain) Param(name string) (string, bool) {
	return p.r.PathValue(name), p.r.PathValue(name) != ""
}
func (p plain) Var(string) (any, bool) { return nil, false }
func (p plain) Body() ([]byte, bool)   { return nil, false }
