package main

import (
	"cmp"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// step is one request, and what must be in its answer.
type step struct {
	name   string
	peer   string // of the connection; "" is a client in 192.0.2.0/24
	line   string // method and target
	header []string
	body   string // $CODE is the last code mailed to bob@example.com, $WRONG is not it
	status int
	fields string // lines that the head must have, one below the other
	answer string // the body; "" is not asserted
}

const (
	okBody     = `{"code":200,"message":"success","data":null}`
	deniedZh   = `{"code":429,"message":"请求过于频繁,请稍后再试","data":null}`
	deniedEn   = `{"code":429,"message":"Too many requests, please try again later","data":null}`
	malformed  = `{"code":400,"message":"请求格式不正确","data":null}`
	badCodeZh  = `{"code":400,"message":"验证码错误或已过期","data":null}`
	addressZh  = `{"code":400,"message":"邮箱地址不正确","data":null}`
	notFoundZh = `{"code":404,"message":"页面不存在","data":null}`
	methodZh   = `{"code":405,"message":"不支持该请求方法","data":null}`
	tooLargeZh = `{"code":413,"message":"请求内容过大","data":null}`

	send6888  = `{"email":"6888@example.com"}`
	sendBob   = `{"email":"bob@example.com"}`
	verifyBob = `{"email":"bob@example.com","code":"$CODE"}`
	wrongBob  = `{"email":"bob@example.com","code":"$WRONG"}`

	limitedSend   = `Ratelimit-Policy: "body.email";q=3;w=60`
	limitedVerify = `Ratelimit-Policy: "body.email";q=5;w=600`
	limitedTest   = `Ratelimit-Policy: "[ip, route]";q=3;w=60`
	chinese       = "Content-Language: zh-Hans"
	english       = "Content-Language: en"
)

// steps are played in order: a step sees what those before it have counted.
var steps = []step{
	{name: "the first code is sent", line: "POST /send/code", body: send6888, status: 200, answer: okBody,
		fields: limitedSend + "\nRatelimit: \"body.email\";r=2;t=60\nVary: Accept-Language\nContent-Type: application/json; charset=utf-8"},
	{name: "the second", line: "POST /send/code", body: send6888, status: 200, answer: okBody, fields: `Ratelimit: "body.email";r=1;t=60`},
	{name: "the third, from elsewhere and in another wording", peer: "198.51.100.7:7", line: "POST /send/code", status: 200, answer: okBody,
		body: ` {"x":[1,{"email":"no"}], "email" : "\u0036888@example.com" } `, fields: `Ratelimit: "body.email";r=0;t=60`},
	{name: "the fourth is denied", line: "POST /send/code", body: send6888, status: 429, answer: deniedZh,
		fields: limitedSend + "\nRatelimit: \"body.email\";r=0;t=60\nRetry-After: 60\nCache-Control: no-store\nVary: Accept-Language\n" + chinese},
	{name: "in English, to those who prefer it", line: "POST /send/code", body: send6888, status: 429, answer: deniedEn,
		header: []string{"Accept-Language: zh;q=0.5, en-GB"}, fields: english + "\nVary: Accept-Language\nRetry-After: 60"},
	{name: "in Chinese, to those who prefer that", line: "POST /send/code", body: send6888, status: 429, answer: deniedZh,
		header: []string{"Accept-Language: en;q=0.5, zh-CN"}, fields: chinese},
	{name: "in Chinese, to those who understand neither", line: "POST /send/code", body: send6888, status: 429, answer: deniedZh,
		header: []string{"Accept-Language: fr, de;q=0.5"}, fields: chinese},
	{name: "in Chinese, if the header cannot be read", line: "POST /send/code", body: send6888, status: 429, answer: deniedZh,
		header: []string{"Accept-Language: en;q=x"}, fields: chinese},
	{name: "in English, if a second header line says so", line: "POST /send/code", body: send6888, status: 429, answer: deniedEn,
		header: []string{"Accept-Language: fr", "Accept-Language: en"}, fields: english},
	{name: "a word for programs has no language", line: "POST /send/code", body: `{"email":"alice@example.com"}`, status: 200, answer: okBody,
		header: []string{"Accept-Language: en"}, fields: "Vary: Accept-Language"},

	{name: "no body", line: "POST /send/code", status: 400, answer: malformed, fields: chinese},
	{name: "no body, in English", line: "POST /send/code", status: 400, header: []string{"Accept-Language: en"},
		answer: `{"code":400,"message":"The request is malformed","data":null}`, fields: english},
	{name: "not JSON", line: "POST /send/code", body: "email=6888@example.com", status: 400, answer: malformed},
	{name: "half a document", line: "POST /send/code", body: `{"email":"6888@exam`, status: 400, answer: malformed},
	{name: "two documents", line: "POST /send/code", body: send6888 + sendBob, status: 400, answer: malformed},
	{name: "two e-mails", line: "POST /send/code", body: `{"email":"a@example.com","email":"b@example.com"}`, status: 400, answer: malformed},
	{name: "two e-mails but for case", line: "POST /send/code", body: `{"email":"a@example.com","Email":"b@example.com"}`, status: 400, answer: malformed},
	{name: "no object", line: "POST /send/code", body: `["6888@example.com"]`, status: 400, answer: malformed},
	{name: "null", line: "POST /send/code", body: `null`, status: 400, answer: malformed},
	{name: "no e-mail", line: "POST /send/code", body: `{"mail":"6888@example.com"}`, status: 400, answer: malformed},
	{name: "an empty e-mail", line: "POST /send/code", body: `{"email":""}`, status: 400, answer: malformed},
	{name: "a number", line: "POST /send/code", body: `{"email":6888}`, status: 400, answer: malformed, fields: limitedSend},
	{name: "a list", line: "POST /send/code", body: `{"email":["carol@example.com"]}`, status: 400, answer: malformed},
	{name: "not UTF-8", line: "POST /send/code", body: "{\"email\":\"\xff@example.com\"}", status: 400, answer: malformed},
	{name: "not an address", line: "POST /send/code", body: `{"email":"6888"}`, status: 400, answer: addressZh, fields: limitedSend},
	{name: "an address with a name", line: "POST /send/code", body: `{"email":"Bob <bob@example.com>"}`, status: 400, answer: addressZh},
	{name: "an address with a comment", line: "POST /send/code", body: `{"email":"bob@example.com (Bob)"}`, status: 400, answer: addressZh},
	{name: "an address with space around it", line: "POST /send/code", body: `{"email":" bob@example.com"}`, status: 400, answer: addressZh},
	{name: "two addresses", line: "POST /send/code", body: `{"email":"bob@example.com,eve@example.com"}`, status: 400, answer: addressZh},
	{name: "a line break", line: "POST /send/code", body: `{"email":"bob@example.com\r\nBcc: eve@example.com"}`, status: 400, answer: addressZh},
	{name: "an address that is too long", line: "POST /send/code", body: `{"email":"` + strings.Repeat("a", 243) + `@example.com"}`, status: 400, answer: addressZh},
	{name: "a body over the cap", line: "POST /send/code", body: `{"email":"` + strings.Repeat("a", 64<<10) + `"}`, status: 413, answer: tooLargeZh},
	{name: "a body over the cap that does not say so", line: "POST /send/code", status: 413, answer: tooLargeZh,
		header: []string{"Transfer-Encoding: chunked"}, body: "chunked 70000"},

	{name: "a code for bob", line: "POST /send/code", body: sendBob, status: 200, answer: okBody},
	{name: "a wrong guess", line: "POST /verify/code", body: wrongBob, status: 400, answer: badCodeZh,
		fields: limitedVerify + "\nRatelimit: \"body.email\";r=4;t=600\n" + chinese},
	{name: "the code", line: "POST /verify/code", body: verifyBob, status: 200, answer: okBody, fields: `Ratelimit: "body.email";r=3;t=600`},
	{name: "the code again", line: "POST /verify/code", body: verifyBob, status: 400, answer: badCodeZh},
	{name: "a code that is a number", line: "POST /verify/code", body: `{"email":"bob@example.com","code":123456}`, status: 400, answer: malformed, fields: limitedVerify},
	{name: "no code", line: "POST /verify/code", body: sendBob, status: 400, answer: badCodeZh},
	{name: "the sixth attempt is denied", line: "POST /verify/code", body: verifyBob, status: 429, answer: deniedZh,
		fields: limitedVerify + "\nRatelimit: \"body.email\";r=0;t=600\nRetry-After: 600\nCache-Control: no-store"},
	{name: "attempts and codes are counted apart", line: "POST /send/code", body: sendBob, status: 200, answer: okBody},
	{name: "a new code brings no new attempts", line: "POST /verify/code", body: verifyBob, status: 429, answer: deniedZh},
	{name: "another spelling of bob has no code", line: "POST /verify/code", body: `{"email":"Bob@example.com","code":"$CODE"}`, status: 400, answer: badCodeZh},
	{name: "verify: not an address", line: "POST /verify/code", body: `{"email":"bob","code":"$CODE"}`, status: 400, answer: addressZh},
	{name: "verify: no body", line: "POST /verify/code", status: 400, answer: malformed},

	{name: "the classic limit by address and route", line: "GET /user/test", status: 200, answer: okBody,
		fields: limitedTest + "\nRatelimit: \"[ip, route]\";r=2;t=60"},
	{name: "the query is not the route", line: "GET /user/test?a=1", status: 200, answer: okBody},
	{name: "HEAD counts like GET", line: "HEAD /user/test", status: 200, fields: `Ratelimit: "[ip, route]";r=0;t=60`},
	{name: "the fourth of an address is denied", line: "GET /user/test", status: 429, answer: deniedZh, fields: "Retry-After: 60"},
	{name: "the fourth, as HEAD", line: "HEAD /user/test", status: 429, fields: "Retry-After: 60"},
	{name: "a claimed address does not help", line: "GET /user/test", status: 429, header: []string{"X-Forwarded-For: 203.0.113.9", "X-Real-Ip: 203.0.113.9"}, answer: deniedZh},
	{name: "another address", peer: "192.0.2.2:1234", line: "GET /user/test", status: 200, answer: okBody, fields: `Ratelimit: "[ip, route]";r=2;t=60`},
	{name: "an IPv6 address", peer: "[2001:db8::1]:1234", line: "GET /user/test", status: 200, answer: okBody, fields: `Ratelimit: "[ip, route]";r=2;t=60`},
	{name: "another one of its /64", peer: "[2001:db8::ffff:2]:1", line: "GET /user/test", status: 200, answer: okBody, fields: `Ratelimit: "[ip, route]";r=1;t=60`},
	{name: "the next /64", peer: "[2001:db8:0:1::1]:1234", line: "GET /user/test", status: 200, answer: okBody, fields: `Ratelimit: "[ip, route]";r=2;t=60`},
	{name: "a peer without an address", peer: "@", line: "GET /user/test", status: 400, answer: malformed},

	{name: "an unknown path", line: "GET /nowhere", status: 404, answer: notFoundZh, fields: "Vary: Accept-Language\n" + chinese},
	{name: "an unknown path, in English", line: "GET /nowhere", header: []string{"Accept-Language: en"}, status: 404,
		answer: `{"code":404,"message":"There is nothing here","data":null}`, fields: english},
	{name: "the root", line: "GET /", status: 404, answer: notFoundZh},
	{name: "a path below a route", line: "POST /send/code/more", body: send6888, status: 404, answer: notFoundZh},
	{name: "a path above a route", line: "GET /user", status: 404, answer: notFoundZh},
	{name: "a trailing slash", line: "GET /user/test/", status: 404, answer: notFoundZh},
	{name: "a trailing slash on a POST", line: "POST /send/code/", body: send6888, status: 404, answer: notFoundZh},
	{name: "a doubled slash", line: "GET //user/test", status: 404, answer: notFoundZh},
	{name: "a doubled slash inside", line: "GET /user//test", status: 404, answer: notFoundZh},
	{name: "dots", line: "GET /user/../user/test", status: 404, answer: notFoundZh},
	{name: "an escaped slash", line: "GET /user%2Ftest", status: 404, answer: notFoundZh},
	{name: "an escaped letter", line: "GET /user/t%65st", status: 404, answer: notFoundZh},
	{name: "another case", line: "GET /User/Test", status: 404, answer: notFoundZh},
	{name: "letters that are not ASCII", line: "GET /%E7%94%A8%E6%88%B7", status: 404, answer: notFoundZh},
	{name: "a whole URL", peer: "192.0.2.3:1", line: "GET http://example.com/user/test", status: 200, answer: okBody},
	{name: "a star", line: "GET *", status: 404, answer: notFoundZh},
	{name: "the options of everything", line: "OPTIONS *", status: 200},

	{name: "GET where POST is due", line: "GET /send/code", status: 405, answer: methodZh, fields: "Allow: POST\nVary: Accept-Language\n" + chinese},
	{name: "the same in English", line: "GET /send/code", header: []string{"Accept-Language: en"}, status: 405, fields: "Allow: POST\n" + english,
		answer: `{"code":405,"message":"The method is not allowed here","data":null}`},
	{name: "PUT", line: "PUT /verify/code", body: verifyBob, status: 405, answer: methodZh, fields: "Allow: POST"},
	{name: "HEAD where POST is due", line: "HEAD /send/code", status: 405, fields: "Allow: POST"},
	{name: "OPTIONS", line: "OPTIONS /send/code", status: 405, answer: methodZh, fields: "Allow: POST"},
	{name: "CONNECT", line: "CONNECT /send/code", status: 405, answer: methodZh, fields: "Allow: POST"},
	{name: "a method that nobody knows", line: "BREW /verify/code", status: 405, answer: methodZh, fields: "Allow: POST"},
	{name: "POST where GET is due", line: "POST /user/test", status: 405, answer: methodZh, fields: "Allow: GET, HEAD"},
	{name: "DELETE", line: "DELETE /user/test", status: 405, answer: methodZh, fields: "Allow: GET, HEAD"},
	{name: "an unknown method on an unknown path", line: "BREW /nowhere", status: 404, answer: notFoundZh},
	{name: "CONNECT to elsewhere", line: "CONNECT example.com:443", status: 404, answer: notFoundZh},

	{name: "a mail that fails", line: "POST /send/code", body: `{"email":"unreachable@example.com"}`, status: 503,
		answer: `{"code":503,"message":"验证码发送失败,请稍后再试","data":null}`, fields: limitedSend + "\n" + chinese},
}

func TestGinAndNetHTTPAnswerAlike(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		// The clock of a bubble moves only when all wait, so that here even seconds must be equal.
		var gin, std []string
		synctest.Test(t, func(t *testing.T) {
			gin = play(startApp(t, "gin", ratelimit.Config{}))
			std = play(startApp(t, "std", ratelimit.Config{}))
		})
		compare(t, gin, std, func(s string) string { return s })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		redisOf := func() ratelimit.Config {
			return ratelimit.Config{Store: redisstore.New(redistest.Start(t).Client()), Timeout: patience}
		}
		gin := play(startApp(t, "gin", redisOf()))
		std := play(startApp(t, "std", redisOf()))
		compare(t, gin, std, func(s string) string { return withoutClock(t, s) })
	})
}

