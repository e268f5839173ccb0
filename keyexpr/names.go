package keyexpr

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// requestNames stand for something in the request, as an expression says them.
func requestNames() []string {
	return []string{"body.…", `cookie("…")`, "form.…", `header("…")`, "ip", "params.…", "query.…", "request.…", "route", "vars.…"}
}

func functionNames() []string {
	return []string{"email(s)", "int(x)", "len(x)", "lower(s)", "prefix(ip, bits)", "split(s, separator)", "string(x)", "trim(s)", "upper(s)"}
}

// words are names without what follows them: header for header("…").
func words(names []string) []string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name[:strings.IndexAny(name+".", ".(")]
	}
	return words
}

func isRequestWord(s string) bool {
	return s == "response" || slices.Contains(words(requestNames()), s)
}

func isFunctionWord(s string) bool { return slices.Contains(words(functionNames()), s) }

// names are all that this expression may say.
func (r *resolver) names() []string {
	names := r.memberNames()
	if r.config.Argument != nil {
		names = append(names, "in")
	}
	if !r.config.NoRequest {
		names = append(names, requestNames()...)
	}
	if r.config.Response && !r.config.NoRequest {
		names = append(names, responseNames()...)
	}
	return append(names, functionNames()...)
}

// memberNames are the members of the argument that are names of their own.
func (r *resolver) memberNames() []string {
	t := r.config.Argument
	if t == nil || pointeeType(t).Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range fieldsOf(pointeeType(t)).order {
		if isIdentifier(f.name) && !r.isRequestName(f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// isRequestName tells whether the name stands for the request, or a part of it.
func (r *resolver) isRequestName(name string) bool { return !r.config.NoRequest && isRequestWord(name) }

// synonyms are what people write who come from elsewhere.
func synonyms() map[string]string {
	return map[string]string{
		"req": "request", "r": "request", "method": "request.method", "path": "request.path", "uri": "route",
		"url": "request.path", "host": "request.host", "remoteAddr": "request.remoteAddr", "endpoint": "route", "pattern": "route",
		"clientIP": "ip", "clientIp": "ip", "remoteIP": "ip", "addr": "ip", "address": "ip",
		"headers": `header("…")`, "cookies": `cookie("…")`, "json": "body.…", "param": "params.…", "queries": "query.…",
		"keys": "vars.…", "ctx": "vars.…", "context": "vars.…", "locals": "vars.…",
		"toLower": "lower", "toLowerCase": "lower", "lowercase": "lower", "toUpper": "upper", "toUpperCase": "upper", "uppercase": "upper",
		"strip": "trim", "trimSpace": "trim", "size": "len", "length": "len", "count": "len", "str": "string", "toString": "string",
		"mask": "prefix", "cidr": "prefix", "subnet": "prefix",
	}
}

// hintForName says what the unknown name, and the members after it, were probably
// meant to be.
func (r *resolver) hintForName(unknown string, members []string) string {
	if near := nearest(unknown, r.memberNames()); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(members) == 0 || r.config.NoRequest {
		return r.didYouMean(unknown)
	}
	tail := "." + strings.Join(members, ".")
	meant := synonyms()[unknown]
	if root, ok := strings.CutSuffix(meant, ".…"); ok || meant == "request" {
		return fmt.Sprintf("did you mean %q?", root+tail)
	}
	if meant != "" {
		return fmt.Sprintf("did you mean %s?", quoteName(strings.Replace(meant, "…", members[0], 1)))
	}
	if near := nearest(unknown, []string{"body", "form", "query", "params", "vars", "request"}); near != "" {
		return fmt.Sprintf("did you mean %q?", near+tail)
	}
	return fmt.Sprintf("did you mean %q (left by the application) or %q (of the JSON body)?",
		"vars."+unknown+tail, "body."+unknown+tail)
}

// didYouMean is didYouMean for all names of this expression.
func (r *resolver) didYouMean(unknown string) string {
	if r.config.NoRequest {
		meant := synonyms()[unknown]
		if near := nearest(unknown, words(r.names())); !isFunctionWord(meant) {
			meant = near
		}
		if meant == "" {
			return ""
		}
		return fmt.Sprintf("did you mean %q?", meant)
	}
	return didYouMean(unknown, words(r.names()))
}

// didYouMean is a question, or "" if nothing is near.
func didYouMean(unknown string, candidates []string) string {
	if meant := synonyms()[unknown]; meant != "" {
		return fmt.Sprintf("did you mean %s?", quoteName(meant))
	}
	if near := nearest(unknown, candidates); near != "" {
		return fmt.Sprintf("did you mean %s?", quoteName(near))
	}
	return ""
}

// quoteName does not quote a quote.
func quoteName(name string) string {
	if strings.Contains(name, `"`) {
		return name
	}
	return `"` + name + `"`
}

// nearest is the candidate that takes the fewest slips of a finger, "" if it
// takes more than a third of the word, or all of it.
func nearest(unknown string, candidates []string) string {
	best, least := "", max(1, len(unknown)/3)+1
	for _, candidate := range candidates {
		if d := slips(strings.ToLower(unknown), strings.ToLower(candidate)); d < least && d < len(unknown) {
			best, least = candidate, d
		}
	}
	return best
}

// slips counts insertions, deletions, substitutions and swaps of neighbours
// (optimal string alignment distance). Names are short, and this runs only for faults.
func slips(a, b string) int {
	s, t := []rune(a), []rune(b)
	if len(s) > 32 || len(t) > 32 {
		return len(s) + len(t)
	}
	d := make([][]int, len(s)+1)
	for i := range d {
		d[i] = make([]int, len(t)+1)
		d[i][0] = i
	}
	for j := range t {
		d[0][j+1] = j + 1
	}
	for i := range s {
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			d[i+1][j+1] = min(d[i][j+1]+1, d[i+1][j]+1, d[i][j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				d[i+1][j+1] = min(d[i+1][j+1], d[i-1][j-1]+1)
			}
		}
	}
	return d[len(s)][len(t)]
}
