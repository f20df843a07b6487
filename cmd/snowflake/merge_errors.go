package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// ended says how a merge command ended, and what to do about it.
func (m *merging) ended(ctx context.Context, name string, err error) error {
	switch {
	case err == nil, errors.Is(err, errUsage):
		return err
	case ctx.Err() != nil:
		said := "interrupted: nothing was changed by it"
		if name == "merge run" {
			said = "interrupted. What was copied is kept, nothing has to be undone: " + m.command("run") +
				" goes on where it ended"
		}
		return &hidden{text: said, err: err}
	}
	text := concise(err.Error()) + m.advice(name, err)
	if errors.Is(err, merge.ErrUndecided) { // the report has said what it is
		text = "something is undecided, so nothing was copied: decide it in " + m.path + ", and look again " +
			"with " + m.command("check")
	}
	for _, refusal := range []error{
		merge.ErrUndecided, merge.ErrLocked, merge.ErrOtherPlan, merge.ErrSourceChanged,
	} {
		if errors.Is(err, refusal) {
			text, err = errRefused.Error()+": "+text, fmt.Errorf("%w: %w", errRefused, err)
			break
		}
	}
	return m.secrets.hide(&hidden{text, err})
}

// advice is what to do, where the error does not say it itself.
func (m *merging) advice(name string, err error) string {
	switch {
	case errors.Is(err, merge.ErrLocked):
		return ": wait for it, or, if there is none, end its connection on the database server"
	case errors.Is(err, merge.ErrNotRun) && !strings.Contains(err.Error(), "run again"):
		return ": " + m.command("run") + " comes first"
	case errors.Is(err, merge.ErrSourceChanged) && !strings.Contains(err.Error(), "begin anew"):
		return ": stop what writes there, drop the target and begin anew"
	case name != "merge run":
		return ""
	case errors.Is(err, merge.ErrRow):
		return ": take away what refuses it in the target, a constraint or a trigger, and run again; or say " +
			"bad_rows: quarantine for the table, and begin anew on a fresh target"
	case errors.Is(err, merge.ErrDatabase):
		return ": see to it, and " + m.command("run") + " goes on where it ended"
	}
	return ""
}

// command is a command as one types it.
func (m *merging) command(name string) string {
	return fmt.Sprintf("\"snowflake merge %s %s\"", name, m.path)
}

// concise leaves out what follows from what was said before: what else fails on the way out, once
// a connection is lost or a database has ended a transaction.
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
