package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The measures of a plot, in pixels.
const (
	plotLabels = 230
	plotBars   = 480
	plotRow    = 26
	plotTop    = 52
)

// style makes a plot readable on light and dark pages.
const style = `<style>
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; }
  .soft { fill: #57606a; font-size: 12px; } .grid { stroke: #8c959f; stroke-opacity: .35; }
  .peer { fill: #4393e6; } .this { fill: #2da44e; } .limit { fill: #8c959f; }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .soft { fill: #9da7b3; } }
</style>`

// plot draws the medians of a figure as bars on a logarithmic scale, the shortest first.
func (r *report) plot(name string) string {
	f := r.figure(name)
	type bar struct {
		name, class string
		value       float64
	}
	var bars []bar
	for _, limit := range r.Limits {
		if values := f.Values[limit]; len(values) > 0 {
			bars = append(bars, bar{limit, "limit", median(values)})
		}
	}
	for i, p := range r.Peers {
		class := "peer"
		if i == 0 {
			class = "this"
		}
		bars = append(bars, bar{p.Name, class, median(f.Values[p.Name])})
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return int(math.Copysign(1, a.value-b.value)) })
	least, most := 1.0, 10.0
	for _, b := range bars {
		for b.value > most {
			most *= 10
		}
	}
	at := func(value float64) float64 {
		return plotLabels + plotBars*math.Log(max(value, least)/least)/math.Log(most/least)
	}
	height := plotTop + plotRow*len(bars) + 12
	var s strings.Builder
	width := plotLabels + plotBars + 80
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `, width, height)
	fmt.Fprintf(&s, `width="%d" height="%d" role="img">`+"\n", width, height)
	fmt.Fprintf(&s, "<title>%s, %s</title>\n%s\n", html.EscapeString(name), html.EscapeString(f.Unit), style)
	fmt.Fprintf(&s, `<text x="12" y="22">%s, %s (logarithmic; shorter is faster)</text>`+"\n",
		html.EscapeString(name), html.EscapeString(f.Unit))
	for tick := least; tick <= most; tick *= 10 {
		fmt.Fprintf(&s, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`,
			at(tick), at(tick), plotTop-4, height-8)
		fmt.Fprintf(&s, `<text class="soft" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			at(tick), plotTop-10, short(tick))
	}
	for i, b := range bars {
		y := plotTop + plotRow*i
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`,
			plotLabels-8, y+17, html.EscapeString(b.name))
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="3"/>`,
			b.class, plotLabels, y+4, max(2, at(b.value)-plotLabels), plotRow-8)
		fmt.Fprintf(&s, `<text class="soft" x="%.1f" y="%d">%s</text>`+"\n", at(b.value)+6, y+17, short(b.value))
	}
	s.WriteString("</svg>\n")
	return s.String()
}
