package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestATLSServerIsReachedByThoseWhoTrustItAndKnowThePassword(t *testing.T) {
	t.Parallel()
	s := StartTLS(t, "secret", "--maxmemory", "7mb")
	client := s.Client()
	mustSet(t, client)
	if got := client.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "7340032" {
		t.Errorf("maxmemory = %q: the arguments do not reach it", got)
	}
	ping := func(change func(*redis.Options)) error {
		o := s.Options()
		change(o)
		return s.clientOf(o).Ping(t.Context()).Err()
	}
	if err := ping(func(o *redis.Options) { o.Password = "wrong" }); !redis.HasErrorPrefix(err, "WRONGPASS") {
		t.Errorf("a wrong password: %v", err)
	}
	if err := ping(func(o *redis.Options) { o.Password = "" }); !redis.HasErrorPrefix(err, "NOAUTH") {
		t.Errorf("no password: %v", err)
	}
	var unknown x509.UnknownAuthorityError
	if err := ping(func(o *redis.Options) { o.TLSConfig = &tls.Config{} }); !errors.As(err, &unknown) {
		t.Errorf("who does not trust it: %v", err)
	}
	if err := ping(func(o *redis.Options) { o.TLSConfig = nil }); err == nil {
		t.Error("it speaks plain TCP")
	}
	s.Restart()
	awaitPing(t, client)
}

func TestAUserMayDoWhatTheRulesSayAndNothingElse(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.AddUser("reader", "secret", "+get", "~key*")
	mustSet(t, s.Client())
	reader := s.ClientAs("reader", "secret")
	if got, err := reader.Get(t.Context(), "key").Result(); got != "value" {
		t.Errorf("got %q, %v", got, err)
	}
	for what, err := range map[string]error{
		"another command": reader.Set(t.Context(), "key", "value", 0).Err(),
		"another key":     reader.Get(t.Context(), "other").Err(),
	} {
		if !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.AddUser("reader", "secret", "+set", "~key*")
	mustSet(t, s.ClientAs("reader", "secret"))
	if err := s.ClientAs("reader", "secret").Get(t.Context(), "key").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("the rules of before still hold: %v", err)
	}
}

func TestAReplicaHasTheDataOfItsMaster(t *testing.T) {
	t.Parallel()
	master := Start(t)
	mustSet(t, master.Client())
	replica := StartReplica(t, master)
	if got, err := replica.Client().Get(t.Context(), "key").Result(); got != "value" {
		t.Errorf("it holds %q, %v", got, err)
	}
	master.Kill()
	replica.Restart()
	if n := replica.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("without a master it came back with %d keys", n)
	}
}

func TestTheSentinelsMakeAReplicaTheMasterOfAllThatAreLeft(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t, 2)
	client := s.Client()
	mustSet(t, client)
	first := s.Master()
	if first != s.Nodes[0] {
		t.Errorf("the master is %s, want the first node, %s", first.Addr(), s.Nodes[0].Addr())
	}
	first.Kill()
	second := s.Successor(first)
	second.await("a client", func() bool { return client.Set(t.Context(), "key", "new", 0).Err() == nil })
	if got := second.Client().Get(t.Context(), "key").Val(); got != "new" {
		t.Errorf("the client found another master: the new one holds %q", got)
	}
}
