package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func mergeRunCommand() command {
	return command{
		name: "merge run", args: "PLAN", short: "merge, or continue an interrupted merge",
		help: `
Does everything that "merge check" does, and then copies the rows of all sources into the target. If something
is undecided, it copies nothing (exit code 3). Stop the game servers and back up the sources first. The
sources are opened read-only. To undo a merge, drop the target.

If the command is interrupted, by Ctrl-C, a lost connection or kill -9, run it again: it continues where it
was, and the target becomes the same as without the interruption. If the target is complete, it changes
nothing. The command refuses (exit code 3) while another run works on the target, if the plan was changed
after the first run, and if a source was written to.

Progress goes to standard error: the rows copied, the rows per second, and the time left. A terminal shows
a bar. Otherwise a line is printed every 5 seconds, which is a JSON document with --json.

--renames writes the list of rows that got a new name, and --servers the map from the old servers to the
new one. Both are CSV files, written after the last row. A file of the same kind is replaced, and any other
file is refused (exit code 3).

--only copies only some tables, and leaves the others to a later run with the same plan; parents come first.
--rate holds the run to a number of rows per second, for the sake of others on the same machines.
` + mergeDSNHelp + `

  snowflake merge run plan.yaml
  snowflake merge run plan.yaml --renames renames.csv --servers servers.csv
  snowflake merge run plan.yaml --only accounts,roles --rate 5000
  snowflake merge run plan.yaml --json --quiet > run.json`,
		flags: func(set *flag.FlagSet, o *options) {
			quietFlags(set, o)
			set.StringVar(&o.merge.renames, "renames", "", "write the list of renamed rows to a CSV `FILE`")
			set.StringVar(&o.merge.serverMap, "servers", "", "write the map of servers to a CSV `FILE`")
			set.Var(&o.merge.only, "only", "copy only these `TABLES` now, separated by commas")
			set.IntVar(&o.merge.rate, "rate", 0, "copy at most `N` rows per second; 0 is without a limit")
		},
		run: runMergeRun,
	}
}

func runMergeRun(ctx context.Context, e *env, o *options, args []string) error {
	const name = "merge run"
	lists := []list{
		{flag: "--renames", path: o.merge.renames, heading: "table,column,server,key,old_name,new_name\n"},
		{flag: "--servers", path: o.merge.serverMap, heading: "number,name,merged_into,target\n"},
	}
	lists = slices.DeleteFunc(lists, func(l list) bool { return l.path == "" })
	for _, l := range lists {
		if err := l.replaceable(); err != nil {
			return err
		}
	}
	if len(lists) == 2 && sameFile(lists[0].path, lists[1].path) {
		return usagef("%s: --renames and --servers need two different files", name)
	}
	return withMerge(ctx, e, o, name, args, func(m *merging) error {
		report, err := m.Run(ctx)
		if err == nil {
			m.meter.done()
			for _, l := range lists {
				err = errors.Join(err, l.write(func(w io.Writer) error {
					if l.flag == "--servers" {
						return m.WriteServers(w)
					}
					return m.WriteRenames(ctx, w)
				}))
			}
		}
		m.meter.end()
		if o.json && report != nil {
			return errors.Join(err, printJSON(e.out, report))
		}
		if err == nil {
			printRun(e.out, m, report, lists)
		} else if errors.Is(err, merge.ErrUndecided) && report.Check != nil {
			printCheck(e.out, m.plan, report.Check, printing{mostLines, mostLines})
		}
		return err
	})
}

func printRun(w io.Writer, m *merging, r *merge.RunReport, lists []list) {
	say(w, "%s into %s\n\n", serverNames(m.plan), targetName(m.plan))
	if r.Resumed && copied(r) {
		say(w, "What was left:\n\n")
	}
	printCopied(w, r)
	switch {
	case r.Partial:
		say(w, "\nA part is merged: %s in %s. The other tables are left to another run, without --only:\n\n"+
			"  snowflake merge run %s\n", plural(r.Rows, "row"), spell(r.Took), m.path)
		return
	case r.Already:
		say(w, "\nIt was merged before, and nothing was changed.\n")
	case r.Resumed && !copied(r):
		say(w, "\nMerged, from where an earlier run had ended. All rows were there.\n")
	case r.Resumed:
		say(w, "\nMerged, from where an earlier run had ended: %s in %s; copied at %s rows/s.\n",
			plural(r.Rows, "row"), spell(r.Took), comma(int64(r.RowsPerSecond)))
	default:
		say(w, "\nMerged: %s in %s with the check; copied at %s rows/s.\n", plural(r.Rows, "row"),
			spell(r.Took), comma(int64(r.RowsPerSecond)))
	}
	say(w, "%s another name, %s one with another.\n", count(r.Renamed, "row has", "rows have"),
		count(r.Dropped, "row became", "rows became"))
	if r.Quarantined > 0 {
		say(w, "%s refused by the target: see the table merge_quarantine there.\n",
			count(r.Quarantined, "ROW WAS", "ROWS WERE"))
	}
	for _, l := range lists {
		say(w, "%s: %s\n", map[string]string{"--renames": "Renames", "--servers": "Servers"}[l.flag], l.path)
	}
	say(w, "\nNext:\n\n  snowflake merge verify %s\n", m.path)
}

// copied tells whether this run had rows to copy. If not, the report lists what the target holds.
func copied(r *merge.RunReport) bool {
	return slices.ContainsFunc(r.Tables, func(t merge.CopyReport) bool { return t.Way != "" })
}

// printCopied prints what was copied of each table. The JSON document also has it by server.
func printCopied(w io.Writer, r *merge.RunReport) {
	type sum struct {
		rows, servers int64
		ways          []string
	}
	var order []string
	sums := map[string]*sum{}
	for _, t := range r.Tables {
		s := sums[t.Table]
		if s == nil {
			s = &sum{}
			sums[t.Table], order = s, append(order, t.Table)
		}
		s.rows, s.servers = s.rows+t.Rows, s.servers+1
		if t.Way != "" && t.Rows > 0 && !slices.Contains(s.ways, t.Way) {
			s.ways = append(s.ways, t.Way)
		}
	}
	table := &grid{words: 2}
	table.add("TABLE", "BY", "SERVERS", "ROWS")
	if !copied(r) {
		table = &grid{words: 1}
		table.add("TABLE", "SERVERS", "ROWS")
	}
	for _, name := range order {
		s := sums[name]
		cells := []string{plain(name), strings.Join(s.ways, ", "), comma(s.servers), comma(s.rows)}
		if table.words == 1 {
			cells = slices.Delete(cells, 1, 2)
		}
		table.add(cells...)
	}
	table.print(w)
}
