package keyexpr_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sashlimit/sash/keyexpr"
)

// SendRequest is what a function of the application is called with.
type SendRequest struct {
	Sender
	*Tracing

	Email      string            `json:"email"`
	Subject    string            // has its Go name in JSON as well
	User       *Account          `json:"user,omitempty"`
	Recipients []Account         `json:"recipients"`
	Tags       []string          `json:"tags"`
	Pair       [2]int            `json:"pair"`
	Labels     map[string]string `json:"labels"`
	ByNumber   map[int8]string   `json:"byNumber"`
	Extra      any               `json:"extra"`
	Secret     string            `json:"-"`
	Dash       string            `json:"a-b"`
	Body       string            `json:"body"`
	Header     string            `json:"header"`
	Response   string            `json:"response"`
	Count      int               `json:"count"`
	Small      *uint8            `json:"small"`
	Ratio      float64           `json:"ratio"`
	Urgent     bool              `json:"urgent"`
	At         time.Time         `json:"at"`
	Until      *time.Time        `json:"until"`
	ID         uuid.UUID         `json:"id"`
	Plan       plan              `json:"plan"`
	Number     json.Number       `json:"number"`
	Raw        []byte            `json:"raw"`
	Hook       func()            `json:"hook"`
	Swapped    string            `json:"Other"`
	Other      string            `json:"Swapped"`
	inner      string
}

func (SendRequest) Delete() string { panic("a method of the argument was called") }

// Sender and Tracing are embedded.
type Sender struct {
	Tenant string `json:"tenant"`
	Email  string `json:"email"` // hidden by that of SendRequest
	Twice  string `json:"twice"`
}

type Tracing struct {
	Trace string `json:"trace"`
	Twice string `json:"twice"`
}

type Account struct {
	ID    int64    `json:"id"`
	Email *string  `json:"email"`
	Next  *Account `json:"next"`
}

// call is a Source of a plain function: it has an argument, and no request.
type call struct{ argument any }

func (c call) Argument() any             { return c.argument }
func (call) Request() *http.Request      { panic("a plain function has no request") }
func (call) Route() string               { return "" }
func (call) Param(string) (string, bool) { return "", false }
func (call) Var(string) (any, bool)      { return nil, false }
func (call) Body() ([]byte, bool)        { return nil, false }

// bound is a Source of a typed handler: it has a request and an argument.
type bound struct {
	*request
	argument any
}

func (b bound) Argument() any { return b.argument }

func ofFunction[In any]() keyexpr.Config {
	return keyexpr.Config{Argument: reflect.TypeFor[In](), NoRequest: true}
}

func ofHandler[In any]() keyexpr.Config {
	config := everything
	config.Argument = reflect.TypeFor[In]()
	return config
}

func sendRequest() SendRequest {
	address, small := "next@example.com", uint8(7)
	return SendRequest{
		Sender: Sender{Tenant: "acme", Email: "hidden@example.com"}, Tracing: &Tracing{Trace: "t1", Twice: "2"},
		Email: "Bob@example.com", Subject: "code", User: &Account{ID: 42, Next: &Account{Email: &address}},
		Recipients: []Account{{ID: 1}, {ID: 2}}, Tags: []string{"a", "b"}, Pair: [2]int{3, 4},
		Labels: map[string]string{"a b": "x"}, ByNumber: map[int8]string{5: "five"},
		Extra:  map[string]any{"list": []any{1.0, Account{ID: 9}}, "ptr": &Account{ID: 8}, "n": json.Number("1e1")},
		Secret: "s", Dash: "d", Body: "text", Header: "h", Response: "r", Count: 3, Small: &small, Ratio: 2, Urgent: true,
		At: time.Unix(0, 0), ID: uuid.UUID{}, Plan: "pro", Number: "12.0", Raw: []byte("x"), inner: "i",
	}
}

