// Package redistest starts real Redis servers for tests.
//
// Start gives a test a server of its own: empty, without persistence, on a
// port of 127.0.0.1, stopped when the test ends. What answers on that port is
// known to be the process that Start began, because a test that talks to
// somebody else's Redis proves nothing and may destroy something. A missing
// server binary fails the test; it never skips it, since a suite that skips
// its Redis half still looks green.
//
//	func TestAllowed(t *testing.T) {
//		client := redistest.Start(t).Client()
//		…
//	}
//
// Beside a single server there are others: StartTLS, StartReplica, StartSentinel, StartCluster. What can befall a server
// is a method: Kill, Freeze, MakeReadOnly, and the rest of Faults.
//
// It needs a Unix: servers are frozen and thawed with signals.
package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// ServerVariable is the environment variable that names the program to start, a path or a name in PATH. If it is not
// set, that is redis-server or else valkey-server.
const ServerVariable = "SASH_REDIS_SERVER"

const (
	patience = 30 * time.Second // for a server to answer, or to do what it does in its own time
	grace    = 10 * time.Second // for it to end when told to
	pause    = 5 * time.Millisecond

	snapshot = "dump.rdb"
)

// Server is one Redis server, owned by one test. Its methods are to be called
// from the goroutine that runs the test, for they end it when they fail.
type Server struct {
	t        testing.TB
	binary   string
	dir      string
	conf     string // its configuration file, or ""
	args     []string
	tls      *tls.Config // nil where plain TCP is spoken
	password string      // of the default user
	port     int
	proc     *process // nil while stopped
}

// process is one run of the server: Restart makes a second.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process is gone and reaped
}

// Start runs a server, and returns when it answers. The args are appended to the command line:
// Start(t, "--maxmemory", "2mb"). The test fails if the server dies unasked.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return newServer(t, args...).start()
}

func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	return &Server{t: t, binary: binary(t), dir: t.TempDir(), args: args}
}

func (s *Server) start() *Server {
	t := s.t
	t.Helper()
	// A port that was free a moment ago may be taken by the time the server
	// binds it, by a test of another package. Then ours has ended, or another
	// one answers; both mean: try elsewhere.
	var err error
	for range 5 {
		s.port = freePort(t)
		if err = s.launch(); err == nil {
			t.Cleanup(s.cleanup)
			return s
		}
	}
	t.Fatalf("redistest: cannot start %s: %v\n%s", s.binary, err, s.log())
	return nil
}

// Addr is host:port. It stays the same over Stop and Restart.
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// Client returns a new client of the server, closed when the test ends. It
// sends each command once and dials once, so that a test sees every fault.
func (s *Server) Client() *redis.Client { return s.clientOf(s.Options()) }

// Options returns those of a Client, for a test that needs another one.
func (s *Server) Options() *redis.Options {
	return &redis.Options{
		Addr: s.Addr(), Password: s.password, TLSConfig: s.tls.Clone(),
		MaxRetries: -1, DialerRetries: 1,
	}
}

// clientOf returns a client that is closed when the test ends.
func (s *Server) clientOf(o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Stop ends the server and waits until its port is closed. Its data is gone.
func (s *Server) Stop() {
	s.t.Helper()
	s.end((*process).stop)
}

// Kill ends the server as a crash does: at once, in the middle of whatever it does. Its data is gone, its connections
// are closed, and its port refuses until a Restart.
func (s *Server) Kill() {
	s.t.Helper()
	s.end((*process).kill)
}

func (s *Server) end(how func(*process)) {
	s.t.Helper()
	if s.proc == nil {
		return
	}
	if s.proc.hasEnded() {
		s.t.Errorf("redistest: the server at %s died unasked: %v\n%s", s.Addr(), s.proc.cmd.ProcessState, s.log())
	}
	how(s.proc)
	s.proc = nil
}

// Restart stops the server, unless it is stopped, and starts it on the same
// port, empty and in good health.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.forget()
	if err := s.launch(); err != nil {
		s.t.Fatalf("redistest: cannot restart at %s: %v\n%s", s.Addr(), err, s.log())
	}
}

