package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

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
		return &hidden{text: said, err: err}
	}
	text := concise(err.Error()) + m.advice(name, err)
	if errors.Is(err, merge.ErrUndecided) { // the report lists what it is
		text = "something is undecided, so nothing was copied: decide it in " + m.path + ", and then " +
			"use " + m.command("check")
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
