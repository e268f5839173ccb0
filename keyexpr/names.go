package keyexpr

import (
	"fmt"
	"slices"
	"strings"
)

const requestNames = 10

// names are all that an expression may say, as it says them. The first
// requestNames of them stand for something in the request, the others are functions.
func names() []string {
	return []string{
		"body.…", `cookie("…")`, "form.…", `header("…")`, "ip", "params.…", "query.…", "request.…", "route", "vars.…",
		"email(s)", "int(x)", "len(x)", "lower(s)", "prefix(ip, bits)", "split(s, separator)", "string(x)", "trim(s)", "upper(s)",
	}
}

// words are the names without what follows them: header for header("…").
func words() []string {
	words := names()
	for i, name := range words {
		words[i] = name[:strings.IndexAny(name+".", ".(")]
	}
	return words
}

func isName(s string) bool { return slices.Contains(words(), s) }

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
func hintForName(unknown string, members []string) string {
	if len(members) == 0 {
		return didYouMean(unknown, words())
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
// takes more than a third of the word.
func nearest(unknown string, candidates []string) string {
	best, least := "", max(1, len(unknown)/3)+1
	for _, candidate := range candidates {
		if d := slips(strings.ToLower(unknown), strings.ToLower(candidate)); d < least {
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
