package keyexpr

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/parser"
)

// Compile checks an expression as far as it can be without a request, and makes
// a program of it. The error is a *[CompileError].
//
// An expression that reads nothing, "global" for example, is evaluated here.
func Compile(expression string, config Config) (program *Program, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			program, err = nil, &CompileError{Expression: expression, Message: "the key expression cannot be compiled"}
		}
	}()
	if config.MaxBodyBytes < 0 {
		return nil, &CompileError{Expression: expression, Message: "keyexpr.Config.MaxBodyBytes is negative"}
	}
	if fault := checkSource(expression); fault != nil {
		return nil, fault
	}
	p, fault := compile(expression, config)
	if fault != nil {
		return nil, fault
	}
	return p, nil
}

// compile does what expr.Compile does, in its order. We stand between the steps
// because a resolver must see the tree from the top, and once: a patcher of that
// package sees every name before it can know whether a member follows.
func compile(expression string, config Config) (*Program, *CompileError) {
	language := newLanguage()
	tree, err := parser.ParseWithConfig(expression, language)
	if err != nil {
		return nil, translate(expression, err)
	}
	r := &resolver{expression: expression, config: config}
	if r.resolve(&tree.Node); r.err != nil {
		return nil, r.err
	}
	if _, err := checker.Check(tree, language); err != nil {
		return nil, translate(expression, err)
	}
	if r.checkKey(tree.Node); r.err != nil {
		return nil, r.err
	}
	p := &Program{expression: expression, maxBodyBytes: config.maxBodyBytes(), reads: r.reads}
	p.sole, p.elements = soleRead(tree.Node, p.reads), soleReads(tree.Node, p.reads)
	if err := optimizer.Optimize(&tree.Node, language); err != nil {
		return nil, translate(expression, err)
	}
	if p.code, err = compiler.Compile(tree, language); err != nil {
		return nil, translate(expression, err)
	}
	p.machines.New = func() any { return newMachine(p) }
	if len(p.reads) == 0 {
		return p, p.fold()
	}
	return p, nil
}

// newLanguage is the expression language without its builtins, with ours.
func newLanguage() *conf.Config {
	language := conf.CreateNew()
	options := []expr.Option{expr.Env(environment{}), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes)}
	for _, f := range functions() {
		options = append(options, expr.Function(f.name, f.run, f.types...))
	}
	for _, option := range options {
		option(language)
	}
	for name := range language.Disabled {
		delete(language.Builtins, name)
	}
	return language
}

// checkKey refuses results that can never be a key. A type that is not known
// before the request comes is left to appendParts.
func (r *resolver) checkKey(node ast.Node) {
	list, ok := result(node).(*ast.ArrayNode)
	if !ok {
		r.checkPart(node, true)
		return
	}
	if n := len(list.Nodes); n == 0 || n > maxParts {
		r.refuse(list.Location(), "", "a list of %d elements is not a key; it takes 1 to %d", n, maxParts)
	}
	for _, element := range list.Nodes {
		r.checkPart(element, false)
	}
}

// result is what a node yields in the end: what follows its lets.
func result(node ast.Node) ast.Node {
	for {
		let, ok := node.(*ast.VariableDeclaratorNode)
		if !ok {
			return node
		}
		node = let.Expr
	}
}

func (r *resolver) checkPart(node ast.Node, listAllowed bool) {
	switch n := result(node).(type) {
	case *ast.ConditionalNode:
		r.checkPart(n.Exp1, listAllowed)
		r.checkPart(n.Exp2, listAllowed)
	case *ast.NilNode:
		r.refuse(n.Location(), "", "nil is not a key: every request without one would share it")
	case *ast.StringNode:
		if n.Value == "" {
			r.refuse(n.Location(), "", "an empty text is not a key")
		}
	case *ast.BinaryNode:
		if n.Operator == "??" {
			r.checkPart(n.Left, listAllowed)
			r.checkPart(n.Right, listAllowed)
			return
		}
		r.checkType(n, listAllowed)
	case *ast.FloatNode:
		if !isWholeFloat(n.Value) {
			r.refuse(n.Location(), "", "a fraction is not a key")
		}
	default:
		r.checkType(n, listAllowed)
	}
}

func (r *resolver) checkType(node ast.Node, listAllowed bool) {
	switch t := node.Type(); t.Kind() {
	case reflect.Map:
		r.refuse(node.Location(), "to count by several values together, write a list: [a, b]", "a map is not a key")
	case reflect.Slice, reflect.Array:
		if !listAllowed {
			r.refuse(node.Location(), "", "a list within a list is not a key")
		}
	}
}

// fold evaluates a program that reads nothing.
func (p *Program) fold() *CompileError {
	parts, err := p.Key(nil, nil)
	failed, ok := errors.AsType[*KeyError](err)
	if !ok {
		p.constant = slices.Clip(parts)
		return nil
	}
	if fault, ok := errors.AsType[*file.Error](failed.Err); ok {
		return translate(p.expression, fault)
	}
	why := strings.Replace(failed.detail, unnamed, "its value", 1)
	return faultAt(p.expression, 0, "the key expression never yields a key: "+strings.TrimSuffix(why, "."), "")
}

// soleReads are the sole reads of the elements of a list, nil if node is no list.
func soleReads(node ast.Node, reads []read) []*read {
	list, ok := result(node).(*ast.ArrayNode)
	if !ok {
		return nil
	}
	sole := make([]*read, len(list.Nodes))
	for i, element := range list.Nodes {
		sole[i] = soleRead(element, reads)
	}
	return sole
}

// soleRead is the one read below a resolved node, nil if there are none or several.
func soleRead(node ast.Node, reads []read) *read {
	var found finder
	ast.Walk(&node, &found)
	if len(found) != 1 {
		return nil
	}
	return &reads[found[0]]
}

// finder collects the indices of the reads below a resolved node.
type finder []int

func (f *finder) Visit(node *ast.Node) {
	if !calls(*node, readText) && !calls(*node, readValue) {
		return
	}
	index := (*node).(*ast.CallNode).Arguments[0].(*ast.IntegerNode).Value
	if !slices.Contains(*f, index) {
		*f = append(*f, index)
	}
}
