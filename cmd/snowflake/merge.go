package main

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dsn"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func mergeGroup() group {
	return group{
		name: "merge", short: "merge the databases of game servers",
		help: `
Merges the databases of several game servers into one. Draft a plan, review it, check it until nothing is
undecided, run it, and verify the result. Only "merge run" writes to a database, and only to the target.
` + mergeDSNHelp + `

  snowflake merge check plan.yaml`,
	}
}

const mergeDSNHelp = `
A plan names each database by a DSN: postgres://user:password@host/database, for MySQL and MariaDB
mysql://user:password@host/database, or the path of a SQLite file. $NAME stands for the value of an
environment variable. No output contains a DSN or a password.`

func quietFlags(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.merge.quiet, "quiet", false, "do not print progress to standard error")
}

// merging is an open merge.
type merging struct {
	*merge.Merge
	plan    *merge.Plan
	path    string
	lock    *merge.Lock // nil if there is none yet
	meter   *meter
	secrets dsn.Secrets
}

// withMerge opens the plan that args name and calls fn. Its errors contain no password, and they wrap
// errUsage or errRefused where those decide the exit code.
func withMerge(
	ctx context.Context, e *env, o *options, name string, args []string, fn func(m *merging) error,
) (err error) {
	path := args[0]
	plan, err := merge.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("%s: there is no file %s; \"snowflake merge plan\" drafts a plan", name, path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m := &merging{plan: plan, path: path, meter: newMeter(e, o), secrets: secretsOf(plan)}
	if m.lock, err = merge.LoadLock(lockPath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.Merge, err = merge.Open(ctx, plan, merge.WithLock(m.lock), merge.WithOpener(openDatabase),
		merge.WithProgress(m.meter.show))
	if err != nil {
		return m.explain(ctx, name, err)
	}
	defer func() {
		m.meter.end() // if it was interrupted
		err = m.explain(ctx, name, errors.Join(err, m.Close()))
	}()
	return fn(m)
}

// needsPlan is which arguments the merge commands have.
const needsPlan = "exactly one plan is needed, a file such as plan.yaml"

func lockPath(plan string) string {
	if lock := strings.TrimSuffix(plan, filepath.Ext(plan)) + ".lock"; lock != plan {
		return lock
	}
	return plan + ".lock"
}

// keep writes what a check has found beside the plan, unless that would hide a difference.
func (m *merging) keep(e *env, report *merge.CheckReport) {
	differs := func(p merge.Problem) bool { return p.Code == merge.CodeLock }
	if report.Lock == nil || slices.ContainsFunc(report.Problems, differs) {
		return
	}
	if err := report.Lock.Save(lockPath(m.path)); err != nil {
		text := fmt.Sprintf("What was found in the data of the servers is not kept: %v.", err)
		say(e.err, "%s\n", wrap(text, ""))
	}
}

func openDatabase(_ context.Context, text string) (*sql.DB, error) {
	driver, native, err := driverOf(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), errUsage.Error()+": "))
	}
	return sql.Open(driver, native)
}

// serverNames lists servers for people.
func serverNames(plan *merge.Plan) string {
	names := make([]string, len(plan.Servers))
	for i, s := range plan.Servers {
		names[i] = fmt.Sprintf("%s (%d)", plain(s.Name), s.Number)
	}
	return strings.Join(names, ", ")
}

func targetName(plan *merge.Plan) string {
	return fmt.Sprintf("%s (%d)", plain(cmp.Or(plan.Target.Name, "the target")), plan.Target.Number)
}

