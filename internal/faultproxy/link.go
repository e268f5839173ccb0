package faultproxy

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// link is one connection to the proxy, and the one that the proxy has made for it.
type link struct {
	client net.Conn
	server net.Conn    // nil: there is none
	lose   atomic.Bool // what the server says next is to be lost, and the link with it
}

// serve passes one connection on until either side ends it.
func (p *Proxy) serve(client net.Conn) {
	l, silent := p.link(client)
	defer p.drop(l)
	switch {
	case silent:
		io.Copy(io.Discard, client) // until it is closed
	case l.server != nil:
		p.all.Go(func() {
			defer l.close()
			p.passReplies(l)
		})
		p.passRequests(l)
	}
}

// link enters a new connection into the books, and says whether it is to be left without an answer.
func (p *Proxy) link(client net.Conn) (l *link, silent bool) {
	l = &link{client: client}
	p.mu.Lock()
	silent = p.mode.what == blackhole
	p.mu.Unlock()
	if !silent {
		if server, err := net.Dial("tcp", p.target); err == nil {
			l.server = server
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
	if p.ended() {
		l.close()
	}
	return l, silent
}

func (p *Proxy) drop(l *link) {
	l.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) passRequests(l *link) {
	r := bufio.NewReader(l.client)
	for {
		request, command, err := readRequest(r)
		if err != nil {
			return
		}
		switch p.fate(command) {
		case dropRequests:
			continue
		case loseRequests:
			return
		case loseReplies:
			l.lose.Store(true)
		}
		if _, err := l.server.Write(request); err != nil {
			return
		}
	}
}

func (p *Proxy) passReplies(l *link) {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if err != nil || l.lose.Load() {
			return
		}
		if !p.replyPasses() {
			continue
		}
		if _, err := l.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) close() {
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
}

// reset is close, but the client is told that something went wrong.
func (l *link) reset() {
	if c, ok := l.client.(*net.TCPConn); ok {
		c.SetLinger(0)
	}
	l.close()
}

// readRequest reads one request, and the name of its command in lower case. One that is not an array of strings, as
// typed into a terminal, is a line without a name.
func readRequest(r *bufio.Reader) (request []byte, command string, err error) {
	request, err = r.ReadBytes('\n')
	if err != nil {
		return nil, "", err
	}
	for i := range number(request, '*') {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, "", err
		}
		arg := make([]byte, number(line, '$')+len("\r\n"))
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, "", err
		}
		request = append(append(request, line...), arg...)
		if i == 0 {
			command = strings.ToLower(strings.TrimSpace(string(arg)))
		}
	}
	return request, command, nil
}

// number returns n of a line "*n" or "$n", 0 of any other.
func number(line []byte, kind byte) int {
	if line[0] != kind {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