func TestAnExpressionSeesTheArgument(t *testing.T) {
	t.Parallel()
	in := sendRequest()
	for expression, want := range map[string][]string{
		`email`:                           {"Bob@example.com"},
		`Email`:                           {"Bob@example.com"},
		`in.email`:                        {"Bob@example.com"},
		`in["Email"]`:                     {"Bob@example.com"},
		`in?.email`:                       {"Bob@example.com"},
		`email(email)`:                    {"bob@example.com"},
		`email | email()`:                 {"bob@example.com"},
		`Subject`:                         {"code"},
		`tenant`:                          {"acme"},
		`Sender.Email`:                    {"hidden@example.com"},
		`in.Sender.tenant`:                {"acme"},
		`trace`:                           {"t1"},
		`user.id`:                         {"42"},
		`User.ID`:                         {"42"},
		`user.next.email`:                 {"next@example.com"},
		`user?.next?.email`:               {"next@example.com"},
		`recipients[1].id`:                {"2"},
		`Tags[0]`:                         {"a"},
		`tags`:                            {"a", "b"},
		`pair`:                            {"3", "4"},
		`pair[1]`:                         {"4"},
		`labels["a b"]`:                   {"x"},
		`byNumber[5]`:                     {"five"},
		`extra.list[0]`:                   {"1"},
		`extra.list[1].id`:                {"9"},
		`extra.ptr.ID`:                    {"8"},
		`extra.n`:                         {"10"},
		`Secret`:                          {"s"},
		`in["a-b"]`:                       {"d"},
		`Dash`:                            {"d"},
		`body`:                            {"text"},
		`header`:                          {"h"},
		`response`:                        {"r"},
		`small`:                           {"7"},
		`ratio`:                           {"2"},
		`urgent`:                          {"true"},
		`id`:                              {"00000000-0000-0000-0000-000000000000"},
		`plan == "pro" ? "paid" : "free"`: {"paid"},
		`number`:                          {"12"},
		`count + 1`:                       {"4"},
		`[tenant, user.id]`:               {"acme", "42"},
		`len(recipients)`:                 {"2"},
		`let u = user; u.id`:              {"42"},
		`let u = in; let n = u.user.next; n.email`: {"next@example.com"},
		`let n = count; n * 2`:                     {"6"},
		`"b" in tags ? "yes" : "no"`:               {"yes"},
		`"é" in in.tags ? "yes" : in.tenant`:       {"acme"},
		`in.count not in [1, 2] ? in.count : 0`:    {"3"},
		`not in.urgent ? 1 : 2`:                    {"2"},
		`not (in.count in [3]) ? 1 : 2`:            {"2"},
		`{"in": in.tenant}.in`:                     {"acme"},
		`until == nil ? "never" : "x"`:             {"never"},
		`until == nil && at != in.at ? 1 : 2`:      {"2"},
		`user.email ?? tenant`:                     {"acme"},
		`user.next.next.id ?? 0`:                   {"0"},
		`recipients[2].id ?? "none"`:               {"none"},
		`labels.b ?? "none"`:                       {"none"},
		`extra.ptr.email ?? extra.x ?? "none"`:     {"none"},
	} {
		t.Run(expression, func(t *testing.T) {
			p := compileWith(t, expression, ofFunction[SendRequest]())
			for _, argument := range []any{in, &in} {
				if key, err := p.Key(call{argument}, nil); err != nil || !slices.Equal(key, want) {
					t.Errorf("%s yields %q, %v, want %q", expression, key, err, want)
				}
			}
			behindPointer := compileWith(t, expression, ofFunction[*SendRequest]())
			if key, err := behindPointer.Key(call{&in}, nil); err != nil || !slices.Equal(key, want) {
				t.Errorf("%s behind a pointer yields %q, %v, want %q", expression, key, err, want)
			}
		})
	}
}

func TestATypedHandlerSeesTheRequestAsWell(t *testing.T) {
	t.Parallel()
	r := postJSON(`{"email":"body@example.com"}`)
	for expression, want := range map[string]string{
		`email`:      "Bob@example.com",
		`body.email`: "body@example.com", // the name of the request, although there is a member body
		`in.body`:    "text",
		`ip`:         "192.0.2.1",
		`in.header`:  "h",
	} {
		key, err := compileWith(t, expression, ofHandler[SendRequest]()).Key(bound{r, sendRequest()}, nil)
		if err != nil || !slices.Equal(key, []string{want}) {
			t.Errorf("%s yields %q, %v, want %q", expression, key, err, want)
		}
	}
}

func TestEveryMemberOfAMapOrAnyIsAName(t *testing.T) {
	t.Parallel()
	argument := map[string]any{"email": "a@b.c", "user": map[string]any{"id": 7}}
	for _, config := range []keyexpr.Config{ofFunction[map[string]any](), ofFunction[any]()} {
		p := compileWith(t, `[email, user.id, in.user.id, lower(email), nothing ?? "none"]`, config)
		want := []string{"a@b.c", "7", "7", "a@b.c", "none"}
		if key, err := p.Key(call{argument}, nil); err != nil || !slices.Equal(key, want) {
			t.Errorf("%v: %q, %v, want %q", config.Argument, key, err, want)
		}
	}
	if key, err := compileWith(t, `in`, ofFunction[string]()).Key(call{"text"}, nil); err != nil || !slices.Equal(key, []string{"text"}) {
		t.Errorf("in is %q, %v", key, err)
	}
}

