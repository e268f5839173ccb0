// Package plot draws the two kinds of figures that a report of measurements needs, as SVG: ratios as bars around 1, and
// quantities over a parameter as lines. Both axes are logarithmic, so that twice as much is everywhere the same length.
//
// It is written here because that is all that is needed: a plotting library brings fonts, image formats and some twenty
// modules. Text stays text, so that a difference between two reports can be read.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

const (
	width  = 860.0
	font   = `font-family="system-ui, sans-serif" font-size="13"`
	ink    = "#1a1a1a"
	faint  = "#d8d8d8"
	shaded = "#8a8a8a"
)

// canvas collects the elements of a figure.
type canvas struct {
	strings.Builder
	height float64
}

func newCanvas(height float64, title string) *canvas {
	c := &canvas{height: height}
	c.text(width/2, 22, "middle", ink, title, `font-weight="600"`)
	return c
}

// svg is the figure. It brings its own white, for pages that are dark.
func (c *canvas) svg() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" %s>`+"\n"+
		`<defs><pattern id="wrong" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">`+
		`<rect width="6" height="6" fill="#eeeeee"/><rect width="2" height="6" fill="%s"/></pattern></defs>`+"\n"+
		`<rect width="100%%" height="100%%" fill="white"/>`+"\n%s</svg>\n", width, c.height, font, shaded, c.String())
}

func (c *canvas) text(x, y float64, anchor, color, text string, more ...string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" %s>%s</text>`+"\n",
		x, y, anchor, color, strings.Join(more, " "), html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, color string, more ...string) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" %s/>`+"\n",
		x1, y1, x2, y2, color, strings.Join(more, " "))
}

// axis is a logarithmic scale from lo to hi, drawn from the place from to the place to.
type axis struct{ lo, hi, from, to float64 }

// newAxis covers the values with some room at both ends.
func newAxis(values []float64, from, to float64) axis {
	lo, hi := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if hi == 0 {
		lo, hi = 1, 1
	}
	return axis{lo / 1.2, hi * 1.2, from, to}
}

func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*math.Log(v/a.lo)/math.Log(a.hi/a.lo)
}

// ticks are 1, 2 and 5 times the powers of ten, or the powers alone where there would be too many.
func (a axis) ticks() (list []float64) {
	steps := []float64{1, 2, 5}
	if a.hi/a.lo > 300 {
		steps = steps[:1]
	}
	for power := math.Pow(10, math.Floor(math.Log10(a.lo))); power <= a.hi; power *= 10 {
		for _, step := range steps {
			if v := power * step; v >= a.lo && v <= a.hi {
				list = append(list, v)
			}
		}
	}
	return list
}

// short writes a number in a few characters: 0.5, 20, 3k, 1M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return fmt.Sprintf("%.3g", v)
}
