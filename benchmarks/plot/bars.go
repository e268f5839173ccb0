package plot

import "fmt"

// Ratios are bars that begin at 1: to the right what is more than Base's, to the left what is less.
type Ratios struct {
	Title string
	Base  string // what all is compared with
	Bars  []Bar
}

// Bar is a ratio with its range.
type Bar struct {
	Name             string
	Value, Low, High float64
	Note             string // behind the value
	Bold             bool   // the name
	Faint            bool   // it is no answer to the question
	Wrong            bool   // hatched: it is a wrong one
}

// SVG draws the bars in their order.
func (r Ratios) SVG() string {
	const left, right, top, step = 210.0, width - 190, 40.0, 24.0
	bottom := top + step*float64(len(r.Bars))
	c := newCanvas(bottom+44, r.Title)
	values := []float64{1}
	for _, b := range r.Bars {
		values = append(values, b.Value, b.Low, b.High)
	}
	a := newAxis(values, left, right)
	for _, v := range a.ticks() {
		c.line(a.at(v), top, a.at(v), bottom, faint)
		c.text(a.at(v), bottom+18, "middle", ink, short(v)+"×")
	}
	for i, b := range r.Bars {
		b.draw(c, a, top+step*float64(i)+4, step-8)
	}
	c.line(a.at(1), top, a.at(1), bottom, ink, `stroke-width="1.5"`)
	c.text(width/2, bottom+37, "middle", ink, "times "+r.Base+"; hatched: admits more than the limit", `font-size="11"`)
	return c.svg()
}

func (b Bar) draw(c *canvas, a axis, y, height float64) {
	fill := "#0072b2"
	switch {
	case b.Wrong:
		fill = "url(#wrong)"
	case b.Faint:
		fill = faint
	}
	from, to := a.at(1), a.at(b.Value)
	fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", min(from, to), y, max(from, to)-min(from, to), height, fill)
	middle := y + height/2
	c.line(a.at(b.Low), middle, a.at(b.High), middle, ink)
	weight := ""
	if b.Bold {
		weight = `font-weight="600"`
	}
	c.text(a.from-10, middle+4, "end", ink, b.Name, weight)
	c.text(max(from, a.at(b.High))+8, middle+4, "start", ink, short(b.Value)+"×"+b.Note)
}