func TestAFaultNamesTheMemberOfTheArgument(t *testing.T) {
	t.Parallel()
	zero, odd := SendRequest{}, SendRequest{Extra: 1, Ratio: 1.5, Number: "x", Raw: []byte("x")}
	for _, row := range []struct {
		expression string
		argument   any
		problem    keyexpr.Problem
		part       string
		detail     string
	}{
		{`email`, zero, keyexpr.Empty, `in.email`, `The member "email" of the argument is empty.`},
		{`Email`, zero, keyexpr.Empty, `in.email`, `The member "email" of the argument is empty.`},
		{`user.id`, zero, keyexpr.Missing, `in.user.id`, `The argument has no member "user.id".`},
		{`trace`, zero, keyexpr.Missing, `in.trace`, `The argument has no member "trace".`},
		{`recipients[0].id`, zero, keyexpr.Missing, `in.recipients[0].id`, `The argument has no member "recipients[0].id".`},
		{`tags`, zero, keyexpr.Missing, `in.tags`, `The argument has no member "tags".`},
		{`tags`, SendRequest{Tags: []string{}}, keyexpr.Empty, `in.tags`, `The member "tags" of the argument is empty.`},
		{`labels.x`, zero, keyexpr.Missing, `in.labels.x`, `The argument has no member "labels.x".`},
		{`extra.x`, zero, keyexpr.Missing, `in.extra.x`, `The argument has no member "extra.x".`},
		{`extra.x`, odd, keyexpr.WrongType, `in.extra.x`, `The member "extra.x" of the argument cannot be reached: what holds it has another type.`},
		{`extra.inner`, SendRequest{Extra: zero}, keyexpr.WrongType, `in.extra.inner`, `The member "extra.inner" of the argument cannot be reached: what holds it has another type.`},
		{`extra.Delete`, SendRequest{Extra: zero}, keyexpr.WrongType, `in.extra.Delete`, `The member "extra.Delete" of the argument cannot be reached: what holds it has another type.`},
		{`extra`, SendRequest{Extra: zero}, keyexpr.WrongType, `in.extra`, `The member "extra" of the argument must be text, a whole number, true or false, or a list of those.`},
		{`ratio`, odd, keyexpr.WrongType, `in.ratio`, `The member "ratio" of the argument must be text, a whole number, true or false, or a list of those.`},
		{`number`, odd, keyexpr.Malformed, `in.number`, `The member "number" of the argument is a number too large or too precise to count by.`},
		{`email`, (*SendRequest)(nil), keyexpr.Missing, `in.email`, `The argument has no member "email".`},
		{`email`, nil, keyexpr.Missing, `in.email`, `The argument has no member "email".`},
		{`email`, 5, keyexpr.Unreadable, `in.email`, `The argument is not of the type that was declared.`},
		{`[tenant, user.id]`, SendRequest{Sender: Sender{Tenant: "x"}}, keyexpr.Missing, `in.user.id`, `The argument has no member "user.id".`},
		{`let e = email; [e, count]`, zero, keyexpr.Empty, `let e = email; [e, count]`, `What this call is counted by is empty.`},
		{`{"a": 1}[tenant]`, zero, keyexpr.Missing, `in.tenant`, `The argument has no member "tenant".`},
	} {
		_, err := compileWith(t, row.expression, ofFunction[SendRequest]()).Key(call{row.argument}, nil)
		failed, ok := errors.AsType[*keyexpr.KeyError](err)
		if !ok || failed.Problem != row.problem || failed.Part != row.part || failed.Detail() != row.detail {
			t.Errorf("%s:\n got %+v\nwant %v of %s: %s", row.expression, failed, row.problem, row.part, row.detail)
		}
	}
	for _, expression := range []string{`trace ?? "none"`, `user.next.email ?? "none"`, `extra.a.b ?? tags[0] ?? labels.a ?? "none"`, `small ?? "none"`} {
		if key, err := compileWith(t, expression, ofFunction[SendRequest]()).Key(call{zero}, nil); err != nil || key[0] != "none" {
			t.Errorf("%s is %q, %v", expression, key, err)
		}
	}
	_, err := compileWith(t, `email`, ofHandler[SendRequest]()).Key(bound{get("/"), zero}, nil)
	if failed, _ := errors.AsType[*keyexpr.KeyError](err); failed == nil || failed.Detail() != `The member "email" of the request is empty.` {
		t.Errorf("a client reads %v", failed)
	}
	_, err = compileWith(t, `email`, ofHandler[SendRequest]()).Key(get("/"), nil)
	if failed, _ := errors.AsType[*keyexpr.KeyError](err); failed == nil || failed.Detail() != `There is no argument here.` {
		t.Errorf("without an argument: %v", failed)
	}
}

