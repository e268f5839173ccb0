package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestTwoServersDoNotMix(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for i := range 2 {
		client, want := Start(t).Client(), fmt.Sprint("value of server ", i)
		wg.Go(func() {
			if err := client.SetNX(t.Context(), "key", want, 0).Err(); err != nil {
				t.Error(err)
			}
			if got := client.Get(t.Context(), "key").Val(); got != want {
				t.Errorf("server %d: got %q, want %q", i, got, want)
			}
		})
	}
	wg.Wait()
}

func TestRestartKeepsTheAddressAndForgetsTheData(t *testing.T) {
	t.Parallel()
	s := Start(t)
	client, addr := s.Client(), s.Addr()
	mustSet(t, client)

	s.Stop()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a stopped server answers")
	}
	s.Restart()
	if s.Addr() != addr {
		t.Errorf("it moved from %s to %s", addr, s.Addr())
	}
	awaitPing(t, client)
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("it came back with %d keys", n)
	}
	mustSet(t, client)
	s.Restart() // without a Stop before
	awaitPing(t, client)
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("it came back with %d keys", n)
	}
}

func TestAKilledServerIsGoneAtOnceAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"running", "frozen"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			s := Start(t)
			client, pid := s.Client(), s.proc.cmd.Process.Pid
			mustSet(t, client)
			if state == "frozen" {
				s.Freeze()
			}
			s.Kill()
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("it is still there: %v", err)
			}
			if err := client.Ping(t.Context()).Err(); err == nil {
				t.Error("a killed server answers")
			}
			s.Kill() // a second time changes nothing
			s.Restart()
			awaitPing(t, client)
			if n := client.DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("it came back with %d keys", n)
			}
		})
	}
}

func TestAFrozenServerIsSilentUntilItIsThawed(t *testing.T) {
	t.Parallel()
	s := Start(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	mustSet(t, client)

	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // real time: a real server
	defer cancel()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	if got, err := client.Get(t.Context(), "key").Result(); got != "value" {
		t.Errorf("thawed, it answers %q, %v", got, err)
	}
}

func TestNoServerOutlivesItsTest(t *testing.T) {
	t.Parallel()
	pids := map[string]int{}
	t.Run("the test", func(t *testing.T) {
		pids["running"] = Start(t).proc.cmd.Process.Pid
		frozen := Start(t)
		frozen.Freeze()
		pids["frozen"] = frozen.proc.cmd.Process.Pid
	})
	for name, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the %s server is still there: %v", name, err)
		}
	}
}

func TestArgumentsReachTheServer(t *testing.T) {
	t.Parallel()
	client := Start(t, "--maxmemory", "7mb").Client()
	if got := client.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "7340032" {
		t.Errorf("maxmemory = %q", got)
	}
}

func TestAServerOnATakenPortIsNotMistakenForOurs(t *testing.T) {
	t.Parallel()
	theirs := Start(t)
	ours := &Server{t: t, binary: binary(t), dir: t.TempDir(), port: theirs.port}
	if err := ours.launch(); err == nil {
		t.Error("launch took the server of another for its own")
	}
	awaitPing(t, theirs.Client())
}

func TestTheEnvironmentNamesTheServerToStart(t *testing.T) {
	usual := binary(t)
	named := filepath.Join(t.TempDir(), "named")
	if err := os.WriteFile(named, []byte("#!/bin/sh\ntouch \"$0.ran\"; exec "+usual+` "$@"`), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(ServerVariable, named)
	mustSet(t, Start(t).Client())
	if _, err := os.Stat(named + ".ran"); err != nil {
		t.Errorf("another one was started: %v", err)
	}
	t.Setenv(ServerVariable, named+".missing")
	if says := failureOf(func(tb testing.TB) { Start(tb) }); !strings.Contains(says, ServerVariable) {
		t.Errorf("of one that is missing it says %q", says)
	}
}

func TestFaultsFailTheTest(t *testing.T) {
	t.Run("a missing server says what to do", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		t.Setenv(ServerVariable, "")
		says := failureOf(func(tb testing.TB) { Start(tb) })
		if !strings.Contains(says, "make test") {
			t.Errorf("it says %q", says)
		}
	})
	t.Run("a server that will not start shows its log", func(t *testing.T) {
		says := failureOf(func(tb testing.TB) { Start(tb, "--no-such-directive", "1") })
		if !strings.Contains(says, "no-such-directive") {
			t.Errorf("it says %q", says)
		}
	})
	t.Run("a server that dies unasked fails the test at its end, and shows its log", func(t *testing.T) {
		says := failureOf(func(tb testing.TB) {
			s := Start(tb)
			s.proc.cmd.Process.Kill()
			<-s.proc.ended
		})
		if !strings.Contains(says, "died unasked") || !strings.Contains(says, "Ready to accept connections") {
			t.Errorf("it says %q", says)
		}
	})
}

func TestAClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t, 3)
	client := cluster.Client()
	for i := range 100 {
		if err := client.Set(t.Context(), fmt.Sprint("key", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range cluster.Nodes {
		if n := node.Client().DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("node %d holds none of 100 keys", i)
		}
	}
}

func mustSet(t *testing.T, client *redis.Client) {
	t.Helper()
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// awaitPing forgives a client the connections that died with the old server.
func awaitPing(t *testing.T, client *redis.Client) {
	t.Helper()
	var err error
	for range 100 {
		if err = client.Ping(t.Context()).Err(); err == nil {
			return
		}
		time.Sleep(pause)
	}
	t.Fatal(err)
}

// failureOf runs a test apart, cleanups included, and returns what it said
// when it failed, "" if it did not.
func failureOf(test func(testing.TB)) string {
	var tb recorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer tb.cleanUp()
		test(&tb)
	}()
	<-done
	return tb.says.String()
}

// recorder is a test whose failure is not that of the test that runs it.
type recorder struct {
	testing.TB // nil: what redistest does not use must not be called
	says       strings.Builder
	cleanups   []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		panic(err)
	}
	r.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (r *recorder) Errorf(format string, args ...any) { fmt.Fprintf(&r.says, format, args...) }
func (r *recorder) Fatal(args ...any)                 { fmt.Fprint(&r.says, args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

func (r *recorder) cleanUp() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}
