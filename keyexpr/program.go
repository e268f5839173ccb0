package keyexpr

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"

	"github.com/expr-lang/expr/vm"
)

// Program is a compiled key expression. It is safe for concurrent use and keeps
// nothing of a request once Key has returned.
type Program struct {
	expression   string
	maxBodyBytes int64
	reads        []read
	constant     []string // the parts of a key that depends on no request

	code     *vm.Program
	sole     *read   // what the key is made of, if that is one read
	elements []*read // the same for each element of a list
	machines sync.Pool
}

// Key appends the parts of the request's key to parts: one for a scalar, one per
// element for a list, none of them empty. The parts are raw text; they are a key
// only if they are joined such that no part can forge a boundary.
//
// The error is a *KeyError, and parts are then returned as they were. Key reads
// the body only if the evaluation reaches a name that needs it; src.Request().Body
// then yields the same bytes again.
func (p *Program) Key(src Source, parts []string) (key []string, err error) {
	if p.constant != nil {
		return append(parts, p.constant...), nil
	}
	m := p.machines.Get().(*machine)
	defer func() {
		// The evaluation recovers by itself; this is for methods of the
		// application's values.
		if cause := recover(); cause != nil {
			key, err = parts, m.keyError(&fault{problem: Unreadable, err: fmt.Errorf("panic: %v", cause)})
		}
		m.forget()
		p.machines.Put(m)
	}()
	m.src = src
	value, err := m.vm.Run(p.code, &m.env)
	if err != nil {
		return parts, m.keyError(m.cause(err))
	}
	all, element, failed := appendParts(parts, value)
	if failed == nil {
		return all, nil
	}
	if element >= 0 && element < len(p.elements) {
		failed.part = p.elements[element]
	}
	return parts, m.keyError(failed)
}

// String is the expression as it was written.
func (p *Program) String() string { return p.expression }

// Reads are the parts of the request that the expression can reach, sorted, as an
// expression writes them: body.email, header("X-Api-Key"), ip.
func (p *Program) Reads() []string {
	reads := make([]string, len(p.reads))
	for i := range p.reads {
		reads[i] = p.reads[i].part
	}
	slices.Sort(reads)
	return reads
}

// A machine evaluates a program for one request at a time. What the request lent
// it is given back by forget.
type machine struct {
	program *Program
	vm      vm.VM
	env     environment

	src    Source
	absent *read      // the last read that yielded nil
	query  url.Values // parsed once per evaluation, as are the next three
	body   lent[[]byte]
	json   lent[[]byte] // the body, if it is a JSON document
	form   lent[url.Values]
}

// lent is what was found out about the request in this evaluation.
type lent[T any] struct {
	known  bool
	value  T
	failed *fault
}

func (l *lent[T]) once(find func() (T, *fault)) (T, *fault) {
	if !l.known {
		l.value, l.failed = find()
		l.known = true
	}
	return l.value, l.failed
}

// environment is all that the evaluation sees: two functions, whose shapes the
// language calls without reflection. No value of a request is ever in it.
type environment struct {
	Text  func(int) string `expr:"__text"`
	Value func(any) any    `expr:"__value"`
}

func newMachine(p *Program) *machine {
	m := &machine{program: p}
	m.env = environment{Text: m.text, Value: m.value}
	return m
}

// text and value panic with a *fault, which the evaluation turns into an error.
// Returning an error would cost a call by reflection.
func (m *machine) text(index int) string {
	rd := &m.program.reads[index]
	text, failed := rd.text(m)
	if failed != nil {
		failed.part = rd
		panic(failed)
	}
	return text
}

func (m *machine) value(index any) any {
	rd := &m.program.reads[index.(int)]
	value, failed := rd.value(m)
	if failed != nil {
		failed.part = rd
		panic(failed)
	}
	if value == nil {
		m.absent = rd
	}
	return value
}

// cause finds our own fault in an error of the evaluation. The others are its
// refusals to add nil to text, or to index beyond the end.
func (m *machine) cause(err error) *fault {
	if failed, ok := errors.AsType[*fault](err); ok {
		return failed
	}
	if m.absent != nil {
		return &fault{problem: Missing, err: err, part: m.absent}
	}
	return &fault{problem: WrongType, err: err, complaint: "yields no key"}
}

func (m *machine) keyError(failed *fault) *KeyError {
	failed = m.blame(failed)
	e := &KeyError{
		Expression: m.program.expression,
		Part:       m.program.expression,
		Problem:    failed.problem,
		Err:        failed.err,
		detail:     failed.detail(),
	}
	if failed.part != nil {
		e.Part = failed.part.part
	}
	return e
}

// blame finds the part at fault, if whoever found the fault did not know it: the
// read that the key is made of, else what was last found absent.
func (m *machine) blame(failed *fault) *fault {
	if failed.part == nil {
		failed.part = m.program.sole
	}
	if failed.part == nil && failed.problem == Missing {
		failed.part = m.absent
	}
	if failed.problem == Missing && m.body.known && len(m.body.value) == 0 {
		failed.sentence = "The request has no body."
	}
	return failed
}

// forget drops every reference to the request. The evaluator clears its stack
// only up to its length, and its variables never.
func (m *machine) forget() {
	clear(m.vm.Stack[:cap(m.vm.Stack)])
	clear(m.vm.Variables)
	*m = machine{program: m.program, vm: m.vm, env: m.env}
}
