package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script that is run by its hash, and sent whole only to a server that does not know it.
// (redis.Script does as much, but on a command that the client repeats by itself.)
type script struct {
	source, hash string
}

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) // how EVALSHA names a script
	return script{source, hex.EncodeToString(sum[:])}
}

// run sends one command, and a second if the server has forgotten the script, or never knew it.
func (s script) run(ctx context.Context, client Client, keys []string, args []any) ([]int64, error) {
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", s.hash, len(keys))
	for _, key := range keys {
		command = append(command, key)
	}
	command = append(command, args...)
	reply, err := send(ctx, client, 3, command...).Int64Slice()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") { // it allocates even for nil
		command[0], command[1] = "eval", s.source
		reply, err = send(ctx, client, 3, command...).Int64Slice()
	}
	return reply, err
}

// once is a command that the client never sends a second time by itself, whatever its options: after a lost
// reply nobody knows whether the first took effect.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// send runs one command, whose key, at firstKey, says which server of many it goes to.
func send(ctx context.Context, client Client, firstKey int8, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(firstKey)
	if err := client.Process(ctx, once{cmd}); err != nil {
		cmd.SetErr(err)
	}
	return cmd
}
