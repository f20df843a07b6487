package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func mergePlanCommand() command {
	return command{
		name: "merge plan", args: "FILE", short: "draft the plan of a merge for review",
		help: `
Reads the tables of all databases and writes a plan to a new file. The plan has a policy for every table,
guessed from its keys and from what is in them, and a note with the reason. A drafted policy keeps every row:
copy or rename, with renumbered keys or without. Where that may not be what is wanted, the policy is
"undecided", and the note lists what there is to choose from. Somebody who knows the game must decide these
tables before anything runs, and the lines with REVIEW. Read the other lines too. The command copies no rows.
It refuses an existing file (exit code 3), and only you can read the new one.

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
			jsonFlag(set, o)
			set.StringVar(&o.layout, "layout", "", "the layout of the IDs: a `NAME` from \"snowflake layout\"")
			set.Var(&o.merge.servers, "server", "a `SOURCE` as [NAME:]NUMBER=DSN; repeat the flag for each server")
			set.StringVar(&o.merge.target, "target", "", "the `TARGET` as [NAME:]NUMBER=DSN")
			set.StringVar(&o.merge.from, "from", "", "take the servers, layout and known tables from a `PLAN`")
		},
		run: runMergePlan,
	}
}

func runMergePlan(ctx context.Context, e *env, o *options, args []string) error {
	const name = "merge plan"
	path, err := planPath(name, args)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: the file %s exists and may have been reviewed: choose another name",
			errRefused, path)
	}
	plan, err := outline(name, o)
	if err != nil {
		return err
	}
	m := &merging{plan: plan, path: path, secrets: secretsOf(plan)}
	drafted, err := merge.Draft(ctx, plan, merge.WithOpener(openDatabase))
	if err != nil {
		return m.explain(ctx, name, err)
	}
	if err := drafted.Save(path); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", errRefused, err)
	} else if err != nil {
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
	if f.from != "" {
		if len(f.servers) > 0 || f.target != "" || o.layout != "" {
			return nil, usagef("%s: --from excludes --server, --target and --layout: the plan has them", name)
		}
		plan, err := merge.Load(f.from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("%s: there is no file %s", name, f.from)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.from, err)
		}
		return plan, nil
	}
	switch {
	case len(f.servers) == 0:
		return nil, usagef("%s: the servers are missing: give --server NUMBER=DSN for each, or --from PLAN", name)
	case f.target == "":
		return nil, usagef("%s: the target is missing: give --target NUMBER=DSN", name)
	case o.layout == "":
		return nil, usagef("%s: the layout is missing: give --layout NAME; \"snowflake layout\" lists them", name)
	}
	layout, err := layoutOf(o.layout)
	if err != nil {
		return nil, err
	}
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: strings.ToLower(layout.name)}}
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
	left, dsn, ok := strings.Cut(text, "=")
	if !ok || dsn == "" {
		return s, false
	}
	s.DSN = dsn
	if at := strings.LastIndex(left, ":"); at >= 0 {
		s.Name, left = left[:at], left[at+1:]
	}
	for i, digits := range strings.Split(left, ",") {
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil || n < 0:
			return s, false
		case i == 0:
			s.Number = n
		default:
			s.Also = append(s.Also, n)
		}
	}
	s.Name = cmp.Or(s.Name, fmt.Sprintf("s%d", s.Number))
	return s, true
}

// literalPasswords names the databases whose DSN in the plan contains a password.
func literalPasswords(plan *merge.Plan) (names []string) {
	for _, s := range plan.Servers {
		if len(passwordsOf(s.DSN)) > 0 {
			names = append(names, plain(s.Name))
		}
	}
	if len(passwordsOf(plan.Target.DSN)) > 0 {
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
