package report

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/sashlimit/sash/benchmarks/rivals"
)

// head is what stands before the sections: what a reader must know to believe them.
func (r *run) head(p *page) {
	p.title(1, "Sash beside its rivals")
	p.say("Written by `make bench` (%s): do not edit. Measured on a machine with %d cores, %s, %s, %s. It is one machine, shared and noisy: "+
		"compare within a table, not across reports.", r.Name, runtime.NumCPU(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH, r.serverVersion())
	p.say("How it is measured. Contenders take turns of %v, %d rounds of them (%d where there are %s keys), each round beginning with another one; no "+
		"two benchmarks run at the same time. A number is the median of the rounds, with the least and the greatest in brackets. A ratio is the median of "+
		"the ratios within each round: above 1 is slower than Sash. After each turn it is checked what was done, how many calls were "+
		"allowed and denied, how many distinct keys were asked for, on Redis also how many are there; a contender that did something else has "+
		"no row, and stands below the table with what it did. Everybody gets the same limit, the same window and the same keys; who refills "+
		"steadily gets the limit as its burst. A ✗, or a hatched bar, is a fast answer to another question: it lets more than the limit into "+
		"one window.", r.Turn, r.Rounds, r.ManyRounds, grouped(r.ManyKeys))
	p.say("Floors do less than any limiter must: they read the clock, take a lock, look up a key, or ask the server for nothing.")
	p.title(2, "What Sash is held to")
	p.say("Ratios in this run. *Times as fast* is the other's time divided by Sash's, so more is better; *by CPU* is the same of the CPU time that " +
		"this process spent, which other programs on the machine disturb less. A row without a bar is there to be compared.")
	r.barTable(p)
	p.title(2, "Who is measured")
	r.contenders(p)
}

func (r *run) contenders(p *page) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		r.t.Fatal(err)
	}
	var rows [][]string
	for _, c := range rivals.All() {
		if c.Role == rivals.Floor {
			continue
		}
		rows = append(rows, []string{called(c.Name), version(string(mod), c), c.Algorithm, c.Remark})
	}
	p.table(4, []string{"contender", "version", "algorithm", "set beside limit and window"}, rows)
	p.say("What the Go module proxy did not have:")
	var left []string
	for _, l := range rivals.Left {
		left = append(left, fmt.Sprintf("`%s`: %s.", l.Module, l.Instead))
	}
	p.list(left)
}

// version is that of a contender's module in a go.mod.
func version(mod string, c rivals.Contender) string {
	if c.Role == rivals.Ours {
		return "this tree"
	}
	for line := range strings.Lines(mod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == c.Module {
			return fields[1]
		}
	}
	return "written here"
}

// serverVersion is the kind and the version of the server.
func (r *run) serverVersion() string {
	text, err := r.admin.Info(context.Background(), "server").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{"valkey", "redis"} {
		if found := regexp.MustCompile(name + `_version:(\S+)`).FindStringSubmatch(text); found != nil {
			return strings.ToUpper(name[:1]) + name[1:] + " " + found[1]
		}
	}
	return "a server that does not tell its version"
}
