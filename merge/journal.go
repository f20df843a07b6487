package merge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// The states of a run in merge_run. A fresh target has no row there.
const (
	stateDecided = "decided"
	stateCopied  = "copied"
	stateFilled  = "filled"
	stateDone    = "done"
)

// The steps in the journal.
const (
	stepCopy = "copy"
	stepFill = "fill"
)

// journal is the record of a run in the target: its state, and the progress of every table.
type journal struct {
	target    *sqldb.DB
	failpoint func(point string)
}

// runState is the row of merge_run.
type runState struct{ name, plan string }

// state reads the state of the target.
func (jr *journal) state(ctx context.Context) (runState, error) {
	for name := range jr.target.Tables { // which has the tables of the game only
		if strings.EqualFold(name, tableRun) && needed(jr.target.Kind, name) {
			return runState{}, nil // check reports it
		}
	}
	exists, err := jr.target.HasTable(ctx, tableRun)
	if err != nil || !exists {
		return runState{}, err
	}
	var s runState
	err = jr.target.Row(ctx, sqldb.NewStatement(jr.target.Kind, "SELECT state, plan FROM ",
		jr.target.Kind.Quote(tableRun)),
		&s.name, &s.plan)
	if errors.Is(err, sql.ErrNoRows) {
		return runState{}, nil // a run ended before it had decided anything
	}
	return s, err
}

func (jr *journal) setState(ctx context.Context, state string) error {
	q := sqldb.NewStatement(jr.target.Kind, "UPDATE ", jr.target.Kind.Quote(tableRun), " SET state = ").
		Bind(state)
	_, err := jr.target.Run(ctx, q)
	return err
}

// makeTables makes the tables of the merge.
func (jr *journal) makeTables(ctx context.Context) error {
	for _, t := range ownTables() {
		if err := jr.target.Exec(ctx, ddl(jr.target.Kind, t.name, t.columns, false)); err != nil {
			return err
		}
	}
	return nil
}

// entry is a row of the journal: the progress of one step for one table of one server.
type entry struct {
	step          string
	of            tableServer
	expected      int64
	fingerprint   string
	read, written int64
	done          bool
}

// all returns how many rows the table had when the merge was decided, by its fingerprint.
func (e *entry) all() (n int64, err error) {
	if _, err = fmt.Sscanf(e.fingerprint, "%d rows", &n); err != nil {
		return 0, fmt.Errorf("the journal cannot be read: %w", err)
	}
	return n, nil
}

// entries reads the journal.
func (jr *journal) entries(ctx context.Context) (map[string]map[tableServer]*entry, error) {
	all := map[string]map[tableServer]*entry{stepCopy: {}, stepFill: {}}
	rows, err := jr.target.Strings(ctx, sqldb.NewStatement(jr.target.Kind,
		"SELECT step, tbl, server, expected, fingerprint, "+
			"rows_read, rows_written, done FROM ", jr.target.Kind.Quote(tableJournal)))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		e := &entry{step: row[0], fingerprint: row[4], done: row[7] != "0"}
		e.of.table = row[1]
		if _, err := fmt.Sscan(row[2]+" "+row[3]+" "+row[5]+" "+row[6], &e.of.server, &e.expected, &e.read,
			&e.written); err != nil {
			return nil, fmt.Errorf("the journal cannot be read: %w", err)
		}
		if all[e.step] == nil {
			return nil, fmt.Errorf("the journal has a step %q that this program does not know", e.step)
		}
		all[e.step][e.of] = e
	}
	return all, nil
}

// record writes an entry, in the transaction of its chunk.
func (jr *journal) record(ctx context.Context, e *entry) error {
	done := int64(0)
	if e.done {
		done = 1
	}
	q := sqldb.NewStatement(jr.target.Kind, "UPDATE ", jr.target.Kind.Quote(tableJournal), " SET rows_read = ").
		Bind(e.read).Add(", rows_written = ").Bind(e.written).Add(", done = ").Bind(done).
		Add(" WHERE step = ").Bind(e.step).Add(" AND tbl = ").Bind(e.of.table).Add(" AND server = ").
		Bind(e.of.server)
	_, err := jr.target.Run(ctx, q)
	return err
}

// recorded is record followed by a failpoint.
func (jr *journal) recorded(ctx context.Context, e *entry) error {
	err := jr.record(ctx, e)
	jr.failpoint("recorded")
	return err
}
