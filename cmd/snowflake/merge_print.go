package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// lineWidth is where sentences of a report break.
const lineWidth = 98

// comma writes a number with commas.
func comma(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// some is a number, or a dot for none, which makes the others stand out.
func some(n int64) string {
	if n == 0 {
		return "."
	}
	return comma(n)
}

// plural is a number with what it counts.
func plural(n int64, thing string) string { return count(n, thing, thing+"s") }

func total(byName map[string]int64) (sum int64) {
	for _, n := range byName {
		sum += n
	}
	return sum
}

// grid is a table whose first columns are words, on the left, and whose others are numbers, on the right.
type grid struct {
	words int
	wraps bool // the last column is sentences, which break
	rows  [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) print(w io.Writer) {
	var widths []int
	for _, cells := range g.rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	for _, cells := range g.rows {
		var line strings.Builder
		for i, cell := range cells {
			switch fill := blanks(cell, widths[i]); {
			case g.wraps && i == len(cells)-1:
				before := line.String()
				line.Reset()
				line.WriteString(wrap(cell, before))
			case i < g.words:
				line.WriteString(cell + fill + "  ")
			default:
				line.WriteString(fill + cell + "  ")
			}
		}
		say(w, "%s\n", strings.TrimRight(line.String(), " "))
	}
}

// printProblems lists problems, saying once what is true of several servers, and once what to do about all
// that stand together.
func printProblems(w io.Writer, problems []merge.Problem) {
	var order []string
	servers := map[string][]string{}
	remedies := map[string]string{}
	for _, p := range problems {
		server := plain(p.Server)
		remedy := p.Remedy
		p.Server, p.Remedy = "", ""
		text := strings.Replace(p.String(), fmt.Sprintf(" %d rows: ", p.Count), " "+comma(p.Count)+" rows: ", 1)
		text = plain(text) + " [" + string(p.Code) + "]"
		if servers[text] == nil {
			order = append(order, text)
		}
		servers[text] = append(servers[text], server)
		remedies[text] = plain(remedy)
	}
	for i, text := range order {
		said := text
		if at := strings.Trim(strings.Join(servers[text], ", "), ", "); at != "" {
			said = at + ": " + text
		}
		say(w, "%s\n", wrap(said, "  - "))
		more := i+1 < len(order) && remedies[order[i+1]] == remedies[text]
		if remedy := remedies[text]; remedy != "" && !more {
			say(w, "%s\n", wrap(remedy, "    > "))
		}
	}
}

// wrap breaks a text into lines behind a bullet.
func wrap(text, bullet string) string {
	var b strings.Builder
	b.WriteString(bullet)
	at, first := width(bullet), true
	for word := range strings.FieldsSeq(text) {
		long := width(word)
		switch {
		case first:
			first = false
		case at+1+long > lineWidth:
			b.WriteString("\n" + strings.Repeat(" ", width(bullet)))
			at = width(bullet)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += long
	}
	return b.String()
}

// count is a number with the words for one and for another number of things.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}
