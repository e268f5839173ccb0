package report

import (
	"fmt"

	"github.com/sashlimit/sash/benchmarks/measure"
)

// bar is what was promised of a ratio, and what this run has measured.
type bar struct {
	claim  string
	wanted string // "" where nothing was promised
	got    measure.Series
	met    bool
	byCPU  measure.Series // the same, by the CPU time of this process
}

// atMost holds a claim against the median of what was measured.
func (r *run) atMost(claim string, bound float64, got measure.Series) {
	r.bars = append(r.bars, bar{claim: claim, wanted: fmt.Sprintf("≤ %g", bound), got: got, met: got.Median() <= bound})
}

// faster claims that ours takes less time than other, by a factor.
func (r *run) faster(where string, bound float64, ours, other measure.Result) {
	r.compare(where, ours, other)
	b := &r.bars[len(r.bars)-1]
	b.wanted, b.met = fmt.Sprintf("≥ %g", bound), b.got.Median() >= bound
}

// compare tells how much less time ours takes than other. It claims nothing.
func (r *run) compare(where string, ours, other measure.Result) {
	r.bars = append(r.bars, bar{claim: fmt.Sprintf("%s: %s, times as fast as %s", where, ours.Name, other.Name),
		got: other.Over(ours, measure.Time), byCPU: other.Over(ours, measure.CPU)})
}

// fastest is who took least time, of those that are wanted.
func fastest(results []measure.Result, wanted func(name string) bool) measure.Result {
	for _, result := range ranked(results) {
		if wanted(result.Name) {
			return result
		}
	}
	return measure.Result{Name: "none"}
}

// barTable writes all claims.
func (r *run) barTable(p *page) {
	var rows [][]string
	for _, b := range r.bars {
		verdict := "met"
		switch {
		case b.wanted == "":
			verdict = "–"
		case len(b.got) == 0:
			verdict = "not measured"
		case !b.met:
			verdict = "**missed**"
		}
		rows = append(rows, []string{b.claim, verdict, b.wanted, ratio(b.got), ratio(b.byCPU)})
	}
	p.table(2, []string{"claim", "", "bar", "this run", "by CPU"}, rows)
}
