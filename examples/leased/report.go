package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

func (s *story) print(w io.Writer) error {
	f, err := s.find()
	if err != nil {
		return err
	}
	fmt.Fprint(w, "Three processes on one SQLite file, with two numbers to lease. ")
	fmt.Fprintf(w, "A window lasts %v.\n\n", span)
	slices.SortStableFunc(s.lines, func(a, b line) int { return a.when.Compare(b.when) })
	for _, l := range s.lines {
		fmt.Fprintf(w, "%9s  %-2s %s\n", s.clock(l.when), l.who, l.what)
	}
	fmt.Fprint(w, "\nWho had which number until when, as the table snowflake_nodes showed it, and which IDs "+
		"are of that window:\n\n")
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

// clock formats a time as the time since the beginning.
func (s *story) clock(t time.Time) string { return fmt.Sprintf("%.3f s", t.Sub(s.began).Seconds()) }
