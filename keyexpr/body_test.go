package keyexpr_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"

	"github.com/sashlimit/sash/keyexpr"
)

// closer is a body that counts how it is used.
type closer struct {
	io.Reader
	reads, closes int
}

func (c *closer) Read(p []byte) (int, error) { c.reads++; return c.Reader.Read(p) }
func (c *closer) Close() error               { c.closes++; return nil }

func withBody(body io.ReadCloser, length int64) *request {
	r := httptest.NewRequest("POST", "/", nil)
	r.Body, r.ContentLength = body, length
	return &request{http: r}
}

func TestTheHandlerReadsTheSameBody(t *testing.T) {
	t.Parallel()
	const text = `{"email":"a@b.c"}`
	for name, length := range map[string]int64{"declared": int64(len(text)), "chunked": -1} {
		t.Run(name, func(t *testing.T) {
			body := &closer{Reader: strings.NewReader(text)}
			r := withBody(body, length)
			wantKey(t, "body.email", r, "a@b.c")
			if r.http.ContentLength != length {
				t.Errorf("ContentLength became %d", r.http.ContentLength)
			}
			if got := readAll(t, iotest.OneByteReader(r.http.Body)); got != text {
				t.Errorf("the handler reads %q", got)
			}
			if err := r.http.Body.Close(); err != nil || body.closes != 1 {
				t.Errorf("closed %d times, %v", body.closes, err)
			}
			if _, err := r.http.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Errorf("reading on after Close: %v", err)
			}
		})
	}
}