func mergePlanCommand() command {
	return command{
		name: "merge plan", args: "FILE", short: "draft the plan of a merge for review",
		needs: needsPlan, least: 1, most: 1,
		help: `
Reads the tables of all databases and writes a plan to a new file. The plan has a policy for every table,
guessed from its keys and from what is in them, and a note with the reason. A drafted policy keeps every row:
copy or rename, with renumbered keys or without. Where that may not be what is wanted, the policy is
"undecided", and "merge check" lists what there is to choose from. Somebody who knows the game must decide
these tables before anything runs, and the lines with REVIEW. Read the other lines too. The command copies
no rows. It refuses an existing file (exit code 3), and only you can read the new one. Beside plan.yaml it
writes plan.lock, with what it has found in each column of the servers. Keep both together, and change only
the plan.

A server is written as [NAME:]NUMBER=DSN. NUMBER is the server number in the IDs that were generated there.
If other servers were merged into it before, their numbers follow, as in 2,7. The order matters: where one
of two rows stays, it is the row of the server that comes first. The target is written in the same way. Its
tables must exist, made by the migrations of the game, and must be empty. Its number is the one that the
merged server uses from then on. --layout is the layout of the IDs. For a layout that is not in the list,
write a plan without tables, and draft the rest with --from.
` + mergeDSNHelp + `
Put $NAME in single quotes, so that the plan holds the name of the variable and not the password.

  snowflake merge plan plan.yaml --layout Game --server 1=s1.db --server 2=s2.db --target 1=new.db
  snowflake merge plan night.yaml --layout Game --server Avalon:1='$AVALON_DSN' \
      --server Camelot:2,7='$CAMELOT_DSN' --target Avalon:1='$TARGET_DSN'
  snowflake merge plan plan2.yaml --from plan.yaml    # policies for tables that are new`,
		flags: func(set *flag.FlagSet, o *options) {
			set.StringVar(&o.layout, "layout", "", "the layout of the IDs: a `NAME` from \"snowflake layout\"")
			set.Var(&o.merge.servers, "server", "a `SOURCE` as [NAME:]NUMBER=DSN; repeat the flag for each server")
			set.StringVar(&o.merge.target, "target", "", "the `TARGET` as [NAME:]NUMBER=DSN")
			set.StringVar(&o.merge.base, "from", "", "take the servers, layout and known tables from a `PLAN`")
		},
		run: runMergePlan,
	}
}

func runMergePlan(ctx context.Context, e *env, o *options, args []string) error {
	const name = "merge plan"
	path := args[0]
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: the file %s exists and may have been reviewed: choose another name",
			errRefused, path)
	}
	plan, err := outline(name, o)
	if err != nil {
		return err
	}
	m := &merging{plan: plan, path: path, secrets: secretsOf(plan)}
	drafted, lock, err := merge.Draft(ctx, plan, merge.WithOpener(openDatabase))
	if err != nil {
		return m.explain(ctx, name, err)
	}
	if err := drafted.Save(path); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", errRefused, err)
	} else if err != nil {
		return err
	}
	if err := lock.Save(lockPath(path)); err != nil {
		return err
	}
	if literal := literalPasswords(drafted); len(literal) > 0 {
		say(e.err, "%s\n", wrap("The plan contains the password of "+strings.Join(literal, ", ")+". Only you "+
			"can read the file, but it is safer to write the name of an environment variable there, as $NAME.", ""))
	}
	if o.json {
		return printJSON(e.out, newDraftInfo(path, drafted))
	}
	printDraft(e.out, path, drafted)
	return nil
}

// outline returns the plan that the flags describe, without tables.
func outline(name string, o *options) (*merge.Plan, error) {
	f := o.merge
	if f.base != "" {
		if len(f.servers) > 0 || f.target != "" || o.layout != "" {
			return nil, usagef("%s: --from excludes --server, --target and --layout: the plan has them", name)
		}
		plan, err := merge.Load(f.base)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("%s: there is no file %s", name, f.base)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.base, err)
		}
		return plan, nil
	}
	switch {
	case len(f.servers) == 0:
		return nil, usagef("%s: the servers are missing: give --server NUMBER=DSN for each, or --from PLAN", name)
	case f.target == "":
		return nil, usagef("%s: the target is missing: give --target NUMBER=DSN", name)
	case o.layout == "":
		return nil, usagef("%s: the layout is missing: give --layout NAME; \"snowflake layout\" lists them; "+
			"for a game whose keys the database counts, take default", name)
	}
	layout, err := layoutOf(o.layout)
	if err != nil {
		return nil, err
	}
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: strings.ToLower(layout.Name)}}
	for i, text := range f.servers {
		s, ok := parseServer(text)
		if !ok {
			return nil, usagef("%s: server %d is not written as [NAME:]NUMBER=DSN", name, i+1)
		}
		plan.Servers = append(plan.Servers, s)
	}
	t, ok := parseServer(f.target)
	if !ok || len(t.Also) > 0 {
		return nil, usagef("%s: the target is not written as [NAME:]NUMBER=DSN", name)
	}
	plan.Target = merge.Target{Name: t.Name, Number: t.Number, DSN: t.DSN}
	if err := plan.Validate(); err != nil {
		return nil, usagef("%s: %s", name, strings.TrimPrefix(err.Error(), "merge: "))
	}
	return plan, nil
}

