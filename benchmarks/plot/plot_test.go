package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sashlimit/sash/benchmarks/plot"
)

func TestAFigureIsXMLWhateverItsNamesAre(t *testing.T) {
	t.Parallel()
	for name, svg := range map[string]string{
		"bars": plot.Ratios{Title: `a < b & "c"`, Base: "<Sash>", Bars: []plot.Bar{
			{Name: "a&b", Value: 2, Low: 1, High: 900}, {Name: "less", Value: 0.01, Low: 0.01, High: 0.02, Wrong: true}}}.SVG(),
		"lines": plot.Lines{Title: "<t>", X: "x & y", Y: "<", Series: []plot.Line{
			{Name: "<a>", Points: []plot.Point{{1, 5, 4, 6}, {1e6, 7, 7, 7}}}, {Name: "none", Wrong: true}}}.SVG(),
		"nothing": plot.Lines{}.SVG(),
	} {
		if err := wellFormed(svg); err != nil {
			t.Errorf("%s: %v\n%s", name, err, svg)
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s has a place that is no number:\n%s", name, svg)
		}
	}
}

func wellFormed(text string) error {
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestTwiceAsMuchIsAsLongAsHalf(t *testing.T) {
	t.Parallel()
	svg := plot.Ratios{Bars: []plot.Bar{{Name: "twice", Value: 2, Low: 2, High: 2}, {Name: "half", Value: 0.5, Low: 0.5, High: 0.5}}}.SVG()
	var widths []string
	for _, part := range strings.Split(svg, "<rect ")[1:] {
		if _, after, ok := strings.Cut(part, `height="16.0"`); ok && strings.HasPrefix(after, " fill") {
			_, width, _ := strings.Cut(part, `width="`)
			width, _, _ = strings.Cut(width, `"`)
			widths = append(widths, width)
		}
	}
	if len(widths) != 2 || widths[0] != widths[1] {
		t.Errorf("widths %v", widths)
	}
}
