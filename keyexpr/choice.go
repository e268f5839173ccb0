package keyexpr

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// Choice is a compiled expression that is one of the texts declared beside it. It
// is safe for concurrent use and keeps nothing of a request once Of has returned.
type Choice struct {
	compiled

	choices []string
	chosen  string // if it is Constant
}

// CompileChoice compiles an expression such as
//
//	vars.user.plan == "pro" ? "pro" : "free"
//
// of which every constant outcome must be one of choices. The error is a *[CompileError].
func CompileChoice(expression string, choices []string, config Config) (*Choice, error) {
	if len(choices) == 0 {
		return nil, &CompileError{Expression: expression, Message: "there is nothing to choose from: choices is empty"}
	}
	c := &Choice{choices: slices.Clone(choices)}
	r := &resolver{kind: choiceKind, expression: expression, config: config, choices: c.choices}
	if fault := c.compile(r); fault != nil {
		return nil, fault
	}
	if !c.Constant() {
		return c, nil
	}
	var err error
	if c.chosen, err = c.choose(nil); err != nil {
		return nil, c.never(err)
	}
	return c, nil
}

// Of is the choice for the request. The error is a *KeyError: what is none of the
// choices is not replaced by one of them.
func (c *Choice) Of(src Source) (string, error) {
	if c.Constant() {
		return c.chosen, nil
	}
	return c.choose(src)
}

func (c *Choice) choose(src Source) (chosen string, _ error) {
	failed := c.evaluate(src, func(value any) (failed *fault) {
		chosen, failed = oneOf(c.choices, value)
		return failed
	})
	if failed != nil {
		return "", failed
	}
	return chosen, nil
}

// oneOf returns the choice itself, so that nothing of the request is kept.
func oneOf(choices []string, value any) (string, *fault) {
	v := deref(reflect.ValueOf(value))
	if !v.IsValid() {
		return "", &fault{problem: Missing}
	}
	if v.Kind() == reflect.String {
		if i := slices.Index(choices, v.String()); i >= 0 {
			return choices[i], nil
		}
	}
	return "", &fault{problem: WrongType, complaint: "is none of the values that are expected"}
}

func (r *resolver) checkChoice(node ast.Node) {
	t := node.Type()
	if _, isNil := node.(*ast.NilNode); isNil {
		r.refuseListing(node.Location(), "choices", r.choices, "", "a choice is text, and nil is none")
		return
	}
	if t.Kind() != reflect.String && !isUnknown(t) {
		r.refuseListing(node.Location(), "choices", r.choices, r.hintForChoice(node), "a choice is text, and this is %s", describe(t))
		return
	}
	value, constant := r.evaluateConstant(node)
	if text, ok := value.(string); constant && ok && !slices.Contains(r.choices, text) {
		hint := ""
		if near := nearest(text, r.choices); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		r.refuseListing(node.Location(), "choices", r.choices, hint, "%q is not among the choices", text)
	}
}

func (r *resolver) hintForChoice(node ast.Node) string {
	if node.Type().Kind() == reflect.Bool {
		return fmt.Sprintf("choose one: … ? %q : %q", r.choices[0], r.choices[len(r.choices)-1])
	}
	return r.hintForMembers(node)
}