// parseServer reads [NAME:]NUMBER[,NUMBER...]=DSN. No error repeats a text that
// it cannot read, because the text may be a DSN.
func parseServer(text string) (s merge.Server, ok bool) {
	m := regexp.MustCompile(`(?s)^(?:([^=]*):)?([0-9,]+)=(.+)$`).FindStringSubmatch(text)
	if m == nil {
		return s, false
	}
	for _, digits := range strings.Split(m[2], ",") {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return s, false
		}
		s.Also = append(s.Also, n)
	}
	s.DSN, s.Number, s.Also = m[3], s.Also[0], s.Also[1:]
	s.Name = cmp.Or(m[1], fmt.Sprintf("s%d", s.Number))
	return s, true
}

// literalPasswords names the databases whose DSN in the plan contains a password.
func literalPasswords(plan *merge.Plan) (names []string) {
	for _, s := range plan.Servers {
		if len(dsn.SecretsOf(s.DSN)) > 0 {
			names = append(names, plain(s.Name))
		}
	}
	if len(dsn.SecretsOf(plan.Target.DSN)) > 0 {
		names = append(names, "the target")
	}
	return names
}

// draftInfo is the draft in JSON.
type draftInfo struct {
	File     string               `json:"file"`
	Plan     string               `json:"plan"` // the hash
	Servers  []string             `json:"servers"`
	Target   string               `json:"target"`
	Tables   []draftTable         `json:"tables"`
	Conserve []merge.ConservedSum `json:"conserve"`
}

type draftTable struct {
	Name   string       `json:"name"`
	Policy merge.Policy `json:"policy"`
	Review bool         `json:"review"`
	Note   string       `json:"note,omitempty"`
}

func newDraftInfo(path string, plan *merge.Plan) draftInfo {
	d := draftInfo{File: path, Plan: plan.Hash(), Target: plan.Target.Name, Conserve: plan.Conserve}
	for _, s := range plan.Servers {
		d.Servers = append(d.Servers, s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Tables)) {
		t := plan.Tables[name]
		review := t.Policy == merge.NotDecided || strings.Contains(t.Note, "REVIEW")
		d.Tables = append(d.Tables, draftTable{name, t.Policy, review, t.Note})
	}
	return d
}

func printDraft(w io.Writer, path string, plan *merge.Plan) {
	d := newDraftInfo(path, plan)
	say(w, "%s into %s\n\n", serverNames(plan), targetName(plan))
	table := &grid{words: 3, wraps: true}
	table.add("TABLE", "POLICY", "BECAUSE")
	review, open := int64(0), int64(0)
	for _, t := range d.Tables {
		table.add(plain(t.Name), string(t.Policy), plain(t.Note))
		switch {
		case t.Policy == merge.NotDecided:
			open++
		case t.Review:
			review++
		}
	}
	table.print(w)
	if len(d.Conserve) > 0 {
		say(w, "\n")
	}
	for _, s := range d.Conserve {
		say(w, "To be conserved: %s of %s\n", plain(s.Expression), plain(s.Table))
	}
	say(w, "\n%s Then:\n\n  snowflake merge check %s\n", wrap(fmt.Sprintf("The plan is in %s: %s, of which %s "+
		"to be decided and %s to be reviewed in any case.", path, plural(int64(len(d.Tables)), "table"),
		count(open, "has", "have"), count(review, "has", "have")), ""), path)
}

