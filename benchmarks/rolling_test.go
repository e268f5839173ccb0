package benchmarks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// TestRolling measures Add and a read of rolling windows beside each other. Unless the test is verbose it only goes through
// the motions.
//
//	go test -count=1 -run '^TestRolling$' -v .
func TestRolling(t *testing.T) {
	plan, turn := measure.Plan{Rounds: 1}, time.Millisecond
	if testing.Verbose() {
		plan, turn = measure.Plan{Rounds: 15, Lock: measure.Exclusive}, 40*time.Millisecond
	}
	contenders := rivals.Rollings()
	entries := make([]measure.Entry, len(contenders))
	for i, c := range contenders {
		entries[i] = measure.Entry{Name: c.Name, Turn: func() ([]measure.Sample, error) { return rollingTurn(c, turn) }}
	}
	for i, results := range plan.Run(len(rollingWork), entries) {
		for _, r := range results {
			if r.Err != nil {
				t.Errorf("%s: %v", r.Name, r.Err)
			}
		}
		if testing.Verbose() {
			t.Log(rollingTable(rollingWork[i].name, results))
		}
	}
}

// rollingWork is what is measured, each on so many cores by as many goroutines.
var rollingWork = []struct {
	name  string
	cores int
	read  bool
}{
	{"Add, one core", 1, false},
	{"Add, two cores", 2, false},
	{"read, one core", 1, true},
	{"read, two cores", 2, true},
}

// rollingTurn adds ones, and asks each time that it has added whether just those are in the sum.
func rollingTurn(c rivals.RollingContender, d time.Duration) (samples []measure.Sample, err error) {
	window, err := c.New()
	if err != nil {
		return nil, err
	}
	added := int64(0)
	for _, work := range rollingWork {
		var ask measure.Limiter = adding{window}
		if work.read {
			ask = reading{window, added}
		}
		var s measure.Sample
		measure.OnCores(work.cores, func() { s = measure.Spin(ask, []string{""}, work.cores, d) })
		if !work.read {
			added += int64(s.Calls())
		}
		if err := (measure.Want{Allowed: measure.AllOf}).Check(s); err != nil {
			return nil, err
		}
		if sum := window.Sum(); sum != added {
			return nil, fmt.Errorf("%s: %d were added, and the sum is %d", work.name, added, sum)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// adding and reading are calls that measure can time: a read that is wrong is denied.
type adding struct{ rivals.Rolling }

func (a adding) Allow(context.Context, string) (bool, error) {
	a.Add(1)
	return true, nil
}

type reading struct {
	rivals.Rolling
	want int64
}

func (r reading) Allow(context.Context, string) (bool, error) { return r.Sum() == r.want, nil }

func rollingTable(title string, results []measure.Result) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\n%s\tns\tallocations\ttime, Sash = 1\n", title)
	for _, r := range results {
		ratio := r.Over(results[0], measure.Time)
		fmt.Fprintf(table, "%s\t%.1f\t%.2f\t%.2f (%.2f to %.2f)\n", r.Name, r.Of(measure.Time).Median(), r.Of(measure.Mallocs).Median(),
			ratio.Median(), ratio.Min(), ratio.Max())
	}
	table.Flush()
	return text.String()
}
