package keyexpr

import (
	"math"
	"reflect"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

// maxCost is the largest cost, 2147483647.
const maxCost = math.MaxInt32

// Cost is a compiled expression that is a whole number: how many requests this one
// counts for. It is safe for concurrent use and keeps nothing of a request once Of
// has returned.
type Cost struct {
	compiled

	cost int // if it is Constant
}

// CompileCost compiles an expression such as
//
//	len(body.recipients)
//
// What can never be a whole number from 0 is refused: text, a fraction, a division.
// The error is a *[CompileError].
func CompileCost(expression string, config Config) (*Cost, error) {
	c := new(Cost)
	if fault := c.compile(&resolver{kind: costKind, expression: expression, config: config}); fault != nil {
		return nil, fault
	}
	if !c.Constant() {
		return c, nil
	}
	var err error
	if c.cost, err = c.count(nil); err != nil {
		return nil, c.never(err)
	}
	return c, nil
}

// Of is the cost of the request, from 0 to 2147483647. The error is a *KeyError:
// what is nil, a fraction, less or more than that is no cost, and is not rounded.
func (c *Cost) Of(src Source) (int, error) {
	if c.Constant() {
		return c.cost, nil
	}
	return c.count(src)
}

func (c *Cost) count(src Source) (cost int, _ error) {
	failed := c.evaluate(src, func(value any) (failed *fault) {
		cost, failed = wholeCost(value)
		return failed
	})
	if failed != nil {
		return 0, failed
	}
	return cost, nil
}

// wholeCost takes whole numbers of every type, but not text that is one: int(…) is
// there to say that it is meant.
func wholeCost(value any) (int, *fault) {
	cost := -1.0 // every whole number up to maxCost is exact
	switch v := deref(reflect.ValueOf(value)); {
	case !v.IsValid():
		return 0, &fault{problem: Missing}
	case v.CanInt():
		cost = float64(v.Int())
	case v.CanUint():
		cost = float64(v.Uint())
	case v.CanFloat():
		cost = v.Float()
	}
	if cost >= 0 && cost <= maxCost && cost == math.Trunc(cost) {
		return int(cost), nil
	}
	return 0, &fault{problem: WrongType, complaint: "must be a whole number from 0 to " + strconv.Itoa(maxCost)}
}

func (r *resolver) checkCost(node ast.Node) {
	var division divisions
	if ast.Walk(&node, &division); len(division) > 0 {
		r.refuse(division[0], "there is no whole-number division", "a cost is a whole number, and / yields a fraction")
		return
	}
	t := node.Type()
	if _, isNil := node.(*ast.NilNode); isNil {
		r.refuse(node.Location(), "a request that counts for nothing costs 0", "a cost is a whole number, and nil is none")
		return
	}
	if !isUnknown(t) && !isNumber(t) {
		r.refuse(node.Location(), r.hintForCost(node), "a cost is a whole number, and this is %s", describe(t))
		return
	}
	value, constant := r.evaluateConstant(node)
	if !constant {
		if t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 {
			r.refuse(node.Location(), "int(…) takes a float that is whole", "a cost is a whole number, and this is a float")
		}
		return
	}
	if _, failed := wholeCost(value); failed != nil {
		r.refuse(node.Location(), "", "a cost %s", failed.predicate())
	}
}

// divisions are where a node divides.
type divisions []file.Location

func (d *divisions) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.BinaryNode); ok && n.Operator == "/" {
		*d = append(*d, n.Location())
	}
}

// hintForCost says how a value of that type becomes a number.
func (r *resolver) hintForCost(node ast.Node) string {
	part, t := r.spelling(node), node.Type()
	if part == "" {
		part = "…"
	}
	switch t.Kind() {
	case reflect.String:
		return "int(" + part + ") is the number that a text says, len(" + part + ") is how long it is"
	case reflect.Bool:
		return "choose one: … ? 1 : 0"
	case reflect.Slice, reflect.Array, reflect.Map:
		return "count them: len(" + part + ")"
	}
	return r.hintForMembers(node)
}
