package plot

import (
	"fmt"
	"strings"
)

// Lines are quantities over a parameter.
type Lines struct {
	Title  string
	X, Y   string // what the axes are
	Series []Line
}

// Line is one quantity, by rising X.
type Line struct {
	Name   string
	Points []Point
	Wrong  bool // dashed: a wrong answer
}

// Point is a value with its range.
type Point struct{ X, Y, Low, High float64 }

// colors can be told apart by those who see few of them: the first seven are those of Okabe and Ito, the others of Tol.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
	"#999933", "#882255", "#44aa99", "#661100", "#999999"}

// SVG draws the lines.
func (l Lines) SVG() string {
	const left, right, top, bottom = 74.0, width - 210, 40.0, 340.0
	c := newCanvas(bottom+52, l.Title)
	var xs, ys []float64
	for _, s := range l.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y, p.Low, p.High)
		}
	}
	x, y := newAxis(xs, left, right), newAxis(ys, bottom, top)
	for _, v := range x.ticks() {
		c.line(x.at(v), top, x.at(v), bottom, faint)
		c.text(x.at(v), bottom+18, "middle", ink, short(v))
	}
	for _, v := range y.ticks() {
		c.line(left, y.at(v), right, y.at(v), faint)
		c.text(left-8, y.at(v)+4, "end", ink, short(v))
	}
	c.text((left+right)/2, bottom+40, "middle", ink, l.X)
	c.text(18, (top+bottom)/2, "middle", ink, l.Y, fmt.Sprintf(`transform="rotate(-90 18 %.0f)"`, (top+bottom)/2))
	wrong := false
	for i, s := range l.Series {
		s.draw(c, x, y, colors[i%len(colors)])
		wrong = wrong || s.Wrong
		c.legend(right+20, top+14+22*float64(i), s, colors[i%len(colors)])
	}
	if wrong {
		c.text(right+20, bottom+40, "start", ink, "dashed: admits more than the limit", `font-size="11"`)
	}
	return c.svg()
}

func (l Line) draw(c *canvas, x, y axis, color string) {
	var path []string
	for _, p := range l.Points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Y)))
		c.line(x.at(p.X), y.at(p.Low), x.at(p.X), y.at(p.High), color, `stroke-opacity="0.5"`)
		fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(p.X), y.at(p.Y), color)
	}
	fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" %s/>`+"\n", strings.Join(path, " "), color, l.dash())
}

func (l Line) dash() string {
	if l.Wrong {
		return `stroke-dasharray="6 4"`
	}
	return ""
}

func (c *canvas) legend(x, y float64, l Line, color string) {
	c.line(x, y-4, x+26, y-4, color, `stroke-width="2"`, l.dash())
	c.text(x+34, y, "start", ink, l.Name)
}