func TestTwoRulesReadTheBodyOnce(t *testing.T) {
	t.Parallel()
	body := &closer{Reader: strings.NewReader(`{"a":"1","b":"2"}`)}
	r := withBody(body, -1)
	wantKey(t, "body.a", r, "1")
	replay, reads := r.http.Body, body.reads
	wantKey(t, "body.b", r, "2")
	if r.http.Body != replay || body.reads != reads {
		t.Error("the second rule read the body again")
	}
	// A handler in between may have begun to read.
	if _, err := io.ReadFull(r.http.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	wantFault(t, "body.a", r, keyexpr.Malformed, "body.a", "The request body is not one valid JSON document.")
	if rest := readAll(t, r.http.Body); rest != `"a":"1","b":"2"}` {
		t.Errorf("the handler reads on with %q", rest)
	}
}

func TestABodyOverTheCapReachesTheHandlerWhole(t *testing.T) {
	t.Parallel()
	small := everything
	small.MaxBodyBytes = 10
	p := compileWith(t, "body.a", small)
	const detail = "The request body is larger than 10 bytes."
	for _, text := range []string{`{"a":"12"}`, `{"a":"123"}`, `{"a":"` + strings.Repeat("x", 9000) + `"}`} {
		body := &closer{Reader: strings.NewReader(text)}
		r := withBody(body, -1)
		_, err := p.Key(r, nil)
		if len(text) <= 10 {
			if err != nil {
				t.Errorf("%d bytes: %v", len(text), err)
			}
		} else if failed, ok := errors.AsType[*keyexpr.KeyError](err); !ok || failed.Problem != keyexpr.TooLarge || failed.Detail() != detail {
			t.Errorf("%d bytes: %v", len(text), err)
		}
		// A second rule may allow more.
		wantKey(t, "body.a", r, strings.Split(text, `"`)[3])
		if got := readAll(t, r.http.Body); got != text {
			t.Errorf("the handler reads %d bytes of %d", len(got), len(text))
		}
		if _ = r.http.Body.Close(); body.closes != 1 {
			t.Errorf("closed %d times", body.closes)
		}
	}
}

func TestTheSmallerCapHoldsForABodyThatIsAlreadyRead(t *testing.T) {
	t.Parallel()
	small := everything
	small.MaxBodyBytes = 3
	r := withBody(io.NopCloser(strings.NewReader(`{"a":1}`)), -1)
	wantKey(t, "body.a", r, "1")
	_, err := compileWith(t, "body.a", small).Key(r, nil)
	if failed, ok := errors.AsType[*keyexpr.KeyError](err); !ok || failed.Problem != keyexpr.TooLarge {
		t.Errorf("got %v", err)
	}
	if got := readAll(t, r.http.Body); got != `{"a":1}` {
		t.Errorf("the handler reads %q", got)
	}
}

func TestABodyThatDeclaresToBeTooLargeIsNotTouched(t *testing.T) {
	t.Parallel()
	body := &closer{Reader: strings.NewReader("x")}
	r := withBody(body, keyexpr.DefaultMaxBodyBytes+1)
	wantFault(t, "body.a", r, keyexpr.TooLarge, "body.a", "The request body is larger than 65536 bytes.")
	if body.reads != 0 || r.http.Body != io.ReadCloser(body) {
		t.Error("the body was read")
	}
}

func TestTheDefaultCapIs64KiB(t *testing.T) {
	t.Parallel()
	fill := func(n int) string { return `{"a":1,"b":"` + strings.Repeat("x", n-14) + `"}` }
	wantKey(t, "body.a", withBody(io.NopCloser(strings.NewReader(fill(64<<10))), -1), "1")
	over := withBody(io.NopCloser(strings.NewReader(fill(64<<10+1))), -1)
	wantFault(t, "body.a", over, keyexpr.TooLarge, "body.a", "The request body is larger than 65536 bytes.")
}

func TestABodyThatDoesNotArriveIsNoKey(t *testing.T) {
	t.Parallel()
	const detail = "The request body could not be read to its end."
	broken := errors.New("connection reset")

	r := withBody(io.NopCloser(io.MultiReader(strings.NewReader(`{"a":1}`), iotest.ErrReader(broken))), -1)
	failed := wantFault(t, "body.a", r, keyexpr.Unreadable, "body.a", detail)
	if !errors.Is(failed, broken) {
		t.Errorf("%v does not wrap the cause", failed)
	}
	wantFault(t, "body.a", r, keyexpr.Unreadable, "body.a", detail) // and so for every rule
	data, err := io.ReadAll(r.http.Body)
	if string(data) != `{"a":1}` || !errors.Is(err, broken) {
		t.Errorf("the handler reads %q, %v", data, err)
	}

	short := withBody(io.NopCloser(strings.NewReader(`{"a":1}`)), 8)
	wantFault(t, "body.a", short, keyexpr.Unreadable, "body.a", detail)

	cut := withBody(http.MaxBytesReader(nil, io.NopCloser(strings.NewReader(`{"a":1}`)), 3), -1)
	wantFault(t, "body.a", cut, keyexpr.TooLarge, "body.a", "The request body is larger than 3 bytes.")
}

func TestABodyThatEarlierMiddlewareKeptIsUsed(t *testing.T) {
	t.Parallel()
	r := postJSON(`never read`)
	r.kept = []byte(`{"a":"kept"}`)
	body := r.http.Body
	wantKey(t, "body.a", r, "kept")
	if r.http.Body != body {
		t.Error("the body was replaced")
	}
	small := everything
	small.MaxBodyBytes = 3
	_, err := compileWith(t, "body.a", small).Key(r, nil)
	if failed, ok := errors.AsType[*keyexpr.KeyError](err); !ok || failed.Problem != keyexpr.TooLarge {
		t.Errorf("the kept body escapes the cap: %v", err)
	}
}

func TestNoBodyIsNoMember(t *testing.T) {
	t.Parallel()
	for _, body := range []io.ReadCloser{nil, http.NoBody, io.NopCloser(strings.NewReader(""))} {
		wantFault(t, "body.a", withBody(body, 0), keyexpr.Missing, "body.a", "The request has no body.")
	}
}

// aGin is a Source over a gin context, as an adapter would write it.
type aGin struct{ *gin.Context }

func (s aGin) Request() *http.Request           { return s.Context.Request }
func (s aGin) Route() string                    { return s.FullPath() }
func (s aGin) Param(name string) (string, bool) { return s.Params.Get(name) }
func (s aGin) Var(name string) (any, bool)      { return s.Get(name) }
func (s aGin) Body() ([]byte, bool) {
	kept, _ := s.Get(gin.BodyBytesKey)
	data, ok := kept.([]byte)
	return data, ok
}

func TestGinBindsWhatTheKeyWasReadFrom(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.ReleaseMode)
	type form struct{ Email string }
	binds := map[string]func(*gin.Context, any) error{
		"ShouldBindJSON":     func(c *gin.Context, v any) error { return c.ShouldBindJSON(v) },
		"ShouldBindBodyWith": func(c *gin.Context, v any) error { return c.ShouldBindBodyWith(v, binding.JSON) },
		"GetRawData": func(c *gin.Context, v any) error {
			data, err := c.GetRawData()
			if err != nil {
				return err
			}
			return binding.JSON.BindBody(data, v)
		},
	}
	p := compile(t, "[body.email, route, params.id]")
	for name, bind := range binds {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, body kept by earlier middleware: %v", name, before), func(t *testing.T) {
				engine := gin.New()
				engine.POST("/send/:id", func(c *gin.Context) {
					if before {
						_ = c.ShouldBindBodyWith(&form{}, binding.JSON)
						if name != "ShouldBindBodyWith" {
							c.Request.Body = io.NopCloser(strings.NewReader(`{"email":"a@b.c"}`))
						}
					}
					for range 2 { // two rules
						key, err := p.Key(aGin{c}, nil)
						if err != nil || strings.Join(key, " ") != "a@b.c /send/:id 7" {
							t.Errorf("key %q, %v", key, err)
						}
					}
					var f form
					if err := bind(c, &f); err != nil || f.Email != "a@b.c" {
						t.Errorf("bound %+v, %v", f, err)
					}
				})
				engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/send/7", strings.NewReader(`{"email":"a@b.c"}`)))
			})
		}
	}
}

