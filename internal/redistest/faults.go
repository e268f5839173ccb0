package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Fault is a state in which a server answers, but not as it should.
type Fault struct {
	Name string
	Make func(*Server) (heal func())

	// Error is how the error begins that go-redis reports of a script that writes. It is "" where go-redis reports no
	// more than that the connection has ended.
	Error string
}

// Faults are those that every server can be given. Beside them there are CLUSTERDOWN, which only a Cluster knows, and
// WRONGPASS, the answer to a wrong password where one is wanted.
var Faults = []Fault{
	{"loading", (*Server).MakeLoading, "LOADING"},
	{"read-only", (*Server).MakeReadOnly, "READONLY"},
	{"master down", (*Server).MakeMasterDown, "MASTERDOWN"},
	{"out of memory", (*Server).MakeOutOfMemory, "OOM"},
	{"misconfigured", (*Server).MakeMisconfigured, "MISCONF"},
	{"busy", (*Server).MakeBusy, "BUSY"},
	{"full", (*Server).MakeFull, ""},
	{"password wanted", (*Server).MakePasswordWanted, "NOAUTH"},
	{"forbidden", func(s *Server) func() { return s.Forbid("eval", "evalsha") }, "NOPERM"},
}

// MakeLoading restarts the server with a copy of data that takes it half a minute to read: until then, or until it is
// healed, it answers LOADING. Healed, it is empty, as it is after a Restart.
func (s *Server) MakeLoading() (heal func()) {
	s.t.Helper()
	const fill = `for i = 1, 15000 do redis.call('SET', 'filler' .. i, string.rep('x', 1024)) end`
	a := s.admin()
	a.do("EVAL", fill, 0)
	a.do("CONFIG", "SET", "rdbcompression", "no") // what has shrunk is read in too few steps
	a.do("SAVE")
	s.Stop()
	args := s.args
	// 2 ms for each key, and a look at the requests after each so many bytes.
	s.args = append(slices.Clone(args), "--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024")
	err := s.launch()
	s.args = args
	if err != nil {
		s.t.Fatalf("redistest: cannot restart at %s: %v\n%s", s.Addr(), err, s.log())
	}
	a = s.admin()
	return a.cure(func() {
		a.do("CONFIG", "SET", "key-load-delay", "0")
		s.await("the end of the loading", func() bool { return a.try("PING") == nil })
		a.do("FLUSHALL")
		s.forget()
	})
}

// MakeReadOnly demotes the server, as a failover does: a replica of a master that cannot be reached, it answers reads,
// and writes with READONLY.
func (s *Server) MakeReadOnly() (heal func()) {
	s.t.Helper()
	a := s.admin()
	a.do("REPLICAOF", "127.0.0.1", nobody)
	return a.cure(func() { a.do("REPLICAOF", "NO", "ONE") })
}

// MakeMasterDown makes the server a replica that would rather say nothing than what may be out of date: it answers
// reads and scripts with MASTERDOWN, and writes with READONLY.
func (s *Server) MakeMasterDown() (heal func()) {
	s.t.Helper()
	a := s.admin()
	restore := a.set("replica-serve-stale-data", "no")
	a.do("REPLICAOF", "127.0.0.1", nobody)
	return a.cure(func() { a.do("REPLICAOF", "NO", "ONE"); restore() })
}

// nobody listens on this port.
const nobody = 1

// MakeOutOfMemory has the server hold more than its maxmemory, with nothing that it may evict: it answers OOM to every
// command that might need memory, and reads and deletes as before. A script is stopped at the first such command,
// unless it has deleted something before.
func (s *Server) MakeOutOfMemory() (heal func()) {
	s.t.Helper()
	a := s.admin()
	policy := a.set("maxmemory-policy", "noeviction")
	limit := a.set("maxmemory", "1")
	return a.cure(func() { limit(); policy() })
}

// MakeMisconfigured has a snapshot fail, as on a full disk: the server answers reads, and writes with MISCONF.
func (s *Server) MakeMisconfigured() (heal func()) {
	s.t.Helper()
	a := s.admin()
	// What stands in the way is not a matter of rights, which root would have.
	obstacle := filepath.Join(s.dir, snapshot)
	s.forget()
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	defer os.Remove(obstacle)
	restore := a.set("save", "3600 1000000000") // a server that saves nothing does not mind
	a.do("BGSAVE")
	s.await("the failure of a snapshot", func() bool {
		return strings.Contains(a.do("INFO", "persistence"), "rdb_last_bgsave_status:err")
	})
	return a.cure(restore)
}

