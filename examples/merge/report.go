package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

func (s *story) print(w io.Writer) {
	fmt.Fprintf(w, "Three game servers, filled side by side in %s. What each of them has:\n\n", short(s.filled))
	s.printServers(w)
	fmt.Fprintf(w, "\nChecked in %s: %s. What collides, and what the plan says:\n\n",
		short(s.check.Took), s.check.Verdict)
	s.printPolicies(w)
	fmt.Fprint(w, "\nFive nicknames that all of them had, with the level of the role. "+
		"The target compares them by NOCASE:\n\n")
	s.printNames(w)
	fmt.Fprintf(w, "\nMerged in %s, with another check before: %s rows were copied, %s a second.\n",
		short(s.run.Took), count(s.run.Rows), count(int64(s.run.RowsPerSecond)))
	fmt.Fprintf(w, "\nVerified in %s: %d comparisons, %d differ.\n\n", short(s.verify.Took),
		len(s.verify.Checks), len(s.verify.Failed))
	s.printVerify(w)
	fmt.Fprint(w, "\nAnd then:\n\n")
	s.printRest(w)
}

// short rounds a time to what a reader wants to know.
func short(d time.Duration) string {
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func (s *story) printServers(w io.Writer) {
	fmt.Fprintf(w, "  %-16s", "")
	for _, p := range s.plan.Servers {
		fmt.Fprintf(w, "%12s", p.Name)
	}
	fmt.Fprintln(w)
	line := func(name string, value func(realm) int64) {
		fmt.Fprintf(w, "  %-16s", name)
		for _, r := range s.realms {
			fmt.Fprintf(w, "%12s", count(value(r)))
		}
		fmt.Fprintln(w)
	}
	for _, name := range gameworld.Tables() {
		line(name, func(r realm) int64 { return r.Rows[name] })
	}
	line("rows", realm.Total)
	line("gold of roles", func(r realm) int64 { return r.Gold })
}

// printPolicies lists the tables in which something happens.
func (s *story) printPolicies(w io.Writer) {
	fmt.Fprintf(w, "  %-12s %-12s %6s  %8s  %7s  %6s\n", "table", "policy", "equal", "renamed", "became",
		"stay")
	fmt.Fprintf(w, "  %-12s %-12s %6s  %8s  %7s  %6s\n", "", "", "rows", "", "one", "behind")
	for _, name := range gameworld.Tables() {
		p := s.plan.Tables[name]
		t := merge.TableReport{Policy: p.Policy}
		named := func(t merge.TableReport) bool { return t.Name == name }
		if i := slices.IndexFunc(s.check.Tables, named); i >= 0 {
			t = s.check.Tables[i]
		}
		left := int64(0)
		for _, n := range t.Left {
			left += n
		}
		if p.Policy == merge.Rebuild {
			for _, r := range s.realms {
				left += r.Rows[name]
			}
		}
		line := fmt.Sprintf("  %-12s %-12s %6s  %8s  %7s  %6s  %s", name, p.Policy, some(t.Conflicts),
			some(t.Renamed), some(t.Dropped), some(left), p.Note)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// some is a number, or a dot for none.
func some(n int64) string {
	if n == 0 {
		return "."
	}
	return count(n)
}

func (s *story) printNames(w io.Writer) {
	line := fmt.Sprintf("  %-9s", "alike")
	for _, p := range s.plan.Servers {
		line += pad(p.Name)
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
	for _, n := range s.names {
		line := fmt.Sprintf("  %-9s", n.like)
		if n.like == gameworld.Same {
			line = "  equal    "
		}
		below, changed := strings.Repeat(" ", 11), false
		for _, r := range n.roles {
			line += pad(fmt.Sprintf("%s, %d", quoted(r.before), r.level))
			if after := "= keeps it"; r.after != r.before {
				below, changed = below+pad("> "+quoted(r.after)), true
			} else {
				below += pad(after)
			}
		}
		if !changed {
			below = strings.Repeat(" ", 11) + "= not equal, so all keep theirs"
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
		fmt.Fprintln(w, strings.TrimRight(below, " "))
	}
}

// quoted shows blanks at the end of a name.
func quoted(name string) string {
	if strings.HasSuffix(name, " ") {
		return `"` + name + `"`
	}
	return name
}

// pad fills a text up to the width of a column. Letters of Chinese take two places each.
func pad(text string) string {
	width := 30
	for _, r := range text {
		if width--; r >= 0x2e80 {
			width--
		}
	}
	return text + strings.Repeat(" ", max(width, 1))
}

func (s *story) printVerify(w io.Writer) {
	words := []struct{ what, text string }{
		{"rows", "numbers of rows"},
		{"checksum", "checksums over every value of every row"},
		{"orphans", "references, all of which lead somewhere"},
		{"duplicates", "unique keys, in which no two rows are equal"},
		{"names", "lists of renames, as they were promised"},
		{"empty", "table that the game fills, empty"},
		{"sum", "sums that were to be conserved:"},
	}
	for _, word := range words {
		n := 0
		for _, c := range s.verify.Checks {
			if c.What == word.what {
				n++
			}
		}
		fmt.Fprintf(w, "  %4d  %s\n", n, word.text)
	}
	fmt.Fprintln(w)
	for _, c := range s.verify.Checks {
		if c.What == "sum" {
			fmt.Fprintf(w, "        %-16s %14s before, %14s after\n", c.Detail, c.Want, c.Got)
		}
	}
	for _, c := range s.verify.Failed {
		fmt.Fprintf(w, "  DIFFERS: %s of %s %s %s: want %s, got %s\n",
			c.What, c.Table, c.Server, c.Detail, c.Want, c.Got)
	}
	fmt.Fprintf(w, "\n        seal %s\n", s.verify.Seal)
}

func (s *story) printRest(w io.Writer) {
	var moved, merged, gone []string
	for i, l := range s.logins {
		moved = append(moved, fmt.Sprintf("%s by %s", s.plan.Servers[i].Name, count(l.by)))
	}
	for _, server := range s.run.Servers {
		if server.Number != server.MergedInto {
			merged = append(merged, fmt.Sprintf("%d is now %d", server.Number, server.MergedInto))
			gone = append(gone, strconv.FormatInt(server.Number, 10))
		}
	}
	say := func(format string, args ...any) { fmt.Fprintf(w, "  - "+format+"\n", args...) }
	say("The counted keys of login_log went up: those of %s.", strings.Join(moved, ", "))
	say("%d letters carry the new name of who wrote them.", s.letters)
	say("Server %s. The numbers %s are never used again.", strings.Join(merged, ", server "),
		strings.Join(gone, " and "))
	say("It was run once more, and %d rows were written.", s.again.Rows)
	say("%d files of the servers were changed: undo is to delete the target.", s.touched)
}
