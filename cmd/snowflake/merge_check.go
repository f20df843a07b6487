package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func mergeCheckCommand() command {
	return command{
		name: "merge check", args: "PLAN", short: "find every conflict, and change nothing",
		help: `
Reads the sources and the target and prints what "merge run" would do: how many rows of each table it would
copy, and every conflict, which is a pair of rows that are equal in a unique key of the target, with its
resolution. Warnings and undecided problems come last. Of each kind of problem, and of the conflicts in each
key, 20 lines are printed, and the rest with --all. The command writes to no database.

Exit codes, for scripts:

  0  there are no conflicts: "merge run" can start
  4  there are conflicts, and the plan resolves all of them: "merge run" can start
  3  something is undecided: "merge run" would refuse
  1  a database or the plan could not be read
  2  usage error

Read the conflicts themselves, not only their number. The collation of the target decides which names are
equal, so check against the same kind of database that you will run with. A source whose game server still
runs is reported as "not_quiet".
` + mergeDSNHelp + `

  snowflake merge check plan.yaml
  snowflake merge check plan.yaml --all
  snowflake merge check plan.yaml --json --quiet > check.json`,
		flags: func(set *flag.FlagSet, o *options) {
			quietFlags(set, o)
			set.BoolVar(&o.merge.all, "all", false, "print every problem and conflict, not 20 lines of each kind")
			set.IntVar(&o.merge.conflicts, "conflicts", mostConflicts, "list at most `N` conflicts of each table, "+
				"in JSON or with --all; any other N than that prints as many without --all")
		},
		run: runMergeCheck,
	}
}

// mostConflicts is how many conflicts of each table a report lists, unless --conflicts says how many.
const mostConflicts = 10_000

func runMergeCheck(ctx context.Context, e *env, o *options, args []string) error {
	const name = "merge check"
	if o.merge.conflicts < 1 {
		return usagef("%s: --conflicts must be greater than 0", name)
	}
	verdict := merge.Clean
	err := withMerge(ctx, e, o, name, args, func(m *merging) error {
		report, err := m.Check(ctx)
		if err != nil {
			return err
		}
		m.meter.done()
		verdict = report.Verdict
		if o.json {
			return printJSON(e.out, report)
		}
		most := printing{problems: mostLines, conflicts: mostLines}
		if o.merge.conflicts != mostConflicts {
			most.conflicts = 0 // the report has no more than that
		}
		if o.merge.all {
			most = printing{}
		}
		printCheck(e.out, m.plan, report, most)
		return nil
	})
	if err != nil {
		return err
	}
	switch verdict {
	case merge.Resolved:
		return exitError{code: exitResolved}
	case merge.Undecided:
		return exitError{code: exitRefused}
	}
	return nil
}

// printing is how many lines of each kind of problem and of the conflicts in each key are printed; 0 is
// without a limit.
type printing struct{ problems, conflicts int }

// printCheck prints the most important part last, where the reader of a terminal sees it.
func printCheck(w io.Writer, plan *merge.Plan, r *merge.CheckReport, most printing) {
	say(w, "%s into %s\n", serverNames(plan), targetName(plan))
	if r.Verdict == merge.Undecided && r.Rows == 0 && len(r.Conflicts) == 0 {
		say(w, "\nRows were not looked at: what has to be decided comes before them.\n")
	} else {
		say(w, "\n")
		printCheckTables(w, plan, r)
		printConflicts(w, r, most.conflicts)
	}
	if len(r.Warnings) > 0 {
		say(w, "\nWorth knowing:\n")
		printProblems(w, r.Warnings, most.problems)
	}
	if len(r.Problems) > 0 {
		say(w, "\nTo be decided:\n")
		printProblems(w, r.Problems, most.problems)
	}
	say(w, "\n%s\n", wrap(verdictOf(r), ""))
}