func mergeCheckCommand() command {
	return command{
		name: "merge check", args: "PLAN", short: "find every conflict, and change nothing",
		needs: needsPlan, least: 1, most: 1,
		help: `
Reads the sources and the target and prints what "merge run" would do: how many rows of each table it would
copy, and every conflict, which is a pair of rows that are equal in a unique key of the target, with its
resolution. Warnings and undecided problems come last. Of each kind of problem, and of the conflicts in each
key, 20 lines are printed, and the rest with --all. The command writes to no database. If the data of a column
says something else than plan.lock, that is a problem; otherwise plan.lock gets the new counts.

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
			set.BoolVar(&o.merge.all, "all", false, "print every problem, and 10,000 conflicts of each table, not "+
				"20 lines of each kind")
		},
		run: runMergeCheck,
	}
}

func runMergeCheck(ctx context.Context, e *env, o *options, args []string) error {
	verdict := merge.Clean
	err := withMerge(ctx, e, o, "merge check", args, func(m *merging) error {
		report, err := m.Check(ctx)
		if err != nil {
			return err
		}
		m.meter.done()
		m.keep(e, report)
		verdict = report.Verdict
		if o.json {
			return printJSON(e.out, report)
		}
		most := mostLines
		if o.merge.all {
			most = 0
		}
		printCheck(e.out, m.plan, report, most)
		return nil
	})
	if err != nil {
		return err
	}
	switch verdict {
	case merge.Resolved:
		return exitCode(exitResolved)
	case merge.Undecided:
		return exitCode(exitRefused)
	}
	return nil
}

// printCheck prints the most important part last, where the reader of a terminal sees it. Of each kind of
// problem and of the conflicts in each key, it prints at most so many lines; 0 is without a limit.
func printCheck(w io.Writer, plan *merge.Plan, r *merge.CheckReport, most int) {
	say(w, "%s into %s\n", serverNames(plan), targetName(plan))
	if r.Verdict == merge.Undecided && r.Rows == 0 && len(r.Conflicts) == 0 {
		say(w, "\nRows were not looked at: what has to be decided comes before them.\n")
	} else {
		say(w, "\n")
		printCheckTables(w, plan, r)
		printConflicts(w, r, most)
		printGaps(w, r.Gaps)
	}
	if len(r.Warnings) > 0 {
		say(w, "\nWorth knowing:\n")
		printProblems(w, r.Warnings, most)
	}
	if len(r.Problems) > 0 {
		say(w, "\nTo be decided:\n")
		printProblems(w, r.Problems, most)
		if len(r.GivesUp) > 0 { // as the plan needs them, so nothing is wrapped
			say(w, "\nThe lines for the plan:\n\n%s", r.GivesUpLines())
		}
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

// printGaps says where keys move apart.
func printGaps(w io.Writer, gaps []merge.Gap) {
	for _, g := range gaps {
		say(w, "\n%s\n", wrap(fmt.Sprintf("The counted keys of %s move to numbers from %s to %s, which no "+
			"column has that "+
			"may hold them. %s above are free.", plain(strings.Join(g.Tables, ", ")), comma(g.From), comma(g.To),
			plural(g.Room, "number")), ""))
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
	for all := r.Conflicts; len(all) > 0; {
		first, n := all[0], 1
		for n < len(all) && all[n].Table == first.Table && all[n].Key == first.Key {
			n++
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
			say(w, "  and %s not listed\n", count(more, "more that is", "more that are"))
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

func mergeRunCommand() command {
	return command{
		name: "merge run", args: "PLAN", short: "merge, or continue an interrupted merge",
		needs: needsPlan, least: 1, most: 1,
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
` + mergeDSNHelp + `

  snowflake merge run plan.yaml
  snowflake merge run plan.yaml --renames renames.csv --servers servers.csv
  snowflake merge run plan.yaml --json --quiet > run.json`,
		flags: func(set *flag.FlagSet, o *options) {
			quietFlags(set, o)
			set.StringVar(&o.merge.renames, "renames", "", "write the list of renamed rows to a CSV `FILE`")
			set.StringVar(&o.merge.serverMap, "servers", "", "write the map of servers to a CSV `FILE`")
		},
		run: runMergeRun,
	}
}

func runMergeRun(ctx context.Context, e *env, o *options, args []string) error {
	const name = "merge run"
	lists := []csvFile{
		{flag: "--renames", path: o.merge.renames,
			heading: "table,column,server,key,old_name,new_name,new_key\n"},
		{flag: "--servers", path: o.merge.serverMap, heading: "number,name,merged_into,target\n"},
	}
	lists = slices.DeleteFunc(lists, func(l csvFile) bool { return l.path == "" })
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
		if m.lock == nil && report != nil { // verify reads there which columns held keys
			check := report.Check
			if check == nil && err == nil {
				check, err = m.Check(ctx) // another run has checked, and did not live to write it
			}
			if check != nil {
				m.keep(e, check)
			}
		}
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
			printCheck(e.out, m.plan, report.Check, mostLines)
		}
		return err
	})
}

