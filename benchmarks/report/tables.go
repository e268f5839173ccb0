package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/sashlimit/sash/benchmarks/attack"
	"github.com/sashlimit/sash/benchmarks/measure"
	"github.com/sashlimit/sash/benchmarks/plot"
	"github.com/sashlimit/sash/benchmarks/rivals"
)

// column is one column of a table of results.
type column struct {
	title string
	cell  func(measure.Result) string
}

// ranked orders results by time, the floors behind all others.
func ranked(results []measure.Result) []measure.Result {
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b measure.Result) int {
		if fa, fb := isFloor(a.Name), isFloor(b.Name); fa != fb {
			return map[bool]int{false: -1, true: 1}[fa]
		}
		return cmp.Compare(a.Of(measure.Time).Median(), b.Of(measure.Time).Median())
	})
	return results
}

func contender(name string) rivals.Contender {
	all := rivals.All()
	i := slices.IndexFunc(all, func(c rivals.Contender) bool { return c.Name == name })
	if i < 0 {
		return rivals.Contender{Name: name, Role: rivals.Ours} // Sash in a way that only one table has
	}
	return all[i]
}

func isFloor(name string) bool { return contender(name).Role == rivals.Floor }
func isRival(name string) bool { return contender(name).Role == rivals.Rival }

// isKeyed reports whether a rival answers the whole question, and not only that of one key.
func isKeyed(name string) bool { return isRival(name) && !contender(name).Unkeyed }

// results writes a table of contenders, the fastest first, with base compared to all; a figure of the ratios; and what
// went wrong. It returns the results of those with whom nothing did.
func (r *run) results(id, title, base string, exact map[string]attack.Report, all []measure.Result, columns ...column) []measure.Result {
	good, failures := r.found(all)
	reference := measure.Find(good, base)
	titles := []string{"contender"}
	for _, c := range columns {
		titles = append(titles, c.title)
	}
	titles = append(titles, "time, "+base+" = 1", r.mostAdmitted())
	var rows [][]string
	figure := plot.Ratios{Title: title + ": time for a decision", Base: base}
	for _, result := range ranked(good) {
		row := []string{called(result.Name)}
		for _, c := range columns {
			row = append(row, c.cell(result))
		}
		over := result.Over(reference, measure.Time)
		row = append(row, ratio(over), r.verdict(result.Name, exact))
		rows = append(rows, row)
		if len(over) > 0 {
			figure.Bars = append(figure.Bars, plot.Bar{Name: result.Name, Value: over.Median(), Low: over.Min(), High: over.Max(),
				Note: r.admits(result.Name, exact), Bold: contender(result.Name).Role == rivals.Ours, Faint: isFloor(result.Name),
				Wrong: r.wrong(result.Name, exact)})
		}
	}
	r.page.title(3, "%s", title)
	r.page.table(1, titles, rows)
	r.page.list(failures)
	r.figure(id, figure.Title, figure.SVG())
	return good
}

// mostAdmitted heads the column of the verdicts.
func (r *run) mostAdmitted() string {
	return fmt.Sprintf("most admitted of %d", r.Attack.MaxRequests)
}

func (r *run) figure(name, title, svg string) {
	if err := r.page.figure(name, title, svg); err != nil {
		r.t.Fatal(err)
	}
}

// called marks what is ours and what is a floor.
func called(name string) string {
	switch contender(name).Role {
	case rivals.Ours:
		return "**" + name + "**"
	case rivals.Floor:
		return "*" + name + "*"
	}
	return name
}

// wrong reports whether a contender admits more than its limit.
func (r *run) wrong(name string, exact map[string]attack.Report) bool {
	report, ok := exact[contender(name).Answers()]
	return ok && report.Worst().Most > r.Attack.MaxRequests
}

// verdict is the most that a contender has admitted in one window, marked.
func (r *run) verdict(name string, exact map[string]attack.Report) string {
	report, ok := exact[contender(name).Answers()]
	if !ok {
		return "–"
	}
	return r.mark(report.Worst().Most)
}

func (r *run) mark(most int) string {
	if most > r.Attack.MaxRequests {
		return fmt.Sprintf("**%d ✗**", most)
	}
	return fmt.Sprintf("%d ✓", most)
}

func (r *run) admits(name string, exact map[string]attack.Report) string {
	if !r.wrong(name, exact) {
		return ""
	}
	return fmt.Sprintf("  ✗ admits %d of %d", exact[contender(name).Answers()].Worst().Most, r.Attack.MaxRequests)
}

// Columns that several tables have.

func nanoseconds(title string, q measure.Quantity) column {
	return column{title, func(r measure.Result) string { return span(r.Of(q), 1) }}
}

func microseconds(title string, q measure.Quantity) column {
	return column{title, func(r measure.Result) string { return span(r.Of(q), 1000) }}
}

func thousands(title string, q measure.Quantity) column {
	return column{title, func(r measure.Result) string { return span(r.Of(q), 1000) }}
}

func count(title string, q measure.Quantity) column {
	return column{title, func(r measure.Result) string { return significant(r.Of(q).Median()) }}
}

// span is a median with its range, in units of so much.
func span(s measure.Series, unit float64) string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", significant(s.Median()/unit), significant(s.Min()/unit), significant(s.Max()/unit))
}

func ratio(s measure.Series) string {
	if len(s) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.Median(), s.Min(), s.Max())
}

// significant writes a number with two digits behind the point if it is small, and none if it is large.
func significant(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// grouped writes 1000000 as 1,000,000.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