// TestOverARealConnection speaks HTTP by hand, so that what arrives is known.
func TestOverARealConnection(t *testing.T) {
	t.Parallel()
	p := compile(t, "body.email")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := p.Key(&request{http: r}, nil)
		if failed, ok := errors.AsType[*keyexpr.KeyError](err); ok {
			fmt.Fprintf(w, "%v", failed.Problem)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d %s", key, body, r.ContentLength, r.Trailer.Get("Sum"))
	}))
	defer server.Close()
	const text = `{"email":"a@b.c"}`
	for name, row := range map[string]struct{ request, want string }{
		"declared": {fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text), `[a@b.c] ` + text + ` 17 `},
		"chunked with a trailer": {
			fmt.Sprintf("Transfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\nSum: 42\r\n\r\n", text[:5], len(text)-5, text[5:]),
			`[a@b.c] ` + text + ` -1 42`,
		},
		"aborted":                           {"Content-Length: 40\r\n\r\n" + text, "unreadable"},
		"too large, and not asked to go on": {"Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+row.request)
			_ = conn.(*net.TCPConn).CloseWrite()
			answer := readAll(t, conn)
			head, body, _ := strings.Cut(answer, "\r\n\r\n")
			if !strings.HasPrefix(head, "HTTP/1.1 200") || body != row.want {
				t.Errorf("got %q, want the body %q", answer, row.want)
			}
		})
	}
}

// FuzzBodyRestore cuts a body into reads, ends it by an error or not, and checks
// that the handler sees the very same bytes and the same end.
func FuzzBodyRestore(f *testing.F) {
	f.Add([]byte(`{"a":"b"}`), int64(9), uint8(3), int64(100), false)
	f.Add([]byte(`{"a":"b"}`), int64(-1), uint8(1), int64(4), false)
	f.Add([]byte(`{"a":"b"}`), int64(20), uint8(200), int64(9), true)
	f.Add([]byte{}, int64(0), uint8(0), int64(1), false)
	f.Add(bytes.Repeat([]byte("x"), 2000), int64(-1), uint8(255), int64(0), true)
	f.Fuzz(func(t *testing.T, data []byte, declared int64, chunk uint8, limit int64, fails bool) {
		config := keyexpr.Config{MaxBodyBytes: max(0, limit)}
		broken := errors.New("broken")
		end := error(io.EOF)
		if fails {
			end = broken
		}
		body := &closer{Reader: &chunks{data: data, size: int(chunk) + 1, end: end}}
		r := withBody(body, max(-1, declared))
		for range 2 {
			_, err := compileWith(t, "body.a ?? form.a", config).Key(r, nil)
			if failed, ok := errors.AsType[*keyexpr.KeyError](err); err != nil && (!ok || failed.Detail() == "") {
				t.Fatal(err)
			}
		}
		got, err := io.ReadAll(r.http.Body)
		if !bytes.Equal(got, data) || fails != errors.Is(err, broken) {
			t.Fatalf("the handler reads %d bytes of %d, %v", len(got), len(data), err)
		}
		if _ = r.http.Body.Close(); body.closes != 1 {
			t.Fatalf("closed %d times", body.closes)
		}
	})
}

// chunks yields size bytes at a time, the last together with the end.
type chunks struct {
	data []byte
	size int
	end  error
}

func (c *chunks) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), c.size)], c.data)
	if c.data = c.data[n:]; len(c.data) == 0 {
		return n, c.end
	}
	return n, nil
}