func verdictOf(r *merge.CheckReport) string {
	after := fmt.Sprintf("The target will have %s rows; copying them may take %s. Checked in %s.",
		comma(r.Rows), spell(r.Estimate), spell(r.Took))
	switch r.Verdict {
	case merge.Clean:
		return "Clean: nothing collides. " + after
	case merge.Resolved:
		return "Resolved: something collides, and the plan decides all of it. " + after
	}
	return fmt.Sprintf("Undecided: %s to solve before anything can be merged. Nothing was changed.",
		plural(int64(len(r.Problems)), "problem"))
}

// printCheckTables prints what happens to each table, in the order in which they are copied.
func printCheckTables(w io.Writer, plan *merge.Plan, r *merge.CheckReport) {
	servers := plan.Servers
	if len(servers) > 6 { // the line would be too long; the JSON document has all servers
		servers = nil
	}
	table := &grid{words: 2}
	heading := []string{"TABLE", "POLICY"}
	for _, s := range servers {
		heading = append(heading, plain(s.Name))
	}
	table.add(append(heading, "ROWS", "EQUAL", "RENAMED", "DROPPED", "STAY BEHIND")...)
	for _, t := range r.Tables {
		cells := []string{plain(t.Name), string(t.Policy)}
		for _, s := range servers {
			cells = append(cells, comma(t.Rows[s.Name]))
		}
		rows, left := total(t.Rows)-t.Dropped, total(t.Left)
		table.add(append(cells, comma(rows), orDot(t.Conflicts), orDot(t.Renamed), orDot(t.Dropped),
			orDot(left))...)
	}
	table.print(w)
	var without []string
	for name, t := range plan.Tables {
		if t.Policy == merge.Rebuild || t.Policy == merge.Skip {
			without = append(without, fmt.Sprintf("%s (%s)", plain(name), t.Policy))
		}
	}
	if slices.Sort(without); len(without) > 0 {
		say(w, "\n%s\n", wrap("Not copied: "+strings.Join(without, ", ")+".", ""))
	}
}

// printConflicts lists the conflicts by table and key, at most so many of each; 0 is without a limit.
func printConflicts(w io.Writer, r *merge.CheckReport, most int) {
	missing := map[string]int64{} // the number of conflicts that are not listed, by table
	for _, t := range r.Tables {
		missing[t.Name] = t.Conflicts
	}
	for _, c := range r.Conflicts {
		missing[c.Table]--
	}
	all := r.Conflicts
	for len(all) > 0 {
		first := all[0]
		same := func(c merge.Conflict) bool { return c.Table == first.Table && c.Key == first.Key }
		n := slices.IndexFunc(all, func(c merge.Conflict) bool { return !same(c) })
		if n < 0 {
			n = len(all)
		}
		// The number of rows that are equal in this key is known only if all conflicts are listed.
		equal := plural(int64(n), "row")
		if missing[first.Table] > 0 {
			equal = "rows"
		}
		say(w, "\n%s: %s equal in %s\n", plain(first.Table), equal, plain(first.Key))
		table := &grid{words: 4}
		table.add("  VALUE", "STAYS", "OTHER", "BECOMES")
		shown := n
		if most > 0 {
			shown = min(n, most)
		}
		for _, c := range all[:shown] {
			table.add("  "+plain(c.Value), rowName(c.Keeper), rowName(c.Other), becomes(c))
		}
		table.print(w)
		if shown < n {
			say(w, "  and %s not listed: see \"merge check --all\"\n",
				count(int64(n-shown), "more that is", "more that are"))
		}
		all = all[n:]
		if more := missing[first.Table]; more > 0 && (len(all) == 0 || all[0].Table != first.Table) {
			say(w, "  and %s not listed: see --conflicts\n", count(more, "more that is", "more that are"))
		}
	}
}

func rowName(r merge.RowRef) string { return plain(r.Server) + " " + plain(r.Key) }

func becomes(c merge.Conflict) string {
	switch c.Resolution {
	case "renamed":
		return plain(c.NewName)
	case "dropped":
		return "one with what stays"
	case "added":
		return "added to what stays"
	}
	return c.Resolution
}
