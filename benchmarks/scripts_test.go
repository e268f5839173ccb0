package benchmarks

import (
	"cmp"
	"context"
	"embed"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/internal/redistest"
)

// What a decision costs Redis, by what a script does for it, and by how many decisions travel together. The script of
// redisstore is measured as it is; the others are steps on the way to it, which count, and do no more than that.

var scripts = flag.Bool("scripts", false, "measure what variants of the script cost Redis")

//go:embed scripts/*.lua
var scriptFiles embed.FS

const (
	scriptDecisions = 30_720
	scriptKeys      = 2048 // so that a log has up to 15 entries
	scriptRounds    = 5
)

// variant is a script, and how so many requests are put into one call of it.
type variant struct {
	name, source string
	together     int
	args         func(ids []string) []any
}

func variants(t *testing.T) []variant {
	t.Helper()
	read := func(name string) string {
		text, err := scriptFiles.ReadFile("scripts/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	sash, err := os.ReadFile("../ratelimit/redisstore/take.lua")
	if err != nil {
		t.Fatal(err)
	}
	atNow := func(ids []string) []any {
		return append([]any{time.Now().UnixMicro()}, anys(ids)...)
	}
	asSash := func(ids []string) []any { // one rule of one limit; a run of requests of one claim and one id
		return append([]any{0, 1, 60_000_000, 120_000, 1, 1000, 60_000_000, 0, len(ids), 1, 1, 1, 0, 1}, anys(ids)...)
	}
	list := []variant{{"as published, the client's time", read("recipe.lua"), 1, atNow}}
	for _, together := range []int{1, 16, 64} {
		list = append(list,
			variant{"nothing", read("floor.lua"), together, atNow},
			variant{"exact, plainly", read("plain.lua"), together, atNow},
			variant{"trims and sets the TTL where it must", read("seldom.lua"), together, atNow},
			variant{"strings, and no newest entry", read("strings.lua"), together, atNow},
			variant{"take.lua", string(sash), together, asSash})
	}
	return list
}

func TestWhatAScriptCostsRedis(t *testing.T) {
	if !*scripts {
		t.Skip("it takes minutes: -scripts asks for it")
	}
	client := redistest.Start(t).Client()
	all := variants(t)
	spent := make([][]float64, len(all))
	for range scriptRounds {
		for i, v := range all {
			spent[i] = append(spent[i], v.cost(t, client))
		}
	}
	fmt.Println("\n| requests a call | the script | µs of Redis CPU a decision, median (least–most) |\n|---|---|---|")
	for i, v := range all {
		slices.Sort(spent[i])
		fmt.Printf("| %d | %s | %.1f (%.1f–%.1f) |\n", v.together, v.name, spent[i][scriptRounds/2], spent[i][0], spent[i][scriptRounds-1])
	}
}

// cost is how many µs of Redis' main thread a decision takes.
func (v variant) cost(t *testing.T, client *redis.Client) float64 {
	t.Helper()
	ctx := context.Background()
	if err := client.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	sha, err := client.ScriptLoad(ctx, v.source).Result()
	if err != nil {
		t.Fatalf("%s: %v", v.name, err)
	}
	before := mainThread(t, client)
	for n := 0; n < scriptDecisions; n += v.together {
		var keys, ids []string
		for i := range v.together {
			keys = append(keys, "user"+strconv.Itoa((n+i)%scriptKeys))
			ids = append(ids, uuid.NewString())
		}
		if reply, err := client.EvalSha(ctx, sha, keys, v.args(ids)...).Int64Slice(); err != nil || reply[0] < 0 {
			t.Fatalf("%s: %v, %v", v.name, reply, err)
		}
	}
	took := mainThread(t, client) - before
	if stored := client.ZCard(ctx, "user0").Val(); v.name != "nothing" && stored != scriptDecisions/scriptKeys {
		t.Fatalf("%s has counted %d requests of %d", v.name, stored, scriptDecisions/scriptKeys)
	}
	return took / scriptDecisions * 1e6
}

// mainThread is how many seconds of CPU the thread that runs scripts has spent.
func mainThread(t *testing.T, client *redis.Client) (seconds float64) {
	t.Helper()
	for line := range strings.Lines(client.Info(context.Background(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys_main_thread" || name == "used_cpu_user_main_thread" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			seconds += n
		}
	}
	return cmp.Or(seconds, 1e-9)
}

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}
