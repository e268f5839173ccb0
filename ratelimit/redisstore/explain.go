package redisstore

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/ratelimit"
)

// advice is what to do about an error, by how the server's words begin.
var advice = []struct{ prefix, advice string }{
	{"MOVED", "the server belongs to a Cluster: connect with redis.NewClusterClient"},
	{"CROSSSLOT", "the server is a Cluster of its own: connect with redis.NewClusterClient"},
	{"LOADING", "the server has just started and is still loading its data"},
	{"READONLY", "the server is a replica: connect to its master, or through Sentinel with redis.NewFailoverClient"},
	{"OOM", "the server is at its maxmemory: give it more, and set maxmemory-policy noeviction"},
	{"MISCONF", "the server takes no writes since it cannot save its data: see its log and its disk"},
	{"CLUSTERDOWN", "a part of the Cluster is down: see cluster-require-full-coverage"},
	{"MASTERDOWN", "the server is a replica that has lost its master"},
	{"NOREPLICAS", "the server takes no writes without its replicas: see min-replicas-to-write"},
	{"BUSY", "the server is busy with a script of somebody's: see SCRIPT KILL"},
	{"NOAUTH", "the server wants a password: set it in the client's options"},
	{"Protocol error: unauthenticated", "the server wants a password (NOAUTH): set it in the client's options"},
	{"WRONGPASS", "the server refuses the user name or the password of the client's options"},
	{"NOPERM", notPermitted},
	{"The user executing the script can't run this", notPermitted}, // Redis 7.0
	{"ACL failure in script", notPermitted},                        // later, and Valkey
	{"max number of clients", "the server has no connection left: raise its maxclients, or lower the clients' PoolSize"},
}

// errNoLog is that of a key in whose place something else stands.
var errNoLog = fmt.Errorf("redisstore: %w (WRONGTYPE): keep applications apart with WithPrefix", ratelimit.ErrNoLog)

const notPermitted = "the server's user may not do that: the package documentation lists what it needs"

// explain adds to an error of Redis what to do about it, where that is known.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("redisstore: %w: keep applications apart with WithPrefix: %w", ratelimit.ErrNoLog, err)
	}
	for _, known := range advice {
		if redis.HasErrorPrefix(err, known.prefix) {
			return fmt.Errorf("redisstore: %s: %w", known.advice, err)
		}
	}
	return fmt.Errorf("redisstore: %w", err)
}
