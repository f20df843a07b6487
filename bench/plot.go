package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The measures of a plot, in pixels.
const (
	plotLabels = 230
	plotScale  = 480
	plotValues = 80
	plotRow    = 26
	plotTop    = 52
	plotDot    = 5
)

// style makes a plot readable on light and dark pages.
const style = `<style>
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; }
  .soft { fill: #57606a; font-size: 12px; } .grid { stroke: #8c959f; stroke-opacity: .35; }
  .peer { fill: #4393e6; stroke: #4393e6; } .this { fill: #2da44e; stroke: #2da44e; }
  .limit { fill: #8c959f; stroke: #8c959f; } .range { stroke-width: 3; stroke-opacity: .45; }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .soft { fill: #9da7b3; } }
</style>`

// plot draws the medians of a figure as dots on a logarithmic scale, the least first. A line goes from the
// least value to the greatest. The length of a bar would say nothing, because such a scale has no zero.
func (r *report) plot(name string) string {
	f := r.figure(name)
	type dot struct {
		name, class string
		values      []float64
	}
	var dots []dot
	for _, limit := range r.Limits {
		if values := f.Values[limit]; len(values) > 0 {
			dots = append(dots, dot{limit, "limit", values})
		}
	}
	for i, p := range r.Peers {
		class := "peer"
		if i == 0 {
			class = "this"
		}
		if values := f.Values[p.Name]; len(values) > 0 {
			dots = append(dots, dot{p.Name, class, values})
		}
	}
	slices.SortStableFunc(dots, func(a, b dot) int { return cmp.Compare(median(a.values), median(b.values)) })
	least, most := 1.0, 10.0
	for _, d := range dots {
		for slices.Max(d.values) > most {
			most *= 10
		}
	}
	position := func(value float64) float64 {
		return plotLabels + plotScale*math.Log(max(value, least)/least)/math.Log(most/least)
	}
	height := plotTop + plotRow*len(dots) + 12
	var s strings.Builder
	width := plotLabels + plotScale + plotValues
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `, width, height)
	fmt.Fprintf(&s, `width="%d" height="%d" role="img">`+"\n", width, height)
	fmt.Fprintf(&s, "<title>%s, %s</title>\n%s\n", html.EscapeString(name), html.EscapeString(f.Unit), style)
	fmt.Fprintf(&s, `<text x="12" y="22">%s, %s (median, least and most; further left is faster)</text>`+"\n",
		html.EscapeString(name), html.EscapeString(f.Unit))
	for tick := least; tick <= most; tick *= 10 {
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`,
			position(tick), position(tick), plotTop-4, height-8)
		fmt.Fprintf(&s, `<text class="soft" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			position(tick), plotTop-10, short(tick))
	}
	// The values have a column of their own, where no line of the grid runs through them.
	for i, d := range dots {
		y := plotTop + plotRow*i
		middle := median(d.values)
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`,
			plotLabels-plotDot-8, y+17, html.EscapeString(d.name))
		fmt.Fprintf(&s, `<line class="range %s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`,
			d.class, position(slices.Min(d.values)), position(slices.Max(d.values)), y+plotRow/2, y+plotRow/2)
		fmt.Fprintf(&s, `<circle class="%s" cx="%.1f" cy="%d" r="%d"/>`,
			d.class, position(middle), y+plotRow/2, plotDot)
		fmt.Fprintf(&s, `<text class="soft" x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			width-12, y+17, short(middle))
	}
	s.WriteString("</svg>\n")
	return s.String()
}
