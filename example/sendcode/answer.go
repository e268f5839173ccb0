package main

import (
	"encoding/json"
	"net/http"

	"golang.org/x/text/language"

	"github.com/sashlimit/sash"
)

// answer is all that the application can say to a request.
type answer struct {
	status int
	zh, en string
}

var (
	success          = answer{http.StatusOK, "success", "success"} // for programs: the same in every language
	badRequest       = answer{http.StatusBadRequest, "请求格式不正确", "The request is malformed"}
	badAddress       = answer{http.StatusBadRequest, "邮箱地址不正确", "This is not an e-mail address"}
	badCode          = answer{http.StatusBadRequest, "验证码错误或已过期", "The code is wrong or has expired"}
	notFound         = answer{http.StatusNotFound, "页面不存在", "There is nothing here"}
	methodNotAllowed = answer{http.StatusMethodNotAllowed, "不支持该请求方法", "The method is not allowed here"}
	tooLarge         = answer{http.StatusRequestEntityTooLarge, "请求内容过大", "The request is too large"}
	tooManyRequests  = answer{http.StatusTooManyRequests, "请求过于频繁,请稍后再试", "Too many requests, please try again later"}
	unavailable      = answer{http.StatusServiceUnavailable, "服务暂不可用,请稍后再试", "The service is not available, please try again later"}
	tooManyCodes     = unavailable
	notSent          = answer{http.StatusServiceUnavailable, "验证码发送失败,请稍后再试", "The code could not be sent, please try again later"}
)

// undecided is the answer to a request that the limiter could not decide. The error stays here: it is not written
// for clients.
func undecided(err error) answer {
	switch sash.Status(err) {
	case http.StatusBadRequest:
		return badRequest
	case http.StatusRequestEntityTooLarge:
		return tooLarge
	}
	return unavailable
}

// envelope is the body of every response.
type envelope struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// The languages of the answers. Whoever accepts neither gets the first.
var (
	languages = []language.Tag{language.SimplifiedChinese, language.English}
	matcher   = language.NewMatcher(languages)
)

// envelope picks the language that r prefers, and sets the header fields that depend on it. Vary is on every
// answer, also on those that read the same in every language: what a cache holds, it must not hand to a client who
// would have been told something else (RFC 9110, section 12.5.5).
func (a answer) envelope(header http.Header, r *http.Request) envelope {
	header.Add("Vary", "Accept-Language")
	if a.zh == a.en {
		return envelope{Code: a.status, Message: a.en}
	}
	_, i := language.MatchStrings(matcher, r.Header.Values("Accept-Language")...)
	header.Set("Content-Language", languages[i].String())
	return envelope{Code: a.status, Message: [...]string{a.zh, a.en}[i]}
}

// write answers r without a framework, with what Gin's Context.JSON writes to the byte.
func (a answer) write(w http.ResponseWriter, r *http.Request) {
	body, err := json.Marshal(a.envelope(w.Header(), r))
	if err != nil { // an int, a string and null: it cannot be
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.status)
	w.Write(body) // an error is the client's hanging up
}
