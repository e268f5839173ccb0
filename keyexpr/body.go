package keyexpr

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// bodyBytes is the whole body, read at most once in an evaluation.
func (m *machine) bodyBytes() ([]byte, *fault) {
	return m.body.once(func() ([]byte, *fault) {
		r, limit := m.src.Request(), m.program.maxBodyBytes
		if failed := checkCoding(r.Header); failed != nil {
			return nil, failed
		}
		if data, ok := m.src.Body(); ok {
			return capped(data, limit)
		}
		return readBody(r, limit)
	})
}

func capped(data []byte, limit int64) ([]byte, *fault) {
	if int64(len(data)) > limit {
		return nil, tooLarge(limit, nil)
	}
	return data, nil
}

func tooLarge(limit int64, err error) *fault {
	sentence := fmt.Sprintf("The request body is larger than %d bytes.", limit)
	return &fault{problem: TooLarge, err: err, sentence: sentence}
}

// readBody reads the body whole, up to limit, and puts one in its place that
// yields the same bytes and then the same error. A body that declares to be
// larger is not touched, so that no 100 Continue asks the client to send it.
func readBody(r *http.Request, limit int64) ([]byte, *fault) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if replay, ok := r.Body.(*replay); ok && replay.whole() {
		return capped(replay.data, limit)
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit, nil)
	}
	data, err := readUpTo(r.Body, limit+1, r.ContentLength)
	body := r.Body
	r.Body = &replay{data: data, rest: body, err: err}
	switch {
	case int64(len(data)) > limit:
		return nil, tooLarge(limit, nil)
	case err != io.EOF:
		return nil, unreadable(err, limit)
	case int64(len(data)) < r.ContentLength:
		return nil, unreadable(io.ErrUnexpectedEOF, limit)
	}
	return data, nil
}

// unreadable tells a body that an outer [http.MaxBytesReader] has cut short from
// one that did not arrive.
func unreadable(err error, limit int64) *fault {
	if cut, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(min(limit, cut.Limit), err)
	}
	return &fault{problem: Unreadable, err: err, sentence: "The request body could not be read to its end."}
}

// A buffer for a body begins as large as the body declares to be, since most do
// so truly, but no larger than this, since a client may declare anything.
const maxFirstBuffer = 64 << 10

// readUpTo reads until the reader fails, io.EOF included, or limit bytes are
// read; then err is nil.
func readUpTo(r io.Reader, limit, declared int64) (data []byte, err error) {
	size := int64(bytes.MinRead)
	if declared >= 0 {
		size = declared + 1 // room for the read that finds the end
	}
	data = make([]byte, 0, min(size, limit, maxFirstBuffer))
	for int64(len(data)) < limit {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		room := data[len(data):min(int64(cap(data)), limit)]
		n, err := r.Read(room)
		data = data[:len(data)+n]
		if err != nil {
			return data, err
		}
	}
	return data, nil
}

// replay is a body that has been read ahead: data, then err, or if that is nil
// the rest of the body. Close is that of the body.
type replay struct {
	data   []byte
	offset int
	rest   io.ReadCloser
	err    error
	closed bool
}

// whole tells that data is the body and that nobody has begun to read it again.
func (b *replay) whole() bool { return b.offset == 0 && b.err == io.EOF && !b.closed }

func (b *replay) Read(p []byte) (int, error) {
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.offset < len(b.data):
		n := copy(p, b.data[b.offset:])
		b.offset += n
		return n, nil
	case b.err != nil:
		return 0, b.err
	}
	return b.rest.Read(p)
}

func (b *replay) Close() error {
	b.closed = true
	return b.rest.Close()
}
