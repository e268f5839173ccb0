package keyexpr_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

// response is a Source of a request that has been answered.
type response struct {
	*request
	status int
	header http.Header
}

func (r response) Status() int                 { return r.status }
func (r response) ResponseHeader() http.Header { return r.header }

func TestAConditionSeesTheResponse(t *testing.T) {
	t.Parallel()
	src := response{postJSON(`{"user":"bob"}`), 401, http.Header{"X-Login": {"failed", "again"}, "Empty": {""}}}
	for expression, want := range map[string]bool{
		`response.status < 500`:                            true,
		`response.status == 401 && body.user == "bob"`:     true,
		`response["status"] in [200, 204]`:                 false,
		`response.header("x-login") == "failed"`:           true,
		`response?.header("X-Login") != nil`:               true,
		`response.header("Host") == nil`:                   true,
		`response.header("Empty") == nil`:                  false,
		`lower(response.header("X") ?? "NONE") == "none"`:  true,
		`header("X-Login") == nil && request.method != ""`: true,
	} {
		if holds, err := condition(t, expression, answered()).Holds(src); err != nil || holds != want {
			t.Errorf("%s is %v, %v, want %v", expression, holds, err, want)
		}
	}
}

func TestAFaultNamesTheResponse(t *testing.T) {
	t.Parallel()
	src := response{get("/"), 200, nil}
	for _, row := range []struct {
		expression string
		src        keyexpr.Source
		problem    keyexpr.Problem
		part       string
		detail     string
	}{
		{`lower(response.header("x-a")) == "a"`, src, keyexpr.Missing, `response.header("X-A")`, `The response has no header "X-A".`},
		{`int(response.header("X") ?? "x") == 1`, src, keyexpr.WrongType, `response.header("X")`, `The header "X" of the response is not a whole number.`},
		{`response.status == 1`, get("/"), keyexpr.Unreadable, `response.status`, `There is no response here.`},
		{`response.header("X") == "1"`, get("/"), keyexpr.Unreadable, `response.header("X")`, `There is no response here.`},
	} {
		_, err := condition(t, row.expression, answered()).Holds(row.src)
		failed, ok := errors.AsType[*keyexpr.KeyError](err)
		if !ok || failed.Problem != row.problem || failed.Part != row.part || failed.Detail() != row.detail {
			t.Errorf("%s:\n got %+v\nwant %v of %s: %s", row.expression, failed, row.problem, row.part, row.detail)
		}
	}
	c := condition(t, `response.header("x-a") == "b" || response.status > 1`, answered())
	if want := []string{`response.header("X-A")`, "response.status"}; !slices.Equal(c.Reads(), want) {
		t.Errorf("reads %q, want %q", c.Reads(), want)
	}
}
