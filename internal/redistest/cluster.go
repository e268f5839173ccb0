package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// Cluster is a Redis Cluster of masters without replicas.
type Cluster struct {
	Nodes []*Server

	t testing.TB
}

// StartCluster starts that many masters, shares the slots out among them in
// order, and returns when every node says that the cluster is ok. That takes
// some two seconds: a new node does not serve before. The args are appended to
// every command line.
func StartCluster(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	args = append([]string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"}, args...)
	for range masters {
		c.Nodes = append(c.Nodes, Start(t, args...))
	}
	for i, node := range c.Nodes {
		if err := c.join(node, i*slots/masters, (i+1)*slots/masters-1); err != nil {
			t.Fatalf("redistest: cluster node %d: %v\n%s", i, err, node.log())
		}
	}
	c.awaitOK()
	return c
}

// Client returns a new client of the cluster, closed when the test ends. Like
// that of a Server it sends each command once; it still follows redirections.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(c.Options())
	c.t.Cleanup(func() { client.Close() })
	return client
}

// Options returns those of a Client, for a test that needs another one.
func (c *Cluster) Options() *redis.ClusterOptions {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return &redis.ClusterOptions{Addrs: addrs, MaxRetries: -1, DialerRetries: 1}
}

// MakeDown takes a slot away from its node. A cluster that does not serve every slot serves none: every node answers
// everything with CLUSTERDOWN.
func (c *Cluster) MakeDown() (heal func()) {
	c.t.Helper()
	owner := c.Nodes[0].admin() // of slot 0: first, for the others believe what it says of itself
	owner.do("CLUSTER", "DELSLOTS", 0)
	for _, node := range c.Nodes {
		a := node.admin()
		node.await("cluster_state:fail", func() bool {
			a.try("CLUSTER", "DELSLOTS", 0) // again, if what the owner said before arrives only now
			return strings.Contains(a.do("CLUSTER", "INFO"), "cluster_state:fail")
		})
	}
	return owner.cure(func() {
		owner.do("CLUSTER", "ADDSLOTS", 0)
		c.awaitOK()
	})
}

// join gives the node its slots and introduces it to the first one.
func (c *Cluster) join(node *Server, from, to int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := node.client()
	defer client.Close()
	// An epoch of its own for each master spares the nodes a round of
	// settling which of several equal epochs wins.
	if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", from+1).Err(); err != nil {
		return err
	}
	if err := client.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", from, to).Err(); err != nil {
		return err
	}
	first := c.Nodes[0]
	if node == first {
		return nil
	}
	return client.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(first.port)).Err()
}

func (c *Cluster) awaitOK() {
	c.t.Helper()
	var err error
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); time.Sleep(10 * pause) {
		if err = c.check(); err == nil {
			return
		}
	}
	c.t.Fatalf("redistest: the cluster does not come up: %v", err)
}

// check asks every node: one that is behind would still answer CLUSTERDOWN,
// or redirect to an address it does not know yet.
func (c *Cluster) check() error {
	for _, node := range c.Nodes {
		client := node.client()
		info, err := client.ClusterInfo(context.Background()).Result()
		client.Close()
		if err != nil {
			return err
		}
		for _, want := range []string{
			"cluster_state:ok",
			"cluster_slots_ok:" + strconv.Itoa(slots),
			"cluster_known_nodes:" + strconv.Itoa(len(c.Nodes)),
		} {
			if !strings.Contains(info, want+"\r\n") {
				return fmt.Errorf("node %s does not say %q yet", net.JoinHostPort("127.0.0.1", strconv.Itoa(node.port)), want)
			}
		}
	}
	return nil
}