func printRun(w io.Writer, m *merging, r *merge.RunReport, lists []csvFile) {
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

// copied tells whether this run had rows to copy. If not, the report lists what the target holds.
func copied(r *merge.RunReport) bool {
	return slices.ContainsFunc(r.Tables, func(t merge.CopyReport) bool { return t.Way != "" })
}

// printCopied prints what was copied of each table. The JSON document also has it by server.
func printCopied(w io.Writer, r *merge.RunReport) {
	heading := []string{"TABLE", "BY", "SERVERS", "ROWS"}
	table := &grid{words: 2}
	if !copied(r) {
		table.words, heading = 1, slices.Delete(heading, 1, 2)
	}
	table.add(heading...)
	for all := r.Tables; len(all) > 0; {
		name, servers, rows, ways := all[0].Table, int64(0), int64(0), []string(nil)
		for ; len(all) > 0 && all[0].Table == name; all = all[1:] {
			servers, rows = servers+1, rows+all[0].Rows
			if way := all[0].Way; way != "" && all[0].Rows > 0 && !slices.Contains(ways, way) {
				ways = append(ways, way)
			}
		}
		cells := []string{plain(name), strings.Join(ways, ", "), comma(servers), comma(rows)}
		if table.words == 1 {
			cells = slices.Delete(cells, 1, 2)
		}
		table.add(cells...)
	}
	table.print(w)
}

func mergeVerifyCommand() command {
	return command{
		name: "merge verify", args: "PLAN", short: "compare the target with its sources, row by row",
		needs: needsPlan, least: 1, most: 1,
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
	rows    int64
	tallied bool              // rows were counted
	differ  bool              // in rows
	cells   map[string]string // by what was compared
}

// printColumns prints the columns that somebody has to look at before players come in: those whose references
// may be chance, and those that the plan does not lead along, and whose rows lead nowhere now. Of these come
// first those that somebody took for plain, and then those of which most rows had keys.
func printColumns(w io.Writer, p *merge.Plan, r *merge.VerifyReport) {
	var led, weak []merge.Comparison
	for _, c := range r.Checks {
		switch {
		case c.What == "chance":
			weak = append(weak, c)
		case c.Parent != "" && c.OK && c.Want != "0":
			led = append(led, c)
		}
	}
	named := func(c merge.Comparison) string { return plain(c.Table) + "." + plain(c.Column) }
	if len(weak) > 0 {
		say(w, "\n%s\n", wrap("References of the plan whose values may be keys by chance. If one of these "+
			"columns is something else, such as a price, the merge has changed its values: do not let players "+
			"in, list it under plain: of the plan, and merge into a fresh target.", ""))
	}
	for _, c := range weak {
		say(w, "%s\n", wrap(named(c)+" ("+plain(c.Detail)+")", "  - "))
	}
	if len(led) == 0 {
		return
	}
	say(w, "\n%s\n", wrap("Numbers that were keys before and lead to no row now, or to one of another server, "+
		"because no reference of the plan follows them. Most are levels and prices, which were keys by chance; "+
		"those that were keys most often come first. If one of these columns does refer to the table, or to "+
		"another one, its rows have lost what they belong to: do not let players in, add it under identities: "+
		"of the plan, and merge into a fresh target.", ""))
	listed := func(c merge.Comparison) bool { return slices.Contains(p.Plain, c.Table+"."+c.Column) }
	share := func(c merge.Comparison) float64 {
		rows, _ := strconv.ParseFloat(c.Got, 64)
		if listed(c) {
			rows += float64(c.Rows)
		}
		return rows / float64(c.Rows)
	}
	slices.SortStableFunc(led, func(a, b merge.Comparison) int { return cmp.Compare(share(b), share(a)) })
	var rest []string
	for i, c := range led {
		if i >= mostLines {
			rest = append(rest, named(c))
			continue
		}
		said, where := "", ""
		if listed(c) {
			said = ", under plain: of the plan"
		}
		if c.Except != "" {
			where = " in which no when: applies"
		}
		say(w, "%s\n", wrap(fmt.Sprintf("%s%s: keys of %s (%s of %s rows%s)", named(c), said, plain(c.Parent),
			number(c.Got), comma(c.Rows), where), "  - "))
	}
	if len(rest) > 0 {
		say(w, "%s\n", wrap("and less often: "+strings.Join(rest, ", "), "  - "))
	}
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
			v = &verified{cells: map[string]string{}}
			all[c.Table], order = v, append(order, c.Table)
		}
		v.note(c)
	}
	for _, name := range order {
		v := all[name]
		table.add(plain(name), v.counted(), v.cells["checksum"], v.cells["orphans"], v.cells["duplicates"],
			v.cells["names"])
	}
	table.print(w)
	if len(sums.rows) > 1 {
		say(w, "\n")
		sums.print(w)
	}
	printColumns(w, plan, r)
	if len(r.Failed) > 0 {
		say(w, "\nWhat differs:\n")
	}
	for _, c := range r.Failed {
		where := plain(c.Table)
		if c.Server != "" {
			where += " of " + plain(c.Server)
		}
		if c.Detail != "" {
			where += ", " + plain(c.Detail)
		}
		say(w, "%s\n", wrap(fmt.Sprintf("%s: %s: %s, and it should be %s", c.What, where, number(c.Got),
			number(c.Want)), "  - "))
	}
	if r.OK {
		say(w, "\nAll is as it should be: %s in %s.\n", plural(int64(len(r.Checks)), "comparison"), spell(r.Took))
	}
	say(w, "Seal %s\n", r.Seal)
}

