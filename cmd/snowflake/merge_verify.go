package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func mergeVerifyCommand() command {
	return command{
		name: "merge verify", args: "PLAN", short: "compare the target with its sources, row by row",
		help: `
Reads the sources and the target again, independently of what the run reported, and compares them:

  - the number of rows and a checksum over every value, for each server and table
  - rows that refer to a row that does not exist, and rows that are equal in a unique key
  - the new names
  - the sums that the plan lists under "conserve"

The command writes to no database. If anything differs, the exit code is 1: do not let players in. No game
server may write to the sources or the target before the command has finished. Keep the JSON document: its
"seal" is a hash of its whole content.
` + mergeDSNHelp + `

  snowflake merge verify plan.yaml
  snowflake merge verify plan.yaml --json --quiet > verify.json`,
		flags: quietFlags,
		run:   runMergeVerify,
	}
}

func runMergeVerify(ctx context.Context, e *env, o *options, args []string) error {
	return withMerge(ctx, e, o, "merge verify", args, func(m *merging) error {
		report, err := m.Verify(ctx)
		if err != nil {
			return err
		}
		m.meter.done()
		if o.json {
			err = printJSON(e.out, report)
		} else {
			printVerify(e.out, m.plan, report)
		}
		if err == nil && !report.OK {
			err = fmt.Errorf("%s in %s: do not let players in before you know the reason",
				count(int64(len(report.Failed)), "difference", "differences"),
				plural(int64(len(report.Checks)), "comparison"))
		}
		return err
	})
}

// verified is one line of the report: the result of every comparison of a table.
type verified struct {
	rows                                 int64
	differ                               bool // in rows
	checksum, orphans, duplicates, names string
}

// printVerify prints a line for each table and each sum, and then every difference.
func printVerify(w io.Writer, plan *merge.Plan, r *merge.VerifyReport) {
	say(w, "%s into %s\n\n", serverNames(plan), targetName(plan))
	table := &grid{words: 1}
	table.add("TABLE", "ROWS", "CHECKSUMS", "ORPHANS", "DUPLICATES", "NEW NAMES")
	var order []string
	all := map[string]*verified{}
	sums := &grid{words: 2}
	sums.add("SUM", "TABLE", "BEFORE", "AFTER")
	for _, c := range r.Checks {
		if c.What == "sum" {
			sums.add(plain(c.Detail), plain(c.Table), number(c.Want), number(c.Got))
			continue
		}
		v := all[c.Table]
		if v == nil {
			v = &verified{}
			all[c.Table], order = v, append(order, c.Table)
		}
		v.note(c)
	}
	for _, name := range order {
		v := all[name]
		table.add(plain(name), v.counted(), v.checksum, v.orphans, v.duplicates, v.names)
	}
	table.print(w)
	if len(sums.rows) > 1 {
		say(w, "\n")
		sums.print(w)
	}
	if len(r.Failed) > 0 {
		say(w, "\nWhat differs:\n")
	}
	for _, c := range r.Failed {
		at := plain(c.Table)
		if c.Server != "" {
			at += " of " + plain(c.Server)
		}
		if c.Detail != "" {
			at += ", " + plain(c.Detail)
		}
		say(w, "%s\n", wrap(fmt.Sprintf("%s: %s: %s, and it should be %s", c.What, at, number(c.Got),
			number(c.Want)), "  - "))
	}
	if r.OK {
		say(w, "\nAll is as it should be: %s in %s.\n", plural(int64(len(r.Checks)), "comparison"), spell(r.Took))
	}
	say(w, "Seal %s\n", r.Seal)
}

// note adds a comparison to the line of its table. A later success does not hide a failure.
func (v *verified) note(c merge.Comparison) {
	cell, text := &v.checksum, "equal"
	switch c.What {
	case "rows", "empty":
		n, _ := strconv.ParseInt(c.Got, 10, 64)
		v.rows += n
		v.differ = v.differ || !c.OK
		return
	case "orphans":
		cell, text = &v.orphans, "none"
	case "duplicates":
		cell, text = &v.duplicates, "none"
	case "names":
		cell, text = &v.names, "there"
	}
	switch {
	case *cell == differs:
	case c.OK:
		*cell = text
	default:
		*cell = differs
	}
}

// number writes a whole number with commas, and any other text without control characters.
func number(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return comma(n)
	}
	return plain(text)
}

const differs = "DIFFER"

func (v *verified) counted() string {
	if v.differ {
		return comma(v.rows) + " " + differs
	}
	return comma(v.rows)
}