// Freeze suspends the server: connections stay open, the kernel still accepts
// new ones, and nothing is answered until Thaw.
func (s *Server) Freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen server go on, beginning with what was sent meanwhile.
func (s *Server) Thaw() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.proc == nil {
		s.t.Fatalf("redistest: %v: the server at %s is stopped", sig, s.Addr())
	}
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %v: %v\n%s", sig, err, s.log())
	}
}

func (s *Server) cleanup() {
	s.t.Helper()
	s.Stop()
}

// forget removes the copy of the data that replication, or a fault, has left.
func (s *Server) forget() { os.Remove(filepath.Join(s.dir, snapshot)) }

// launch starts the server on s.port and returns once that very process
// answers there. If it returns an error, no process is left.
func (s *Server) launch() error {
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() // the child has its own descriptor

	cmd := exec.Command(s.binary, s.commandLine()...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() { defer close(p.ended); cmd.Wait() }()

	if err := s.awaitAnswer(p); err != nil {
		p.stop()
		return err
	}
	s.proc = p
	return nil
}

// commandLine names the configuration file first, and last what a test asks for: of two that differ the last one wins.
func (s *Server) commandLine() []string {
	var line []string
	if s.conf != "" {
		line = append(line, s.conf)
	}
	if port := strconv.Itoa(s.port); s.tls == nil {
		line = append(line, "--port", port)
	} else {
		line = append(line, "--port", "0", "--tls-port", port)
	}
	line = append(line, "--bind", "127.0.0.1", "--dir", s.dir, "--dbfilename", snapshot,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "")
	return append(line, s.args...)
}

// awaitAnswer polls the port until a server answers there, and returns an
// error if it is not p.
func (s *Server) awaitAnswer(p *process) error {
	client := s.client()
	defer client.Close()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		if p.hasEnded() {
			return fmt.Errorf("it ended at once: %v", p.cmd.ProcessState)
		}
		if !s.accepts() {
			continue
		}
		switch pid, err := processID(client); {
		case err != nil:
			continue
		case pid != p.cmd.Process.Pid:
			return fmt.Errorf("another server (process %d) answers at %s", pid, s.Addr())
		default:
			return nil
		}
	}
	return errors.New("it does not answer")
}

// accepts keeps the client's pool, which logs every failed dial, quiet while
// the server is still starting.
func (s *Server) accepts() bool {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func (s *Server) client() *redis.Client { return redis.NewClient(s.Options()) }

func (s *Server) logFile() string { return filepath.Join(s.dir, "server.log") }

func (s *Server) log() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return "its log:\n" + string(b)
}

// processID asks the server behind client who it is.
func processID(client *redis.Client) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil && !redis.IsLoadingError(err) { // as it does after MakeLoading
		return 0, err
	}
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if pid, ok := strings.CutPrefix(line, "process_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(pid))
		}
	}
	return 0, errors.New("INFO names no process_id")
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop returns when the process is gone. SIGCONT comes second: a frozen
// process finds SIGTERM waiting for it when it wakes.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.ended:
	case <-time.After(grace): // inside an endless script, for example
		p.kill()
	}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// binary finds the server to start.
func binary(t testing.TB) string {
	t.Helper()
	if name := os.Getenv(ServerVariable); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("redistest: %s: %v", ServerVariable, err)
		}
		return path
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("redistest: this test needs redis-server or valkey-server in PATH; `make test` installs one")
	return ""
}

// freePort returns a port of 127.0.0.1 on which nobody listens right now. It
// is below the range from which systems take the ports of outgoing
// connections: there a client that dials a stopped server again and again
// would one day be given that very port and be connected to itself. A cluster
// node also listens at port + 10000, still below that range.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(12_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("redistest: no free port on 127.0.0.1")
	return 0
}
