package main

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// plot is one picture of the page: lines over the time of the load.
type plot struct {
	Title string
	// log makes the values an axis of powers of ten.
	log     bool
	minutes float64 // of the load
	lines   []plotLine
}

// plotLine is drawn in the style of its number: the page has a class for each.
type plotLine struct {
	name   string
	style  int
	points []point
}

// The picture's size, and the box inside the axes.
const (
	plotWidth, plotHeight = 460, 220
	boxLeft, boxRight     = 46, plotWidth - 10
	boxTop, boxBottom     = 8, plotHeight - 36

	maxTicks = 5
	leastLog = 0.001 // what is less is drawn there
)

// axis turns values into places.
type axis struct {
	from, to  float64 // values at the ends
	low, high float64 // places of the ends
	log       bool
	ticks     []float64
}

func (a axis) place(v float64) float64 {
	from, to := a.from, a.to
	v = min(max(v, from), to)
	if a.log {
		from, to, v = math.Log10(from), math.Log10(to), math.Log10(v)
	}
	return a.low + (a.high-a.low)*(v-from)/(to-from)
}

// linear is an axis from 0 whose ticks are 1, 2 or 5 times a power of ten apart.
func linear(most, low, high float64) axis {
	if most <= 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most/maxTicks)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*step*maxTicks >= most {
			step *= m
			break
		}
	}
	a := axis{to: step * math.Ceil(most/step), low: low, high: high}
	for i := 0; float64(i)*step <= a.to*(1+1e-9); i++ {
		a.ticks = append(a.ticks, float64(i)*step)
	}
	return a
}

// decades is an axis of powers of ten, at least one of them.
func decades(least, most, low, high float64) axis {
	from := math.Floor(math.Log10(max(min(least, most), leastLog)))
	to := max(math.Ceil(math.Log10(max(most, leastLog))), from+1)
	a := axis{from: math.Pow(10, from), to: math.Pow(10, to), low: low, high: high, log: true}
	for e := from; e <= to; e++ {
		a.ticks = append(a.ticks, math.Pow(10, e))
	}
	return a
}

// SVG draws the picture. It holds numbers, and names that are escaped.
func (p plot) SVG() template.HTML {
	least, most := math.Inf(1), 0.0
	for _, l := range p.lines {
		for _, pt := range l.points {
			if !math.IsNaN(pt.y) {
				least, most = min(least, pt.y), max(most, pt.y)
			}
		}
	}
	x := linear(p.minutes, boxLeft, boxRight)
	x.to = p.minutes
	y := linear(most, boxBottom, boxTop)
	if p.log {
		y = decades(least, most, boxBottom, boxTop)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img"><title>%s</title>`, plotWidth, plotHeight, template.HTMLEscapeString(p.Title))
	for _, t := range y.ticks {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, boxLeft, boxRight, y.place(t), y.place(t))
		fmt.Fprintf(&b, `<text class="y" x="%d" y="%.1f">%g</text>`, boxLeft-6, y.place(t), round(t))
	}
	for _, t := range x.ticks {
		if t <= x.to {
			fmt.Fprintf(&b, `<text class="x" x="%.1f" y="%d">%g</text>`, x.place(t), boxBottom+16, round(t))
		}
	}
	fmt.Fprintf(&b, `<text class="x" x="%d" y="%d">minutes of the provider</text>`, (boxLeft+boxRight)/2, boxBottom+32)
	for _, l := range p.lines {
		fmt.Fprintf(&b, `<path class="s%d" d="%s"><title>%s</title></path>`, l.style, l.path(x, y), template.HTMLEscapeString(l.name))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// alone draws the picture for a file of its own: with the page's colours, which are
// readable on light and dark, a title and a legend.
func (p plot) alone() string {
	const head, row, style = 26, 16, `text{fill:#66707f;font:11px sans-serif}.x{text-anchor:middle}.y{text-anchor:end;dominant-baseline:middle}` +
		`.title{font-weight:600;font-size:13px}.grid{stroke:#8884}path{fill:none;stroke-width:1.6}` +
		`.s0{stroke:#1f6fe0;stroke-width:2.4}.s1{stroke:#d9534f;stroke-dasharray:2 2}.s2{stroke:#b8860b;stroke-dasharray:7 3}.s3{stroke:#2b9a66;stroke-dasharray:7 2 2 2}`
	height := head + plotHeight + row
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"><style>%s</style>`, 2*plotWidth, 2*height, plotWidth, height, style)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="16">%s</text>`, boxLeft, template.HTMLEscapeString(p.Title))
	fmt.Fprintf(&b, `<svg y="%d" width="%d" height="%d">%s</svg>`, head, plotWidth, plotHeight, p.SVG())
	for i, l := range p.lines {
		x, y := boxLeft+i*(boxRight-boxLeft)/len(p.lines), head+plotHeight+4
		fmt.Fprintf(&b, `<path class="s%d" d="M%d %dh24"/><text x="%d" y="%d">%s</text>`, l.style, x, y, x+30, y+4, template.HTMLEscapeString(l.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// path draws the line, with a gap where there is no value. A value between two gaps
// becomes a dash.
func (l plotLine) path(x, y axis) string {
	var b strings.Builder
	gap := func(i int) bool { return i < 0 || i >= len(l.points) || math.IsNaN(l.points[i].y) }
	for i, pt := range l.points {
		switch px, py := x.place(pt.x), y.place(pt.y); {
		case gap(i):
		case gap(i-1) && gap(i+1):
			fmt.Fprintf(&b, "M%.1f %.1fh4", px-2, py)
		case gap(i - 1):
			fmt.Fprintf(&b, "M%.1f %.1f", px, py)
		default:
			fmt.Fprintf(&b, "L%.1f %.1f", px, py)
		}
	}
	return b.String()
}

// round takes off what binary fractions add to a tick.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }
