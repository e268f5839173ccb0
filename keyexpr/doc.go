// Package keyexpr turns an expression such as
//
//	body.email
//	header("X-Api-Key") ?? ip
//	[vars.user.id, route]
//	vars.user.plan == "pro" ? vars.user.id : prefix(ip, 24)
//
// into the key by which a request is counted.
//
// An expression is compiled once, while the server is being wired. A fault is
// reported there, with a caret under it. At request time a [Program] reads only
// what the evaluation reaches: the last expression above does not touch the
// address of a pro user. It yields a key or a [KeyError], never an empty key and
// never a key that stands for "no value": those would be one bucket for everybody.
//
// The same language says what else a limit depends on: a [Condition] is true or
// false, a [Cost] a whole number, a [Choice] one of the texts declared beside it.
//
// # Names
//
//	body.a.b[0]              member of the JSON body
//	form.a                   field of an urlencoded or multipart form
//	query.a, params.a        query parameter, path parameter
//	header("X"), cookie("x") first value
//	vars.a.b                 what the application's own middleware left
//	ip                       client address, as [Config.ClientIP] tells it
//	route                    matched pattern, "" if none
//	request.method           also .path .host .proto .remoteAddr
//
// In a condition that is evaluated after the handler, where [Config.Response] says so:
//
//	response.status          status code, a whole number
//	response.header("X")     first value
//
// What a request does not have is nil, so that a ?? b falls back to b. Members
// of body, form, query, params and vars are named by constants; body.a?.b is
// body.a.b, which is nil if any member on the way is missing. The percent-escapes
// of a cookie are decoded.
//
// # The argument
//
// Where a function or a typed handler is limited, [Config.Argument] is the type of
// what it is called with, and an expression sees that as in:
//
//	in.email                 member of the argument
//	email, user.id, Tags[0]  the same without in, unless the request has the name
//
// A field of a struct has the name of its json tag, and its Go name as well;
// embedded structs lend theirs as in encoding/json. The whole path is checked
// against the type when the expression is compiled, as far as the type tells: a
// map has every member, and what is in an interface is known only at run time.
// Pointers are followed, and what lies behind a nil one is nil. A field that the
// caller left out has its zero value, which is not nil. Methods cannot be called,
// but for MarshalText, which makes its value text.
//
// A plain function has no request ([Config.NoRequest]), and so none of its names.
//
// # Functions
//
//	lower(s) upper(s) trim(s) trim(s, cutset) split(s, separator)
//	len(x) int(x) string(x) email(s) prefix(ip, bits)
//
// A function does not take nil for text: lower(header("X")) fails if the header
// is absent. Write lower(header("X") ?? ip).
//
// email(s) is the canonical spelling of an address: trimmed, Unicode NFKC, lower
// case on both sides of the @, where all letters that differ but for case are one.
// To a limiter the spellings of one mailbox must be one key, or each is another
// helping of the quota. Dots, +tags and the xn-- form of a domain are left alone.
// What is no plain address, or has characters that do not show, is refused.
//
// prefix(ip, bits) widens an address to its network. 8 to 32 bits apply to IPv4, 33
// to 128 to IPv6, and the other family is left as it is: prefix(prefix(ip, 24), 56).
//
// # Keys
//
// A key is text, a whole number, a bool, or a list of at most 64 of those. Whole
// numbers are exact; a float counts if it is whole and below 2^53. A value of
// the application that implements [encoding.TextMarshaler], such as a UUID,
// counts as that text; a time does not count. A list yields one part per element,
// so that [a, b] cannot collide as a + ":" + b can. A part is text only: the number 1
// and the text "1" are one key.
//
// What a handler takes for the same in two spellings, such as 7 and 07 or a UUID in
// capitals, is two keys, and each has its quota: write int(params.id), lower(x), or
// count a member of the argument, which is spelled already.
//
// # Bodies
//
// The body is read only when the evaluation reaches a name that needs it, at most
// [Config.MaxBodyBytes] of it, and the handler reads the same bytes again. JSON
// that could be read in two ways is refused, not guessed at: a member that is
// given twice or in another case (encoding/json takes EMAIL for email), a second
// document, text that is not UTF-8, half a surrogate pair. Nesting deeper than 64
// is refused as well. The price is that a client which sends Email where the
// handler declares email gets a [KeyError], although encoding/json would bear it.
// A body that is shorter than its Content-Length counts as aborted, so middleware
// that replaces a body must set the length too, or -1.
//
// A handler may take JSON or a form, whichever is declared. So a body is JSON if it
// is declared as application/json, and by a client that does not say so (curl -d
// declares a form, a browser's fetch text) if nobody could read a form in the
// request: it has no query, and what is declared as a form has no = or &. The same
// goes for a GET, of which many read the query only. Other types are refused, and a
// body with a Content-Encoding, which middleware that decodes it removes.
//
// A form field or query parameter that is given twice with different values is
// refused, as is a field of which the query has another value. query.a is the
// query's alone: r.FormValue("a") may read the form, and is counted by form.a ?? query.a.
package keyexpr