// TestMembersHaveTheNamesOfJSON holds the names against encoding/json itself.
func TestMembersHaveTheNamesOfJSON(t *testing.T) {
	t.Parallel()
	type Deep struct{ A, B, F string }
	type deep struct {
		D string `json:"d"`
		E string
	}
	type Left struct {
		Deep
		B string `json:"B"`
		F string
		G string `json:"G"`
	}
	type Right struct {
		F string
		G string
		H string `json:"left"`
	}
	type All struct {
		Left
		*Right
		deep
		C     string `json:"c,omitempty"`
		Named Right  `json:"named"`
		Plain string `json:",omitempty"`
	}
	in := All{
		Left: Left{Deep: Deep{"1", "2", "3"}, B: "4", F: "5", G: "6"}, Right: &Right{"7", "8", "9"}, deep: deep{"10", "11"},
		C: "12", Named: Right{F: "13"}, Plain: "14",
	}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		text, ok := value.(string)
		if !ok {
			continue
		}
		p, err := keyexpr.Compile(`in["`+name+`"]`, ofFunction[All]())
		if err != nil {
			t.Error(err)
			continue
		}
		if key, err := p.Key(call{in}, nil); err != nil || key[0] != text {
			t.Errorf("%s is %q, %v; in JSON it is %q", name, key, err, text)
		}
	}
	for _, name := range []string{"F", "E "} { // two of one name at one depth; no name at all
		if _, err := keyexpr.Compile(`in["`+name+`"]`, ofFunction[All]()); err == nil {
			t.Errorf("%s compiles, but JSON has none (%s)", name, data)
		}
	}
}

func TestReadsOfAnArgumentAreListedForAudits(t *testing.T) {
	t.Parallel()
	p := compileWith(t, `[Email, in.email, user.id ?? ip, labels["a b"], lower(tenant), body.x]`, ofHandler[SendRequest]())
	want := []string{`body.x`, `in.email`, `in.labels["a b"]`, `in.tenant`, `in.user.id`, `ip`}
	if got := p.Reads(); !slices.Equal(got, want) {
		t.Errorf("reads %q, want %q", got, want)
	}
	verbatim := []string{`body.x`, `in.email`, `in.labels["a b"]`, `in.user.id`, `ip`}
	if got := p.Verbatim(); !slices.Equal(got, verbatim) {
		t.Errorf("takes %q as they are, want %q", got, verbatim)
	}
}

func TestOneArgumentProgramServesManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	p := compileWith(t, `[email, extra.id ?? extra[0], user.id]`, ofFunction[SendRequest]())
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				in := SendRequest{Email: strings.Repeat("e", worker+1), User: &Account{ID: int64(i)}, Extra: Account{ID: 5}}
				want := []string{in.Email, "5"}
				if i%2 == 0 {
					in.Extra = map[string]any{"id": "five"}
					want[1] = "five"
				}
				key, err := p.Key(call{&in}, nil)
				if err != nil || !slices.Equal(key[:2], want) {
					t.Errorf("got %q, %v, want %q", key, err, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestWhatMarshalsItselfIsText(t *testing.T) {
	t.Parallel()
	type input struct {
		Big   *big.Int
		Any   any
		Text  encoding.TextMarshaler
		At    time.Time
		Until *time.Time
		IDs   []uuid.UUID
		Wait  time.Duration
		Deep  **big.Int
	}
	now, deep := time.Now(), big.NewInt(4)
	in := input{big.NewInt(1), big.NewInt(2), big.NewInt(3), now, &now, []uuid.UUID{{}}, time.Second, &deep}
	for expression, want := range map[string]string{
		`Big`: "1", `Big == "1" ? "yes" : "no"`: "yes", `Any`: "2", `Any == "2" ? "yes" : "no"`: "yes", `Text + "!"`: "3!", `Deep`: "4",
		`Until == At ? "yes" : "no"`: "yes", `IDs[0] + "."`: "00000000-0000-0000-0000-000000000000.", `IDs`: "00000000-0000-0000-0000-000000000000",
		`Wait + 1`: "1000000001",
	} {
		key, err := compileWith(t, expression, ofFunction[input]()).Key(call{&in}, nil)
		if err != nil || !slices.Equal(key, []string{want}) {
			t.Errorf("%s is %q, %v, want %q", expression, key, err, want)
		}
	}
	for _, expression := range []string{`Big`, `Any`, `Text`, `Deep`, `IDs`} {
		_, err := compileWith(t, expression, ofFunction[input]()).Key(call{&input{}}, nil)
		if failed, ok := errors.AsType[*keyexpr.KeyError](err); !ok || failed.Problem != keyexpr.Missing {
			t.Errorf("%s, which is nil: %v", expression, err)
		}
	}
}

func TestAnIndexOfAMapIsNotBent(t *testing.T) {
	t.Parallel()
	if _, err := keyexpr.Compile(`byNumber[300]`, ofFunction[SendRequest]()); err == nil {
		t.Error("300 is no int8, but compiles")
	}
	in := SendRequest{Count: math.MaxInt}
	if key, err := compileWith(t, `count`, ofFunction[SendRequest]()).Key(call{in}, nil); err != nil || key[0] != "9223372036854775807" {
		t.Errorf("got %q, %v", key, err)
	}
}
