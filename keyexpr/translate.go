package keyexpr

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/file"
)

// translate makes a fault of the language ours: its place, and its message
// without the names of its tokens and, if its compiler panicked, without the stack.
func translate(expression string, kind kind, err error) *CompileError {
	fault, ok := errors.AsType[*file.Error](err)
	if !ok {
		message, _, _ := strings.Cut(err.Error(), "\n")
		return &CompileError{Expression: expression, Message: message}
	}
	message := strings.TrimSpace(fault.Message)
	if token, ok := strings.CutPrefix(message, "unexpected token "); ok {
		return unexpected(expression, kind, fault.From, strings.ReplaceAll(token, argumentName, "in"))
	}
	if message == "literal not terminated" {
		return faultAt(expression, fault.From, "the text is not closed", "")
	}
	if strings.Contains(message, "maximum allowed nodes") {
		message = fmt.Sprintf("the %s has too many parts; at most %d are allowed", kind.words().noun, maxNodes)
		return faultAt(expression, fault.From, message, "")
	}
	if strings.Contains(message, "(??) cannot be mixed") {
		return faultAt(expression, fault.From, "?? does not mix with other operators", "write parentheses: (a ?? b) == c")
	}
	return faultAt(expression, fault.From, plain(message), "")
}

// plain rewrites what the type checker says of arguments, literals and members.
func plain(message string) string {
	if kind, _, ok := strings.Cut(message, ": strconv."); ok {
		return kind
	}
	got, rest, ok := strings.Cut(strings.TrimPrefix(message, "cannot use "), " as argument (type ")
	if want, function, also := strings.Cut(rest, ") to call "); ok && also {
		return fmt.Sprintf("%s takes %s, not %s", function, want, got)
	}
	if of, name, ok := strings.Cut(message, " has no field "); ok {
		return fmt.Sprintf("no member %q in %s", name, of[strings.LastIndexAny(of, " .*")+1:])
	}
	return message
}

func unexpected(expression string, kind kind, offset int, token string) *CompileError {
	if token == "EOF" {
		end := utf8.RuneCountInString(strings.TrimRight(expression, " \t\r\n"))
		return faultAt(expression, end, "the "+kind.words().noun+" ends too early", "")
	}
	if i, j := strings.IndexByte(token, '"'), strings.LastIndexByte(token, '"'); i < j {
		token = token[i : j+1]
	}
	hint := ""
	switch token {
	case `"="`:
		hint = "compare with =="
	case `"#"`:
		hint = hintForHash(string([]rune(expression)[offset+1:]))
	}
	return faultAt(expression, offset, "unexpected "+token, hint)
}

// hintForHash is for those who know such expressions from Java, where #form
// stands for the argument form of the method, and #form.email for its member.
func hintForHash(rest string) string {
	names := namesAtHash(rest)
	if isRequestWord(names[0]) {
		return fmt.Sprintf("names have no #: write %s", strings.Join(names, "."))
	}
	if len(names) > 1 {
		names = names[1:]
	}
	if names[0] == "" {
		return "names have no #"
	}
	return fmt.Sprintf("names have no #: write body.%s for a member of the JSON body", strings.Join(names, "."))
}

// hintForHash is that where there is an argument: in Java #form.email is the member
// email of the argument form, which is in.email here, or email.
func (r *resolver) hintForHash(rest string) string {
	names := namesAtHash(rest)
	for i := range names {
		if names[i] == "in" || r.isArgument(names[i]) || r.isRequestName(names[i]) {
			return "names have no #: write " + strings.Join(names[i:], ".")
		}
	}
	return "names have no #"
}

func namesAtHash(rest string) []string {
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && !isIdentifier("a"+string(r)) })
	if end >= 0 {
		rest = rest[:end]
	}
	return strings.Split(strings.Trim(rest, "."), ".")
}