// MakeBusy has the server run an endless script: it answers everything with BUSY. It does not listen to Stop either,
// which takes its time then; Kill does not.
func (s *Server) MakeBusy() (heal func()) {
	s.t.Helper()
	a := s.admin()
	restore := a.set("lua-time-limit", "1") // ms; the newer name is busy-reply-threshold
	o := s.Options()
	o.ReadTimeout = -1 // none
	client := s.clientOf(o)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Eval(context.Background(), "while true do end", nil)
	}()
	s.await("BUSY", func() bool { return redis.HasErrorPrefix(a.try("PING"), "BUSY") })
	heal = a.cure(func() { a.do("SCRIPT", "KILL"); <-ended; restore() })
	s.t.Cleanup(func() {
		if a.ails() {
			s.Kill()
		}
		<-ended
	})
	return heal
}

// MakeFull cuts every connection to the server, and has it take no new one: it greets each with "ERR max number of
// clients reached", and closes it. go-redis takes that for the answer of an old server to its HELLO, goes on, and
// reports that the connection has ended.
func (s *Server) MakeFull() (heal func()) {
	s.t.Helper()
	a := s.admin()
	restore := a.set("maxclients", "1") // the one through which it is healed
	a.do("CLIENT", "KILL", "TYPE", "normal")
	return a.cure(restore)
}

// MakePasswordWanted gives the server a password that nobody knows, and cuts every connection: whoever comes back
// without one is answered NOAUTH, and with one WRONGPASS.
func (s *Server) MakePasswordWanted() (heal func()) {
	s.t.Helper()
	a := s.admin()
	restore := a.set("requirepass", "nobody knows it")
	a.do("CLIENT", "KILL", "TYPE", "normal")
	return a.cure(restore)
}

// Forbid takes commands from the default user: the server answers them with NOPERM.
func (s *Server) Forbid(commands ...string) (heal func()) {
	s.t.Helper()
	a := s.admin()
	for _, command := range commands {
		a.do("ACL", "SETUSER", "default", "-"+command)
	}
	return a.cure(func() { a.do("ACL", "SETUSER", "default", "+@all") })
}

// admin is a connection that stays open as long as a fault lasts: there may be no way to open another.
type admin struct {
	s      *Server
	proc   *process // whose fault it is: another run of the server does not have it
	conn   *redis.Conn
	healed bool
}

func (s *Server) admin() *admin {
	s.t.Helper()
	if s.proc == nil {
		s.t.Fatalf("redistest: the server at %s is stopped", s.Addr())
	}
	conn := s.Client().Conn()
	s.t.Cleanup(func() { conn.Close() })
	return &admin{s: s, proc: s.proc, conn: conn}
}

// cure makes what heals a fault: done once, and not to a server that has been restarted since.
func (a *admin) cure(cure func()) (heal func()) {
	var once sync.Once
	return func() {
		a.s.t.Helper()
		once.Do(func() {
			if a.ails() {
				cure()
			}
			a.healed = true
			a.conn.Close()
		})
	}
}

func (a *admin) ails() bool { return !a.healed && a.s.proc == a.proc && !a.proc.hasEnded() }

// set changes a setting, and returns what changes it back.
func (a *admin) set(name, value string) (restore func()) {
	a.s.t.Helper()
	before, err := a.conn.ConfigGet(context.Background(), name).Result()
	if err != nil || len(before) != 1 {
		a.s.t.Fatalf("redistest: CONFIG GET %s: %v, %v", name, before, err)
	}
	a.do("CONFIG", "SET", name, value)
	return func() { a.do("CONFIG", "SET", name, before[name]) }
}

// do runs a command that must succeed, and returns its reply as text.
func (a *admin) do(args ...any) string {
	a.s.t.Helper()
	reply, err := a.conn.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		a.s.t.Fatalf("redistest: %v: %v\n%s", args, err, a.s.log())
	}
	return fmt.Sprint(reply)
}

func (a *admin) try(args ...any) error { return a.conn.Do(context.Background(), args...).Err() }

// await polls until the server has what it is waited for.
func (s *Server) await(what string, has func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		if has() {
			return
		}
	}
	s.t.Fatalf("redistest: the server at %s was waited for in vain: %s\n%s", s.Addr(), what, s.log())
}
