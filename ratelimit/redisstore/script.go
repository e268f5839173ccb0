package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script that is run by its hash, and sent whole only to a server that does not know it.
// (redis.Script does as much, but on a command that the client repeats by itself.)
//
// Its first line, #!lua, declares that it writes. A server then refuses it before it begins where writes are refused: a
// script without that line which begins by deleting may go on to write beyond maxmemory. Servers before Redis 7 do not
// know the line, and are sent the script without it.
type script struct {
	declared, plain text
	old             atomic.Bool // the server does not know the first line
}

type text struct{ source, hash string }

func newText(source string) text {
	sum := sha1.Sum([]byte(source)) // how EVALSHA names a script
	return text{source, hex.EncodeToString(sum[:])}
}

func newScript(source string) *script {
	return &script{declared: newText(source), plain: newText(strings.TrimPrefix(source, "#!lua\n"))}
}

// run sends one command, and a second if the server has forgotten the script, or never knew it.
func (s *script) run(ctx context.Context, client Client, keys, args []any) ([]int64, error) {
	if s.old.Load() {
		return s.plain.run(ctx, client, keys, args)
	}
	reply, err := s.declared.run(ctx, client, keys, args)
	if err != nil && redis.HasErrorPrefix(err, "Error compiling script") {
		s.old.Store(true)
		return s.plain.run(ctx, client, keys, args)
	}
	return reply, err
}

// command is what run sends first.
func (s *script) command(ctx context.Context, keys, args []any) *redis.IntSliceCmd {
	t := s.declared
	if s.old.Load() {
		t = s.plain
	}
	return ofInts(ctx, t.command(keys, args))
}

// ofInts makes a command that runs a script, whose reply is integers.
func ofInts(ctx context.Context, command []any) *redis.IntSliceCmd {
	cmd := redis.NewIntSliceCmd(ctx, command...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// command asks for the script by its hash.
func (t text) command(keys, args []any) []any {
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", t.hash, len(keys))
	return append(append(command, keys...), args...)
}

func (t text) run(ctx context.Context, client Client, keys, args []any) ([]int64, error) {
	command := t.command(keys, args)
	reply, err := t.send(ctx, client, command)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") { // it allocates even for nil
		command[0], command[1] = "eval", t.source
		reply, err = t.send(ctx, client, command)
	}
	return reply, err
}

func (text) send(ctx context.Context, client Client, command []any) ([]int64, error) {
	cmd := ofInts(ctx, command)
	if err := client.Process(ctx, onceForInts{cmd}); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// once is a command that the client never sends a second time by itself, whatever its options: after a lost
// reply nobody knows whether the first took effect.
type once struct{ *redis.Cmd }

// onceForInts is such a command, whose reply is integers.
type onceForInts struct{ *redis.IntSliceCmd }

func (once) NoRetry() bool        { return true }
func (onceForInts) NoRetry() bool { return true }

// send runs one command, whose key, at firstKey, says which server of many it goes to.
func send(ctx context.Context, client Client, firstKey int8, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(firstKey)
	if err := client.Process(ctx, once{cmd}); err != nil {
		cmd.SetErr(err)
	}
	return cmd
}

// repeat does what changes nothing if it is done twice: once more if the connection breaks, as those of a pool do when
// a server has been replaced.
func repeat(ctx context.Context, do func() error) error {
	err := do()
	if broken(err) && ctx.Err() == nil {
		err = do()
	}
	return err
}

// broken tells of a connection that was established, and ended before the reply.
func broken(err error) bool {
	return err != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}
