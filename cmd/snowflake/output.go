package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

// say writes to a stream of the process. An error is ignored, because there is nobody left to tell.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

func printJSON(w io.Writer, value any) error {
	e := newEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// newEncoder returns an encoder that leaves <, > and & as they are. The escapes of encoding/json
// protect HTML, and here they would only make a condition such as "id >= 5" hard to read.
func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// stamp is an instant as all commands print it, in UTC and with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// plain replaces characters that could control the terminal, in text that comes from a database.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// plainLines is plain for a text of several lines.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return strings.Join(lines, "\n")
}

// ago says for people how far an instant is from now.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	direction := "ago"
	if d < 0 {
		d, direction = t.Sub(now), "ahead"
	}
	return spell(d) + " " + direction
}

// spell rounds a duration to the precision that a reader needs.
func spell(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*365*day:
		return fmt.Sprintf("%.1f years", d.Hours()/24/365.25)
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= time.Second:
		return d.Round(time.Second / 10).String()
	}
	return d.Round(time.Millisecond).String()
}

// lineWidth is the largest width of a line of text, in columns.
const lineWidth = 98

// columnsOf returns how many columns of a terminal a text takes.
func columnsOf(text string) (columns int) {
	for _, r := range text {
		columns += widthOf(r)
	}
	return columns
}

// widthOf returns 2 for full-width characters of Chinese, Japanese and Korean, and for emoji. Terminals use
// one column for what Unicode calls "ambiguous".
func widthOf(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) { // a mark that combines with the letter before it
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut returns the longest beginning of a text that fits into a number of columns.
func cut(text string, columns int) string {
	for offset, r := range text {
		if columns -= widthOf(r); columns < 0 {
			return text[:offset]
		}
	}
	return text
}

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
			widths[i] = max(widths[i], columnsOf(cell))
		}
	}
	for _, cells := range g.rows {
		var line strings.Builder
		for i, cell := range cells {
			switch fill := strings.Repeat(" ", widths[i]-columnsOf(cell)); {
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

// wrap breaks a text into lines that start below the end of the bullet.
func wrap(text, bullet string) string {
	var b strings.Builder
	b.WriteString(bullet)
	column, first := columnsOf(bullet), true
	for word := range strings.FieldsSeq(text) {
		long := columnsOf(word)
		switch {
		case first:
			first = false
		case column+1+long > lineWidth:
			b.WriteString("\n" + strings.Repeat(" ", columnsOf(bullet)))
			column = columnsOf(bullet)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += long
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
