package keyexpr

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
)

// checkResult refuses results that the kind can never take. A type that is not
// known before the request comes is left to the evaluation.
func (r *resolver) checkResult(node ast.Node) {
	for _, o := range outcomes(node, nil) {
		switch r.kind {
		case keyKind:
			r.checkKey(o)
		case conditionKind:
			r.checkCondition(o.node)
		case costKind:
			r.checkCost(o.node)
		case choiceKind:
			r.checkChoice(o.node)
		}
	}
}

// An outcome is a node that can be what an expression yields, and the lets around it.
type outcome struct {
	node ast.Node
	lets []*ast.VariableDeclaratorNode
}

// outcomes are all of a resolved node: a ? b : c has b and c, a ?? b has a and b,
// and a let has those of what follows it, to which its value may belong.
func outcomes(node ast.Node, lets []*ast.VariableDeclaratorNode) []outcome {
	c := &collector{seen: map[*ast.VariableDeclaratorNode]bool{}}
	c.collect(node, lets)
	return c.found
}

// A collector follows the value of each let once: a let that is named twice in the
// value of the next, and so on, has more outcomes than anybody can wait for.
type collector struct {
	found []outcome
	seen  map[*ast.VariableDeclaratorNode]bool
}

func (c *collector) collect(node ast.Node, lets []*ast.VariableDeclaratorNode) {
	switch n := node.(type) {
	case *ast.VariableDeclaratorNode:
		c.collect(n.Expr, append(slices.Clip(lets), n))
		return
	case *ast.ConditionalNode:
		c.collect(n.Exp1, lets)
		c.collect(n.Exp2, lets)
		return
	case *ast.BinaryNode:
		if n.Operator == "??" {
			c.collect(n.Left, lets)
			c.collect(n.Right, lets)
			return
		}
	case *ast.ChainNode:
		c.collect(n.Node, lets)
		return
	case *ast.IdentifierNode:
		for i, let := range slices.Backward(lets) {
			if let.Name != n.Value {
				continue
			}
			if !c.seen[let] {
				c.seen[let] = true
				c.collect(let.Value, lets[:i])
			}
			return
		}
	}
	c.found = append(c.found, outcome{node, lets})
}

func (r *resolver) checkKey(o outcome) {
	list, ok := o.node.(*ast.ArrayNode)
	if !ok {
		r.checkPart(o.node, true)
		return
	}
	if n := len(list.Nodes); n == 0 || n > maxParts {
		r.refuse(list.Location(), "", "a list of %d elements is not a key; it takes 1 to %d", n, maxParts)
	}
	for _, element := range list.Nodes {
		for _, part := range outcomes(element, o.lets) {
			r.checkPart(part.node, false)
		}
	}
}

func (r *resolver) checkPart(node ast.Node, listAllowed bool) {
	if i, ok := readIndex(node); ok && !slices.Contains(r.verbatim, r.reads[i].part) {
		r.verbatim = append(r.verbatim, r.reads[i].part)
	}
	switch n := node.(type) {
	case *ast.NilNode:
		r.refuse(n.Location(), "", "nil is not a key: every request without one would share it")
	case *ast.StringNode:
		if n.Value == "" {
			r.refuse(n.Location(), "", "an empty text is not a key")
		}
	case *ast.FloatNode:
		if !isWholeFloat(n.Value) {
			r.refuse(n.Location(), "", "a fraction is not a key")
		}
	default:
		r.checkPartType(n, listAllowed)
	}
}

func (r *resolver) checkPartType(node ast.Node, listAllowed bool) {
	switch t := node.Type(); t.Kind() {
	case reflect.Map:
		r.refuse(node.Location(), "to count by several values together, write a list: [a, b]", "a map is not a key")
	case reflect.Slice, reflect.Array:
		switch element := plainType(t.Elem()); {
		case !listAllowed:
			r.refuse(node.Location(), "", "a list within a list is not a key")
		case t.Elem().Kind() == reflect.Uint8:
			r.refuse(node.Location(), "", "bytes are not a key")
		case element != nil && !isScalar(element):
			r.refuse(node.Location(), "", "each element of this list is %s, which is not a part of a key", describe(element))
		}
	default:
		if !isScalar(t) {
			r.refuse(node.Location(), r.hintForMembers(node), "%s is not a key", describe(t))
		}
	}
}

// isScalar is true of the types of a part, and of what is not known.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Func, reflect.Chan,
		reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return false
	}
	return true
}

func isUnknown(t reflect.Type) bool { return t.Kind() == reflect.Interface }

// describe is a type in a sentence.
func describe(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "a time"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case isWhole(t):
		return "a whole number"
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		return "a float"
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return "a list"
	case t.Kind() == reflect.Map:
		return "a map"
	case t.Kind() == reflect.Func:
		return "a function"
	case t.Kind() == reflect.Struct && t.Name() == "":
		return "a struct"
	}
	return "a value of type " + typeName(t)
}

func isWhole(t reflect.Type) bool {
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uint64
}

// typeName is a type as its package writes it.
func typeName(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer && t.Name() == "":
		return typeName(t.Elem())
	case t == reflect.TypeFor[any]():
		return "any"
	case t == reflect.TypeFor[[]byte]():
		return "[]byte"
	case t.Name() != "":
		return t.Name()
	case t.Kind() == reflect.Slice:
		return "[]" + typeName(t.Elem())
	case t.Kind() == reflect.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), typeName(t.Elem()))
	case t.Kind() == reflect.Map:
		return "map[" + typeName(t.Key()) + "]" + typeName(t.Elem())
	}
	return t.Kind().String()
}

// spelling is a read as the expression may write it, "" if node is no read.
func (r *resolver) spelling(node ast.Node) string {
	if i, ok := readIndex(node); ok {
		return r.reads[i].part
	}
	return ""
}

// hintForMembers says that a struct is asked for its members.
func (r *resolver) hintForMembers(node ast.Node) string {
	part, t := r.spelling(node), node.Type()
	if part == "" || t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return ""
	}
	var names []string
	for _, f := range fieldsOf(t).order {
		names = append(names, part+step{name: f.name}.String())
	}
	const few = 5
	if len(names) > few {
		names = append(names[:few], "…")
	}
	if len(names) == 0 {
		return ""
	}
	return "name a member: " + strings.Join(names, ", ")
}
