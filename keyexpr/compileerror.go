package keyexpr

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// CompileError is a fault in an expression, found while the server is being wired.
type CompileError struct {
	Expression string
	Line       int // from 1; 0 if the fault has no place in the expression
	Column     int // from 1, in characters
	Message    string
	Hint       string   // what to write instead; "" if nothing is better than the message
	Names      []string // the names, members or choices that exist, if the fault is an unknown one

	listed string // what Names are; "" for names
}

// Error shows the message, the expression with a caret under the fault, the hint
// and the names, each on lines of its own.
func (e *CompileError) Error() string {
	var b strings.Builder
	b.WriteString("keyexpr: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", e.Line, e.Column)
	}
	b.WriteString(e.Message)
	e.writeSnippet(&b)
	if e.Hint != "" {
		b.WriteString("\n  " + e.Hint)
	}
	if len(e.Names) > 0 {
		b.WriteString("\n  " + cmp.Or(e.listed, "names") + ": " + strings.Join(e.Names, ", "))
	}
	return b.String()
}

// Lines and columns that a snippet shows around the fault. A longer expression
// is cut, since a caret that has wrapped points at nothing.
const (
	snippetLines   = 3
	snippetColumns = 60
)

func (e *CompileError) writeSnippet(b *strings.Builder) {
	if e.Line == 0 {
		return
	}
	for i, line := range strings.Split(e.Expression, "\n") {
		text := []rune(strings.TrimSuffix(line, "\r"))
		switch above := e.Line - (i + 1); {
		case above == 0:
			caret := min(e.Column-1, len(text))
			from, to := max(0, caret-snippetColumns), min(len(text), caret+snippetColumns)
			b.WriteString("\n    " + string(text[from:to]))
			b.WriteString("\n    " + padding(text[from:caret]) + "^")
		case -snippetLines <= above && above <= snippetLines && strings.TrimSpace(line) != "":
			b.WriteString("\n    " + string(text[:min(len(text), 2*snippetColumns)]))
		}
	}
}

// padding is as wide as text on a terminal: wide characters take two columns,
// combining marks none.
func padding(text []rune) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\t':
			b.WriteByte('\t')
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case wide(r):
			b.WriteString("  ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func wide(r rune) bool {
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}

// faultAt is a fault at the character with the given offset.
func faultAt(expression string, offset int, message, hint string) *CompileError {
	e := &CompileError{Expression: expression, Line: 1, Column: 1, Message: message, Hint: hint}
	for _, r := range expression {
		if offset--; offset < 0 {
			break
		}
		e.Column++
		if r == '\n' {
			e.Line, e.Column = e.Line+1, 1
		}
	}
	return e
}

// checkSource refuses what must not reach the parser.
func checkSource(expression string, kind kind, noRequest bool) *CompileError {
	refuse := func(format string, args ...any) *CompileError {
		return &CompileError{Expression: expression, Message: fmt.Sprintf(format, args...)}
	}
	noun := kind.words().noun
	switch {
	case strings.TrimSpace(expression) == "":
		e := refuse("the %s is empty", noun)
		if e.Hint = kind.words().empty; noRequest {
			e.Hint = "write an expression over the members of the argument"
		}
		return e
	case len(expression) > maxSourceBytes:
		return refuse("the %s is %d bytes long; at most %d are allowed", noun, len(expression), maxSourceBytes)
	case !utf8.ValidString(expression):
		return refuse("the %s is not valid UTF-8", noun)
	}
	return nil
}
