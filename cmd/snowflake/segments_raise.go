package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

func segmentsRaiseCommand() command {
	return command{
		name: "segments raise", args: "NAME NEXT", short: "make a counter go on from a higher number",
		help: `
Makes a counter go on from NEXT, so that no number below NEXT is claimed any more. A counter that is beyond
NEXT already is left as it is. Use it when numbers are in use that the counter does not know of: the database
was restored from an older backup, it failed over to a replica that lagged behind, or rows were imported.

Find the greatest number in use in every table that has numbers of the counter, in logs and in other systems,
and give a NEXT above it. A counter can never be lowered again, so look with --dry-run first. Processes that
run go on with the numbers that they have claimed. If those can be numbers that are in use, restart the
processes after the counter was raised.

A counter that is not there is an error, because its name may be mistyped. --create makes it.
` + dsnHelp + `

  snowflake segments raise orders 5000 --dsn "$DSN" --dry-run
  snowflake segments raise orders 5000 --dsn "$DSN"
  snowflake segments raise receipts 1 --create`,
		flags: func(set *flag.FlagSet, o *options) {
			segmentFlags(set, o)
			dryRunFlag(set, o)
			set.BoolVar(&o.create, "create", false, "make the counter if it is not there, and its table")
		},
		run: runSegmentsRaise,
	}
}

// raised is the result of "segments raise" in JSON.
type raised struct {
	Before  *counterInfo `json:"before"` // null if there was no counter
	After   *counterInfo `json:"after"`  // null if nothing was changed, because it was only a look
	Changes bool         `json:"changes"`
	DryRun  bool         `json:"dry_run"`
}

func runSegmentsRaise(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) != 2 {
		return usagef("segments raise: exactly two arguments are needed: the name of the counter and its next " +
			"number")
	}
	name := args[0]
	next, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil || next < 1 || next > lastNumber {
		return usagef("segments raise: %q is not a number from 1 to %d", args[1], int64(lastNumber))
	}
	if err := segment.CheckName(name); err != nil {
		return usagef("segments raise: %s", err)
	}
	store, done, err := openCounters(ctx, cmp.Or(o.dsn, e.getenv(dsnVariable)), o.table, o.create && !o.dryRun)
	if errors.Is(err, errNoTable) && o.create {
		return printRaised(e, o, raised{Changes: true, DryRun: true}, name, next) // the table would be made, too
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	before, found, err := counterOf(ctx, store, name)
	if err != nil {
		return err
	}
	if !found && !o.create {
		return fmt.Errorf("%w; --create makes it", noCounter(name, o.table))
	}
	result := raised{Changes: next > before.Next, DryRun: o.dryRun}
	if found {
		info := newCounterInfo(before)
		result.Before = &info
	}
	if !o.dryRun {
		if err := segment.Raise(ctx, store, name, next); err != nil {
			return err
		}
		after, _, err := counterOf(ctx, store, name)
		if err != nil {
			return err
		}
		info := newCounterInfo(after)
		result.After = &info
	}
	return printRaised(e, o, result, name, next)
}

func printRaised(e *env, o *options, r raised, name string, next int64) error {
	if o.json {
		return printJSON(e.out, r)
	}
	say(e.out, "%s", r.text(plain(name), next))
	return nil
}

// text says what was done, or what would be.
func (r raised) text(name string, next int64) string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	verb := "now goes"
	if r.DryRun {
		verb = "would go"
	}
	text := "Counter " + name + " " + verb + " on from " + number(next)
	switch {
	case !r.Changes:
		text = "Counter " + name + " is at " + number(r.Before.Next) + " already. Nothing is to be done"
	case r.Before == nil:
		text += ". It is new"
	default:
		before := r.Before.Next
		text += ". It was at " + number(before) + ", so it skips " + number(next-before) + " numbers"
	}
	if r.Before != nil && r.Before.State == stateFrozen {
		text += ". It is frozen: no number is claimed before \"snowflake segments residues\" has succeeded"
	}
	return text + ".\n"
}
