package keyexpr_test

import (
	"errors"
	"testing"

	"github.com/sashlimit/sash/keyexpr"
)

const (
	members = `
  members: tenant string, trace string, email string, Subject string, user Account, recipients []Account, tags []string, pair [2]int, labels map[string]string, byNumber map[int8]string, extra any, Secret string, "-" string, body string, header string, response string, count int, small uint8, ratio float64, urgent bool, at Time, until Time, id UUID, plan plan, number Number, raw []byte, hook func, Other string, Swapped string`
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

var _ = errors.New
var _ testing.TB
