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
		name: "merge run", args: "PLAN", short: "merge, or go on with a merge that was interrupted",
		help: `
Does what "merge check" does, and unless something is undecided (exit code 3) copies the rows of all
sources into the target. Stop the game servers and back up the sources first. Sources are opened
read-only; undo is to drop the target.

Whatever ends it, Ctrl-C, a lost connection, kill -9: the same command again goes on where it was and
ends with the same target. On a target that is complete it changes nothing. While it runs a second one
is refused (exit code 3), as is a plan that was changed since and a source that was written to.

On a terminal a bar shows how many rows were copied, how many a second, and how long it will take;
elsewhere lines say so now and then, with --json one document each. They go to standard error.

--renames writes the list of rows that got another name, --servers the map from old servers to the new
one, both as CSV, when all is done. An older list of that name is replaced, any other file is refused.
` + mergeLater + `

  snowflake merge run plan.yaml
  snowflake merge run plan.yaml --renames renames.csv --servers servers.csv
  snowflake merge run plan.yaml --json --quiet > run.json`,
		flags: func(set *flag.FlagSet, o *options) {
			quietFlags(set, o)
			set.StringVar(&o.merge.renames, "renames", "", "write the list of renames to a `FILE`")
			set.StringVar(&o.merge.serverMap, "servers", "", "write the map of servers to a `FILE`")
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
		return usagef("%s: --renames and --servers need a file each", name)
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
			printCheck(e.out, m.plan, report.Check)
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

// copied tells whether this run had rows to copy. If it had none the report lists what is in the target.
func copied(r *merge.RunReport) bool {
	return slices.ContainsFunc(r.Tables, func(t merge.CopyReport) bool { return t.Way != "" })
}

// printCopied sums up what was copied by table; JSON has it by server too.
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