// note adds a comparison to the line of its table. A later success does not hide a failure.
func (v *verified) note(c merge.Comparison) {
	if c.What == "rows" || c.What == "empty" {
		n, _ := strconv.ParseInt(c.Got, 10, 64)
		v.rows, v.tallied, v.differ = v.rows+n, true, v.differ || !c.OK
		return
	}
	what, text := "checksum", "equal"
	good, own := map[string]string{"orphans": "none", "duplicates": "none", "names": "there"}[c.What]
	if own {
		what, text = c.What, good
	}
	if !c.OK {
		text = differs
	}
	if v.cells[what] != differs {
		v.cells[what] = text
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
	if !v.tallied { // of a table of the merge itself, what it says is compared
		return ""
	}
	if v.differ {
		return comma(v.rows) + " " + differs
	}
	return comma(v.rows)
}

// csvFile is a CSV file that "merge run" writes if a flag asks for it.
type csvFile struct{ flag, path, heading string }

// replaceable refuses a file that is not such a list, before the merge takes hours. The list of an
// earlier run is accepted, because a command that is repeated has the same flags.
func (l csvFile) replaceable() (err error) {
	other := fmt.Errorf("%w: %s: the file %s exists and is not such a list: choose another name", errRefused,
		l.flag, l.path)
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(l.path)); err != nil || !info.IsDir() {
			return usagef("merge run: %s: there is no directory %s", l.flag, filepath.Dir(l.path))
		}
		return nil
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: %s: %s is a directory: choose the name of a file", errRefused,
			l.flag, l.path)
	case err == nil && !info.Mode().IsRegular():
		return other
	}
	file, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("%s: %w", l.flag, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	first, err := bufio.NewReader(file).ReadString('\n')
	if first == l.heading || first == "" && errors.Is(err, io.EOF) {
		return nil
	}
	return other
}

// sameFile tells whether two paths name the same file. The file need not exist.
func sameFile(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return a == b && errA == nil && errB == nil
}

// write replaces the file atomically: a reader sees the old content or the complete new one.
func (l csvFile) write(fn func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(l.path), ".merge-*")
	if err != nil {
		return l.unwritten(err)
	}
	err = errors.Join(fn(file), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), l.path)
	}
	if err != nil {
		return errors.Join(l.unwritten(err), os.Remove(file.Name()))
	}
	return nil
}

func (l csvFile) unwritten(err error) error {
	return fmt.Errorf("all rows are merged, but %s cannot be written: %w: run the command again to write it",
		l.path, err)
}

// explain adds to an error how to continue, removes secrets, and decides the exit code.
func (m *merging) explain(ctx context.Context, name string, err error) error {
	switch {
	case err == nil, errors.Is(err, errUsage):
		return err
	case ctx.Err() != nil:
		said := "interrupted: nothing was changed"
		if name == "merge run" {
			said = "interrupted: the copied rows are kept, and nothing has to be undone: " + m.command("run") +
				" continues where it was"
		}
		return errs.Kind(said, err)
	}
	text := concise(err.Error()) + m.advice(name, err)
	if errors.Is(err, merge.ErrUndecided) { // the report lists what it is
		text = "something is undecided, so nothing was copied: decide it in " + m.path + ", and then " +
			"use " + m.command("check")
	}
	if errs.IsAny(err, merge.ErrUndecided, merge.ErrLocked, merge.ErrOtherPlan, merge.ErrSourceChanged) {
		text, err = errRefused.Error()+": "+text, fmt.Errorf("%w: %w", errRefused, err)
	}
	return errs.Kind(m.secrets.Clean(text), err)
}

