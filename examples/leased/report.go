package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// step is the time that one character of the drawing represents.
const step = 100 * time.Millisecond

func (s *story) print(w io.Writer) error {
	f, err := s.find()
	if err != nil {
		return err
	}
	fmt.Fprint(w, "Three processes on one SQLite file, with two numbers to lease. ")
	fmt.Fprintf(w, "A window lasts %v.\n\n", span)
	slices.SortStableFunc(s.lines, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range s.lines {
		fmt.Fprintf(w, "%9s  %-2s %s\n", s.clock(l.at), l.who, l.what)
	}
	fmt.Fprint(w, "\nWho had which number until when, as the table snowflake_nodes showed it:\n\n")
	s.draw(w)
	fmt.Fprint(w, "\nWhich IDs were made in which window:\n\n")
	for _, made := range f.stretches {
		made.print(w, s.clock)
	}
	fmt.Fprintln(w)
	for _, row := range []struct {
		n    int
		what string
	}{
		{f.rows, "rows are in the table"},
		{f.different, "different IDs are in the table: nothing repeats"},
		{f.missing, fmt.Sprintf("of the %d IDs that a process saw stored are missing", f.told)},
		{f.outside, "IDs lie outside the windows of the process that made them"},
	} {
		fmt.Fprintf(w, "%6d  %s\n", row.n, row.what)
	}
	for _, made := range f.stretches {
		if made.before != nil && len(made.ids) > 0 {
			fmt.Fprintf(w, "%6d  ms from the end of %s's window to the first ID that %s made with its number\n",
				made.first.Sub(made.before.until).Milliseconds(), made.before.process(), made.process())
		}
	}
	return nil
}

func (made stretch) print(w io.Writer, clock func(time.Time) string) {
	fmt.Fprintf(w, "  %s  number %d, from %s to %s: %d IDs\n", made.process(), made.node,
		clock(made.from), clock(made.until), len(made.ids))
	if len(made.ids) > 0 {
		fmt.Fprintf(w, "     first  %d, of %s\n", made.ids[0], clock(made.first))
		fmt.Fprintf(w, "     last   %d, of %s\n", made.ids[len(made.ids)-1], clock(made.last))
	}
}

// draw draws the windows of each number.
func (s *story) draw(w io.Writer) {
	width := 0
	for _, t := range s.tenures {
		width = max(width, s.column(t.until))
	}
	fmt.Fprint(w, "              ")
	for i := 0; i <= width; i += int(time.Second / step) {
		fmt.Fprintf(w, "%-*s", int(time.Second/step), fmt.Sprint(i/int(time.Second/step), " s"))
	}
	fmt.Fprintln(w)
	sorted := slices.Clone(s.tenures)
	slices.SortStableFunc(sorted, func(a, b *tenure) int { return cmp.Compare(a.node, b.node) })
	for _, t := range sorted {
		fmt.Fprintf(w, "  number %d  %s %s\n", t.node, t.process(), s.bar(t))
	}
	fmt.Fprint(w, `
  [ ) the window of a process, as far as it was extended    ? no number was free
  X   kill -9                                               - nobody may have the rest
`)
}

// bar draws one tenure and the events of its process.
func (s *story) bar(t *tenure) string {
	p := s.processes[slices.IndexFunc(s.processes, func(p *process) bool { return p.name == t.process() })]
	first, last := s.column(t.from), s.column(t.until)
	bar := []byte(strings.Repeat(" ", first) + strings.Repeat("=", last-first+1))
	for _, at := range p.refused {
		if i := s.column(at); i < first {
			bar[i] = '?'
		}
	}
	if !p.killed.IsZero() {
		i := min(s.column(p.killed), last)
		copy(bar[i:], "X"+strings.Repeat("-", last-i))
	}
	bar[first], bar[last] = '[', ')'
	return string(bar)
}

func (s *story) column(t time.Time) int { return max(int(t.Sub(s.began)/step), 0) }

// clock formats a time as the time since the beginning.
func (s *story) clock(t time.Time) string { return fmt.Sprintf("%.3f s", t.Sub(s.began).Seconds()) }
