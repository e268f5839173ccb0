package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
	"github.com/sashlimit/sash/ratelimit"
	"github.com/sashlimit/sash/ratelimit/redisstore"
)

// At first only the node itself is missing. Once the others have found out, the whole Cluster is down, or they go on
// alone, as cluster-require-full-coverage says.
func TestOnAClusterTheOtherMastersGoOnWithoutOneThatIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	store := redisstore.New(client)
	down, others := cluster.Nodes[0], cluster.Nodes[1:]
	keyOn := keysByNode(t, client)
	for _, node := range cluster.Nodes {
		take(t, store, claimOn(keyOn[node.Addr()]))
	}
	down.Kill()
	mustFail(t, store, keyOn[down.Addr()], "connection refused")
	for _, node := range others {
		take(t, store, claimOn(keyOn[node.Addr()]))
	}

	configure(t, others, "cluster-node-timeout", "500") // of 15 s until here
	for _, node := range others {
		await(t, "the whole Cluster is down", func() bool { return says(t, node, "cluster_state:fail") })
		mustFail(t, store, keyOn[node.Addr()], "CLUSTERDOWN")
	}
	configure(t, others, "cluster-require-full-coverage", "no")
	for _, node := range others {
		await(t, "a node goes on alone", func() bool { return says(t, node, "cluster_state:ok") })
		if d := take(t, store, claimOn(keyOn[node.Addr()]))[0]; d.Reason != ratelimit.Counted {
			t.Errorf("the key of a node that is up: %+v", d)
		}
	}
	mustFail(t, store, keyOn[down.Addr()], "connection refused")
}

func TestAClusterThatIsDownIsAnErrorUntilItIsHealed(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	store := redisstore.New(cluster.Client())
	heal := cluster.MakeDown()
	mustFail(t, store, "k", "CLUSTERDOWN")
	heal()
	take(t, store, claimOn("k"))
}

// keysByNode finds a key for each node.
func keysByNode(t *testing.T, client *redis.ClusterClient) map[string]string {
	t.Helper()
	keys := make(map[string]string)
	for i := range 100 {
		key := fmt.Sprint("k", i)
		node, err := client.MasterForKey(t.Context(), "rate_limit:"+key)
		if err != nil {
			t.Fatal(err)
		}
		keys[node.Options().Addr] = key
	}
	return keys
}

func configure(t *testing.T, nodes []*redistest.Server, setting, value string) {
	t.Helper()
	for _, node := range nodes {
		if err := node.Client().ConfigSet(t.Context(), setting, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// says reports whether a line of CLUSTER INFO is this one.
func says(t *testing.T, node *redistest.Server, line string) bool {
	t.Helper()
	info := node.Client().ClusterInfo(t.Context()).Val()
	return slices.Contains(strings.Split(info, "\r\n"), line)
}

// await polls until what a real server does in its own time has happened.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if happened() {
			return
		}
	}
	t.Fatalf("waited in vain until %s", what)
}

func mustFail(t *testing.T, store *redisstore.Store, key, want string) {
	t.Helper()
	err := store.Take(t.Context(), uuid.New(), []ratelimit.Claim{claimOn(key)}, make([]ratelimit.Decision, 1))
	if err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q in it", key, err, want)
	}
}
