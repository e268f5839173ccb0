package keyexpr

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// compiled is what all kinds of expressions are once they are compiled. It is safe
// for concurrent use.
type compiled struct {
	kind         kind
	expression   string
	noRequest    bool
	maxBodyBytes int64
	reads        []read

	code     *vm.Program
	plain    *read         // the expression itself, if it is one read and no more: it needs no evaluator
	at       file.Location // of plain
	sole     *read         // what the result is made of, if that is one read
	elements []*read       // the same for each element of a list
	machines sync.Pool
}

// String is the expression as it was written.
func (c *compiled) String() string { return c.expression }

// Reads are the parts of the request that the expression can reach, sorted, as an
// expression writes them: body.email, header("X-Api-Key"), ip. A member of the
// argument begins with in, however the expression writes it: in.email.
func (c *compiled) Reads() []string {
	reads := make([]string, len(c.reads))
	for i := range c.reads {
		reads[i] = c.reads[i].part
	}
	slices.Sort(reads)
	return reads
}

// Constant tells that the expression reads nothing: every request yields the same.
func (c *compiled) Constant() bool { return len(c.reads) == 0 }

// evaluate gives the value of the expression to take. The value may belong to the
// request, so take must not keep it.
func (c *compiled) evaluate(src Source, take func(value any) *fault) (err *KeyError) {
	m := c.machines.Get().(*machine)
	defer func() {
		// The evaluation recovers by itself; this is for methods of the
		// application's values.
		if cause := recover(); cause != nil {
			err = m.keyError(&fault{problem: Unreadable, err: fmt.Errorf("panic: %v", cause)})
		}
		m.forget()
		c.machines.Put(m)
	}()
	m.src = src
	value, failed := m.run()
	if failed == nil {
		failed = take(value)
	}
	if failed != nil {
		return m.keyError(failed)
	}
	return nil
}

// evaluateText is evaluate for an expression that is one plain read of text. It does not
// make an interface of the text, which would be an allocation.
func (c *compiled) evaluateText(src Source) (text string, err *KeyError) {
	m := c.machines.Get().(*machine)
	defer func() {
		m.forget()
		c.machines.Put(m)
	}()
	m.src = src
	text, failed := m.plainText()
	if failed == nil {
		text, failed = nonEmpty(text)
	}
	if failed != nil {
		return "", m.keyError(failed)
	}
	return text, nil
}

// never is the fault of an expression that reads nothing, and failed.
func (c *compiled) never(err error) *CompileError {
	failed, _ := errors.AsType[*KeyError](err)
	if fault, ok := errors.AsType[*file.Error](failed.Err); ok {
		return translate(c.expression, c.kind, fault)
	}
	why := strings.Replace(failed.detail, c.about().unnamed(), "its value", 1)
	words := c.kind.words()
	message := fmt.Sprintf("the %s never yields %s: %s", words.noun, words.aResult, strings.TrimSuffix(why, "."))
	return faultAt(c.expression, 0, message, "")
}

// about is what sentences for the client are about.
func (c *compiled) about() about {
	if c.noRequest {
		return about{"call", c.kind.words().by}
	}
	return about{"request", c.kind.words().by}
}

// A machine evaluates a program for one request at a time. What the request lent
// it is given back by forget.
type machine struct {
	program *compiled
	vm      vm.VM
	env     environment

	request
}

// request is what a machine knows of the request that it evaluates.
type request struct {
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

func newMachine(p *compiled) *machine {
	m := &machine{program: p}
	m.env = environment{Text: m.text, Value: m.value}
	return m
}

// run gives the value of the expression. What is one plain read needs no evaluator.
func (m *machine) run() (value any, failed *fault) {
	if m.program.plain != nil {
		return m.runPlain()
	}
	value, err := m.vm.Run(m.program.code, &m.env)
	if err != nil {
		return nil, m.cause(err)
	}
	return value, nil
}

func (m *machine) runPlain() (value any, failed *fault) {
	defer m.recoverAsEvaluator(&failed)
	return m.read(m.program.plain)
}

// plainText is runPlain, where the read is one of text, for a key.
func (m *machine) plainText() (text string, failed *fault) {
	defer m.recoverAsEvaluator(&failed)
	text, found, failed := m.readText(m.program.plain)
	if failed == nil && !found {
		failed = &fault{problem: Missing}
	}
	return text, failed
}

// recoverAsEvaluator makes of a panic in a method of the application what the evaluator makes of it.
func (m *machine) recoverAsEvaluator(failed **fault) {
	cause := recover()
	if cause == nil {
		return
	}
	e := &file.Error{Location: m.program.at, Message: fmt.Sprintf("%v", cause)}
	if err, ok := cause.(error); ok {
		e.Wrap(err)
	}
	*failed = m.cause(e.Bind(m.program.code.Source()))
}

// text and value panic with a *fault, which the evaluation turns into an error.
// Returning an error would cost a call by reflection.
func (m *machine) text(index int) string {
	text, _, failed := m.readText(&m.program.reads[index])
	if failed != nil {
		panic(failed)
	}
	return text
}

func (m *machine) value(index any) any {
	value, failed := m.read(&m.program.reads[index.(int)])
	if failed != nil {
		panic(failed)
	}
	return value
}

// read asks the request for anything.
func (m *machine) read(rd *read) (value any, failed *fault) {
	if rd.isText() {
		if text, found, failed := m.readText(rd); found || failed != nil {
			return text, failed
		}
		return nil, nil
	}
	if value, failed = rd.value(m); failed != nil {
		failed.part = rd
	} else if value == nil {
		m.absent = rd
	}
	return value, failed
}

// readText asks the request for what is text if it is there.
func (m *machine) readText(rd *read) (text string, found bool, failed *fault) {
	if rd.direct != nil {
		text, found, failed = rd.direct(m.src)
	} else {
		text, found, failed = rd.text(m)
	}
	if failed != nil {
		failed.part = rd
	} else if !found {
		m.absent = rd
	}
	return text, found, failed
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
	return &fault{problem: WrongType, err: err, complaint: "yields no " + m.program.kind.words().result}
}

func (m *machine) keyError(failed *fault) *KeyError {
	failed = m.blame(failed)
	e := &KeyError{
		Expression: m.program.expression,
		Part:       m.program.expression,
		Problem:    failed.problem,
		Err:        failed.err,
		detail:     failed.detail(m.program.about()),
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
	clear(m.vm.Stack[:cap(m.vm.Stack)]) // none, if the program is one plain read
	clear(m.vm.Variables)
	m.request = request{}
}
