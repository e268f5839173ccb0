package benchmarks

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sashlimit/sash/benchmarks/report"
)

var size = flag.String("report", "", "measure, and write REPORT.md: full or quick")

// TestReport measures Sash beside its rivals. Unless it is asked for a report it only goes through the motions, so that every
// contender's workload is asserted whenever the tests run, and writes nothing into the tree.
func TestReport(t *testing.T) {
	sizes := map[string]func() report.Size{"full": report.Full, "quick": report.Quick}
	if wanted, ok := sizes[*size]; ok {
		report.Run(t, wanted(), ".")
		return
	}
	if *size != "" {
		t.Fatalf("-report=%s: want full or quick", *size)
	}
	dir := t.TempDir()
	report.Run(t, report.Smoke(), dir)
	everyFigureIsThere(t, dir)
}

// everyFigureIsThere reads the page as a browser does.
func everyFigureIsThere(t *testing.T, dir string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, "REPORT.md"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(page), "%!") || strings.Contains(string(page), "NaN") {
		t.Errorf("the page has a fault in its numbers:\n%s", page)
	}
	figures := regexp.MustCompile(`\]\((plots/[^)]+)\)`).FindAllStringSubmatch(string(page), -1)
	if len(figures) == 0 {
		t.Error("the page has no figures")
	}
	for _, f := range figures {
		if _, err := os.Stat(filepath.Join(dir, f[1])); err != nil {
			t.Error(err)
		}
	}
}