// advice says what to do, if the error does not say so itself.
func (m *merging) advice(name string, err error) string {
	switch {
	case errors.Is(err, merge.ErrLocked):
		return ": wait until it ends; if no such process exists, end its connection on the database server"
	case errors.Is(err, merge.ErrNotRun) && !strings.Contains(err.Error(), "run again"):
		return ": " + m.command("run") + " comes first"
	case errors.Is(err, merge.ErrSourceChanged) && !strings.Contains(err.Error(), "drop the target"):
		return ": stop the process that writes there, drop the target, and start again"
	case name != "merge run":
		return ""
	case errors.Is(err, merge.ErrRow):
		return ": remove the constraint or trigger of the target that refuses it, and run again; or set " +
			"bad_rows: quarantine for the table, and start again with a fresh target"
	case errors.Is(err, merge.ErrDatabase):
		return ": correct the cause; then " + m.command("run") + " continues where it was"
	}
	return ""
}

// command writes a command with its plan, as one types it.
func (m *merging) command(name string) string {
	return fmt.Sprintf("\"snowflake merge %s %s\"", name, m.path)
}

// concise removes errors that only follow from an earlier one: after a connection is lost or a database has
// ended a transaction, everything else fails too.
func concise(text string) string {
	follows := []string{": driver: bad connection", ": cannot rollback - no transaction is active"}
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		said := len(kept) > 0 && slices.ContainsFunc(follows, func(end string) bool {
			return strings.HasSuffix(line, end)
		})
		for _, earlier := range kept {
			said = said || strings.HasSuffix(earlier, line)
		}
		if !said {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// mostLines is how many lines a terminal gets of one kind of problem, and of the conflicts in one key.
const mostLines = 20

// printProblems lists problems. A problem that several servers have is listed once. A remedy of several
// problems in a row is printed once, after the last of them. Of each kind, at most so many lines are printed;
// 0 is without a limit.
func printProblems(w io.Writer, problems []merge.Problem, most int) {
	type entry struct {
		text, remedy string
		code         merge.Code
		servers      []string
	}
	var all, shown []*entry
	known := map[string]*entry{}
	for _, p := range problems {
		server, remedy := plain(p.Server), plain(p.Remedy)
		p.Server, p.Remedy = "", ""
		text := strings.Replace(p.String(), fmt.Sprintf(" %d rows: ", p.Count), " "+comma(p.Count)+" rows: ", 1)
		text = plain(text) + " [" + string(p.Code) + "]"
		e := known[text]
		if e == nil {
			e = &entry{text: text, code: p.Code}
			known[text], all = e, append(all, e)
		}
		e.remedy, e.servers = remedy, append(e.servers, server)
	}
	var cut []merge.Code // kinds of which there is more
	lines, more, last := map[merge.Code]int{}, map[merge.Code]int64{}, map[merge.Code]string{}
	for _, e := range all {
		if names := strings.Trim(strings.Join(e.servers, ", "), ", "); names != "" {
			e.text = names + ": " + e.text
		}
		e.text = wrap(e.text, "  - ")
		n := 1 + strings.Count(e.text, "\n")
		if e.remedy != "" && e.remedy != last[e.code] {
			n += 1 + strings.Count(wrap(e.remedy, "    > "), "\n")
		}
		// The line that says how many there are more needs room as well.
		if most > 0 && lines[e.code] > 0 && (more[e.code] > 0 || lines[e.code]+n >= most) {
			if more[e.code]++; more[e.code] == 1 {
				cut = append(cut, e.code)
			}
			continue
		}
		lines[e.code], last[e.code] = lines[e.code]+n, e.remedy
		shown = append(shown, e)
	}
	for i, e := range shown {
		say(w, "%s\n", e.text)
		if again := i+1 < len(shown) && shown[i+1].remedy == e.remedy; e.remedy != "" && !again {
			say(w, "%s\n", wrap(e.remedy, "    > "))
		}
	}
	for _, code := range cut {
		say(w, "  - and %s more [%s]: see \"merge check --all\"\n", comma(more[code]), code)
	}
}
