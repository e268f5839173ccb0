package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// plots is the directory of the figures, beside the page.
const plots = "plots"

// page is Markdown, and a directory for its figures.
type page struct {
	strings.Builder
	dir string
}

func newPage(dir string) *page { return &page{dir: dir} }

// title begins a section.
func (p *page) title(level int, format string, args ...any) {
	fmt.Fprintf(p, "%s %s\n\n", strings.Repeat("#", level), fmt.Sprintf(format, args...))
}

// say is a paragraph.
func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n\n", args...) }

// table writes rows, the first so many columns to the left and the others, numbers, to the right.
func (p *page) table(left int, columns []string, rows [][]string) {
	fmt.Fprintf(p, "| %s |\n%s%s|\n", strings.Join(columns, " | "), strings.Repeat("|---", left), strings.Repeat("|---:", len(columns)-left))
	for _, row := range rows {
		fmt.Fprintf(p, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprintln(p)
}

// figure writes an SVG beside the page, and shows it.
func (p *page) figure(name, title, svg string) error {
	if err := os.MkdirAll(filepath.Join(p.dir, plots), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.dir, plots, name+".svg"), []byte(svg), 0o666); err != nil {
		return err
	}
	p.say("![%s](%s/%s.svg)", title, plots, name)
	return nil
}

// list writes one item a line.
func (p *page) list(items []string) {
	for _, item := range items {
		fmt.Fprintf(p, "- %s\n", item)
	}
	if len(items) > 0 {
		fmt.Fprintln(p)
	}
}