// play returns the answers to all steps.
func play(app *testApp) []string {
	var answers []string
	app.mails.fails = "unreachable@example.com"
	for _, s := range steps {
		code := cmp.Or(app.mails.lastTo("bob@example.com"), "none")
		body := strings.NewReplacer("$CODE", code, "$WRONG", wrong(code)).Replace(s.body)
		answers = append(answers, app.exchange(cmp.Or(s.peer, "192.0.2.1:1234"), request(s.line, body, s.header...)))
	}
	return answers
}

// wrong is another code: the last digit is the next one.
func wrong(code string) string {
	last := code[len(code)-1]
	return code[:len(code)-1] + string('0'+(last-'0'+1)%10)
}

// compare checks the answers of both frameworks against each other and against the steps, after mask has taken
// out what may differ.
func compare(t *testing.T, gin, std []string, mask func(string) string) {
	for i, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			g, n := mask(gin[i]), mask(std[i])
			if g != n {
				t.Fatalf("%s\nwith Gin:\n%s\n\nwith net/http:\n%s", s.line, g, n)
			}
			s.check(t, g, mask)
		})
	}
}

func (s step) check(t *testing.T, answer string, mask func(string) string) {
	t.Helper()
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	if want := "HTTP/1.1 " + strconv.Itoa(s.status) + " " + http.StatusText(s.status); lines[0] != want {
		t.Errorf("%s, want %s", lines[0], want)
	}
	for want := range strings.SplitSeq(mask(s.fields), "\n") {
		if want != "" && strings.Count(head+"\r\n", "\r\n"+want+"\r\n") != 1 {
			t.Errorf("want one line %q in\n%s", want, head)
		}
	}
	if s.answer != "" && body != s.answer {
		t.Errorf("got %s\nwant %s", body, s.answer)
	}
	if s.answer == okBody && strings.Contains(head, "Content-Language") {
		t.Errorf("a success has a language:\n%s", head)
	}
}

// Seconds that depend on the clock of a real server, and the window that is the most they can be.
var (
	clockFields = regexp.MustCompile(`(?m)^(Ratelimit: .*;t=|Retry-After: )(\d+)`)
	dateField   = regexp.MustCompile(`(?m)^Date: .*`)
)

// withoutClock takes out the date and the seconds, which must be those of a window of at most 10 minutes.
func withoutClock(t *testing.T, answer string) string {
	for _, m := range clockFields.FindAllStringSubmatch(answer, -1) {
		if n, err := strconv.Atoi(m[2]); err != nil || n < 1 || n > 600 {
			t.Errorf("%s: want 1 to 600 seconds", m[0])
		}
	}
	return dateField.ReplaceAllString(clockFields.ReplaceAllString(answer, "${1}…"), "Date: …")
}
