package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinel is a master, its replicas, and three sentinels that make one of these the master when two of them have not
// heard of it for 300 ms.
type Sentinel struct {
	Nodes     []*Server // the first begins as the master
	Sentinels []*Server

	t testing.TB
}

const (
	watched = "sash" // what the sentinels call the master
	quorum  = 2
)

// StartReplica starts a replica of that server, and returns when it has all its data.
func StartReplica(t testing.TB, of *Server, args ...string) *Server {
	t.Helper()
	const delay = "repl-diskless-sync-delay" // for which a server waits for a second replica
	of.admin().do("CONFIG", "SET", delay, "0")
	s := Start(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(of.port), "--" + delay, "0"}, args...)...)
	a := s.admin()
	s.await("its master", func() bool {
		return strings.Contains(a.do("INFO", "replication"), "master_link_status:up")
	})
	return s
}

// StartSentinel starts a master with so many replicas, and three sentinels, and returns when all know each other.
func StartSentinel(t testing.TB, replicas int) *Sentinel {
	t.Helper()
	master := Start(t)
	s := &Sentinel{Nodes: []*Server{master}, t: t}
	for range replicas {
		s.Nodes = append(s.Nodes, StartReplica(t, master))
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(t, master))
	}
	for _, sentinel := range s.Sentinels {
		client := redis.NewSentinelClient(sentinel.Options())
		t.Cleanup(func() { client.Close() })
		sentinel.await("the other sentinels and the replicas", func() bool {
			m := client.Master(context.Background(), watched).Val()
			return m["flags"] == "master" && m["num-slaves"] == strconv.Itoa(replicas) && m["num-other-sentinels"] == "2"
		})
	}
	return s
}

// startSentinel starts one, and has it do every 100 ms what it would do every second or ten. (The period called tilt is
// how long it does nothing once it was held up itself.)
func startSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	s := newServer(t, "--sentinel")
	s.conf = filepath.Join(s.dir, "sentinel.conf") // a file, for it keeps in it what it learns
	conf := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d %[3]d\n"+
		"sentinel down-after-milliseconds %[1]s 300\n"+
		"sentinel failover-timeout %[1]s 1000\n", watched, master.port, quorum)
	if err := os.WriteFile(s.conf, []byte(conf), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.start()
	command := []any{"SENTINEL", "DEBUG"}
	for _, period := range []string{"info", "ping", "ask", "publish", "min-link-reconnect", "tilt"} {
		command = append(command, period+"-period", "100")
	}
	s.admin().do(command...)
	return s
}

// Client returns a client of whichever server is the master, closed when the test ends. Like that of a Server it sends
// each command once.
func (s *Sentinel) Client() *redis.Client {
	var addrs []string
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: watched, SentinelAddrs: addrs, MaxRetries: -1, DialerRetries: 1,
	})
	s.t.Cleanup(func() { client.Close() })
	return client
}

// Master returns the server that most sentinels take for the master: after a Kill, until they have found out, the one
// that was killed.
func (s *Sentinel) Master() *Server {
	s.t.Helper()
	var votes map[string]int
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		votes = map[string]int{}
		for _, sentinel := range s.Sentinels {
			votes[masterAccordingTo(sentinel)]++
		}
		for _, node := range s.Nodes {
			if votes[node.Addr()] >= quorum {
				return node
			}
		}
	}
	s.t.Fatalf("redistest: the sentinels do not agree on a master: %v", votes)
	return nil
}

// Successor returns the master that the sentinels have put in the place of another.
func (s *Sentinel) Successor(of *Server) *Server {
	s.t.Helper()
	var next *Server
	s.Sentinels[0].await("another master than "+of.Addr(), func() bool {
		next = s.Master()
		return next != of
	})
	return next
}

// masterAccordingTo asks one sentinel for the master's address, "" if it does not answer.
func masterAccordingTo(sentinel *Server) string {
	client := redis.NewSentinelClient(sentinel.Options())
	defer client.Close()
	addr, err := client.GetMasterAddrByName(context.Background(), watched).Result()
	if err != nil || len(addr) != 2 {
		return ""
	}
	return strings.Join(addr, ":")
}
