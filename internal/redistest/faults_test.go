package redistest

import (
	"bufio"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestEveryFaultIsAnsweredByItsErrorUntilItIsHealed(t *testing.T) {
	t.Parallel()
	for _, fault := range Faults {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			s := Start(t)
			client := s.Client()
			mustSet(t, client)
			heal := fault.Make(s)
			err := writeByScript(t, client)
			if err == nil || fault.Error != "" && !redis.HasErrorPrefix(err, fault.Error) {
				t.Errorf("a script got %v, want %s", err, fault.Error)
			}
			t.Logf("a script got: %v", err)
			heal()
			awaitPing(t, client)
			if err := writeByScript(t, client); err != nil {
				t.Errorf("healed, it answers %v", err)
			}
			heal() // a second time changes nothing
		})
	}
}

func TestAFaultEndsWithTheRunOfTheServer(t *testing.T) {
	t.Parallel()
	for _, fault := range Faults {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			s := Start(t)
			heal := fault.Make(s)
			s.Kill()
			s.Restart()
			client := s.Client()
			if err := writeByScript(t, client); err != nil {
				t.Errorf("restarted, it answers %v", err)
			}
			heal() // of another run
			if n := client.DBSize(t.Context()).Val(); n != 1 {
				t.Errorf("it holds %d keys, want the one just written", n)
			}
		})
	}
}

func TestAFaultMayLastUntilTheEndOfTheTest(t *testing.T) {
	t.Parallel()
	for _, fault := range Faults {
		says := failureOf(func(tb testing.TB) { fault.Make(Start(tb)) })
		if says != "" {
			t.Errorf("%s: %s", fault.Name, says)
		}
	}
}

func TestAFullServerSaysSoToEachNewConnection(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.MakeFull()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if line, _ := bufio.NewReader(conn).ReadString('\n'); line != "-ERR max number of clients reached\r\n" {
		t.Errorf("it says %q", line)
	}
}

func TestAWrongPasswordIsAnsweredAsOne(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.MakePasswordWanted()
	o := s.Options()
	o.Password = "wrong"
	err := s.clientOf(o).Ping(t.Context()).Err()
	if !redis.HasErrorPrefix(err, "WRONGPASS") {
		t.Errorf("got %v", err)
	}
	t.Log(err)
}

func TestAClusterThatIsDownSaysSoOnEveryNodeUntilItIsHealed(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t, 3)
	heal := cluster.MakeDown()
	for i, node := range cluster.Nodes {
		err := writeByScript(t, node.Client())
		if !redis.HasErrorPrefix(err, "CLUSTERDOWN") {
			t.Errorf("node %d answers %v", i, err)
		}
		t.Log(err)
	}
	heal()
	if err := writeByScript(t, cluster.Client()); err != nil {
		t.Errorf("healed, it answers %v", err)
	}
}

func writeByScript(t *testing.T, client redis.Scripter) error {
	return client.Eval(t.Context(), "return redis.call('SET', KEYS[1], 'value')", []string{"key"}).Err()
}
