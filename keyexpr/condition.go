package keyexpr

import (
	"reflect"

	"github.com/expr-lang/expr/ast"
)

// Condition is a compiled expression that is true or false of a request. It is safe
// for concurrent use and keeps nothing of a request once Holds has returned.
type Condition struct {
	compiled

	holds bool // if it is Constant
}

// CompileCondition compiles an expression such as
//
//	request.method == "POST" && vars.user != nil
//
// What can never be true or false is refused. The error is a *[CompileError].
func CompileCondition(expression string, config Config) (*Condition, error) {
	c := new(Condition)
	if fault := c.compile(&resolver{kind: conditionKind, expression: expression, config: config}); fault != nil {
		return nil, fault
	}
	if !c.Constant() {
		return c, nil
	}
	var err error
	if c.holds, err = c.answer(nil); err != nil {
		return nil, c.never(err)
	}
	return c, nil
}

// Holds tells whether the condition is true of the request. It reads only what the
// evaluation reaches: in request.method == "POST" && body.dry != true the body of
// a GET is not touched. The error is a *KeyError; what is nil is neither true nor false.
//
// If Config.Response was set, src is a [ResponseSource].
func (c *Condition) Holds(src Source) (bool, error) {
	if c.Constant() {
		return c.holds, nil
	}
	return c.answer(src)
}

func (c *Condition) answer(src Source) (holds bool, _ error) {
	failed := c.evaluate(src, func(value any) (failed *fault) {
		holds, failed = truth(value)
		return failed
	})
	if failed != nil {
		return false, failed
	}
	return holds, nil
}

func truth(value any) (bool, *fault) {
	if holds, ok := value.(bool); ok {
		return holds, nil
	}
	v := deref(reflect.ValueOf(value))
	switch v.Kind() {
	case reflect.Invalid:
		return false, &fault{problem: Missing}
	case reflect.Bool:
		return v.Bool(), nil
	}
	return false, &fault{problem: WrongType, complaint: "must be true or false"}
}

func (r *resolver) checkCondition(node ast.Node) {
	t := node.Type()
	switch _, isNil := node.(*ast.NilNode); {
	case isNil:
		r.refuse(node.Location(), "to ask whether there is a value, compare: … != nil", "a condition is true or false, and nil is neither")
	case t.Kind() != reflect.Bool && !isUnknown(t):
		r.refuse(node.Location(), r.hintForCondition(node), "a condition is true or false, and this is %s", describe(t))
	}
}

// hintForCondition says how a value of that type becomes an answer.
func (r *resolver) hintForCondition(node ast.Node) string {
	part, t := r.spelling(node), node.Type()
	switch {
	case part == "response.status":
		return "compare it: response.status < 500"
	case part == "request.method":
		return `compare it: request.method == "POST"`
	case part != "" && t.Kind() == reflect.String:
		return "compare it: " + part + ` == "…"`
	case t.Kind() == reflect.String && r.config.NoRequest:
		return `compare it: … == "…"`
	case t.Kind() == reflect.String:
		return `compare it, as in request.method == "POST"`
	case part != "" && isNumber(t):
		return "compare it: " + part + " > 0"
	case isNumber(t):
		return "compare it: … > 0"
	case part != "" && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map):
		return "compare its length: len(" + part + ") > 0"
	}
	return r.hintForMembers(node)
}

func isNumber(t reflect.Type) bool {
	return isWhole(t) || t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64
}
