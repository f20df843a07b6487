package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// lineWidth is the largest width of a line of text, in columns.
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

// orDot writes a number, or a dot instead of 0, so that the other numbers stand out.
func orDot(n int64) string {
	if n == 0 {
		return "."
	}
	return comma(n)
}

// plural writes a number and the thing that it counts.
func plural(n int64, thing string) string { return count(n, thing, thing+"s") }

func total(byName map[string]int64) (sum int64) {
	for _, n := range byName {
		sum += n
	}
	return sum
}

// grid is a table. Its first columns hold words and are aligned to the left. The others hold numbers and
// are aligned to the right.
type grid struct {
	words int
	wraps bool // the last column holds sentences, which may take several lines
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
			switch fill := padding(cell, widths[i]); {
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

// mostLines is how many lines a terminal gets of one kind of problem, and of the conflicts in one key.
const mostLines = 20

// printProblems lists problems. A problem that several servers have is listed once. A remedy of several
// problems in a row is printed once, after the last of them. Of each kind, at most so many lines are printed;
// 0 is without a limit.
func printProblems(w io.Writer, problems []merge.Problem, most int) {
	var order []string
	servers := map[string][]string{}
	remedies := map[string]string{}
	codes := map[string]merge.Code{}
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
		remedies[text], codes[text] = plain(remedy), p.Code
	}
	said := func(text string) string {
		if at := strings.Trim(strings.Join(servers[text], ", "), ", "); at != "" {
			text = at + ": " + text
		}
		return wrap(text, "  - ")
	}
	var shown []string
	var cut []merge.Code // kinds of which there is more
	lines, more, last := map[merge.Code]int{}, map[merge.Code]int64{}, map[merge.Code]string{}
	for _, text := range order {
		code, remedy := codes[text], remedies[text]
		n := 1 + strings.Count(said(text), "\n")
		if remedy != "" && remedy != last[code] {
			n += 1 + strings.Count(wrap(remedy, "    > "), "\n")
		}
		// The line that says how many there are more needs room as well.
		if most > 0 && lines[code] > 0 && (more[code] > 0 || lines[code]+n >= most) {
			if more[code]++; more[code] == 1 {
				cut = append(cut, code)
			}
			continue
		}
		lines[code], last[code] = lines[code]+n, remedy
		shown = append(shown, text)
	}
	for i, text := range shown {
		say(w, "%s\n", said(text))
		more := i+1 < len(shown) && remedies[shown[i+1]] == remedies[text]
		if remedy := remedies[text]; remedy != "" && !more {
			say(w, "%s\n", wrap(remedy, "    > "))
		}
	}
	for _, code := range cut {
		say(w, "  - and %s more [%s]: see \"merge check --all\"\n", comma(more[code]), code)
	}
}

// wrap breaks a text into lines that start below the end of the bullet.
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

// count writes a number and the words for one thing or for many things.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}
