package merge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// The states of a run, in merge_run. No row is the state of a fresh target.
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

const (
	runColumns     = "id INTEGER NOT NULL PRIMARY KEY, plan VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL"
	journalColumns = "step VARCHAR(16) NOT NULL, tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, " +
		"expected BIGINT NOT NULL, fingerprint VARCHAR(700) NOT NULL, position VARCHAR(2000) NOT NULL, " +
		"rows_read BIGINT NOT NULL, rows_written BIGINT NOT NULL, done INTEGER NOT NULL, " +
		"PRIMARY KEY (step, tbl, server)"
	serversColumns = "number BIGINT NOT NULL PRIMARY KEY, name VARCHAR(200) NOT NULL, " +
		"merged_into BIGINT NOT NULL, target VARCHAR(200) NOT NULL"
	quarantineColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(512) NOT NULL, " +
		"reason VARCHAR(2000) NOT NULL, contents TEXT NOT NULL, PRIMARY KEY (tbl, server, row_key)"
)

// runState is what merge_run says.
type runState struct{ name, plan string }

// state reads how far the target is.
func (m *Merge) state(ctx context.Context) (runState, error) {
	exists, err := m.target.hasTable(ctx, tableRun)
	if err != nil || !exists {
		return runState{}, err
	}
	var s runState
	err = m.target.row(ctx, newStatement(m.target.kind, "SELECT state, plan FROM ",
		m.target.kind.quote(tableRun)),
		&s.name, &s.plan)
	if errors.Is(err, sql.ErrNoRows) {
		return runState{}, nil // a run died before it had decided anything
	}
	return s, err
}

func (d *database) hasTable(ctx context.Context, name string) (bool, error) {
	q := newStatement(d.kind)
	switch d.kind {
	case SQLite:
		q.add("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ").bind(name)
	case MySQL:
		q.add("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name " +
			"= ").bind(name)
	case PostgreSQL:
		q.add("SELECT COUNT(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname " +
			"= ").bind(name)
	}
	n, err := d.number(ctx, q)
	return n > 0, err
}

func (m *Merge) setState(ctx context.Context, state string) error {
	q := newStatement(m.target.kind, "UPDATE ", m.target.kind.quote(tableRun), " SET state = ").bind(state)
	_, err := m.target.run(ctx, q)
	return err
}

// makeTables makes the tables of the merge in the target.
func (m *Merge) makeTables(ctx context.Context) error {
	for _, t := range []struct{ name, columns string }{
		{tableRun, runColumns}, {tableJournal, journalColumns}, {tableRenames, renamesColumns},
		{tableDrops, dropsColumns}, {tableValues, valuesColumns}, {tableServers, serversColumns},
		{tableQuarantine, quarantineColumns},
	} {
		if err := m.target.exec(ctx, m.ddl(t.name, t.columns, false)); err != nil {
			return err
		}
	}
	return nil
}

// decide writes down everything that follows from the check, in one transaction: from here on the plan,
// the decisions and the sources are fixed.
func (m *Merge) decide(ctx context.Context, check *CheckReport) error {
	if err := m.makeTables(ctx); err != nil {
		return err
	}
	k := m.target.kind
	return m.target.transaction(ctx, func() error {
		if err := m.d.keep(ctx); err != nil {
			return err
		}
		for _, w := range m.order {
			for _, f := range w.feeds {
				if f == nil {
					continue
				}
				if err := m.expect(ctx, w, f, check); err != nil {
					return err
				}
			}
		}
		for _, s := range m.mergedServers() {
			q := newStatement(k, "INSERT INTO ", k.quote(tableServers),
				" (number, name, merged_into, target) VALUES (").
				bindList(s.Number, s.Name, s.MergedInto, s.Target).add(")")
			if _, err := m.target.run(ctx, q); err != nil {
				return err
			}
		}
		q := newStatement(k, "INSERT INTO ", k.quote(tableRun), " (id, plan, state) VALUES (").
			bindList(int64(1), m.plan.Hash(), stateDecided).add(")")
		_, err := m.target.run(ctx, q)
		return err
	})
}

// expect opens the journal for a feed.
func (m *Merge) expect(ctx context.Context, w *work, f *feed, check *CheckReport) error {
	s := m.servers[f.server]
	fingerprint, err := m.fingerprint(ctx, f)
	if err != nil {
		return err
	}
	steps := []string{stepCopy}
	if len(m.late(w)) > 0 {
		steps = append(steps, stepFill)
	}
	for _, step := range steps {
		q := newStatement(m.target.kind, "INSERT INTO ", m.target.kind.quote(tableJournal),
			" (step, tbl, server, "+
				"expected, fingerprint, position, rows_read, rows_written, done) VALUES (").
			bindList(step, w.name, s.Number, check.table(w.name, w.plan.Policy).Rows[s.Name], fingerprint, "",
				int64(0), int64(0), int64(0)).add(")")
		if _, err := m.target.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (m *Merge) mergedServers() []MergedServer {
	var all []MergedServer
	for _, s := range m.servers {
		for _, number := range s.numbers {
			all = append(all, MergedServer{Number: number, Name: s.Name,
				MergedInto: m.plan.Target.Number, Target: m.plan.Target.Name})
		}
	}
	return all
}

// entry is a row of the journal.
type entry struct {
	step          string
	of            tableServer
	expected      int64
	fingerprint   string
	after         []any
	read, written int64
	done          bool
}

// journal reads the journal.
func (m *Merge) journal(ctx context.Context) (map[string]map[tableServer]*entry, error) {
	all := map[string]map[tableServer]*entry{stepCopy: {}, stepFill: {}}
	rows, err := m.target.strings(ctx, newStatement(m.target.kind,
		"SELECT step, tbl, server, expected, fingerprint, "+
			"position, rows_read, rows_written, done FROM ", m.target.kind.quote(tableJournal)))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		e := &entry{step: row[0], fingerprint: row[4], done: row[8] != "0"}
		e.of.table = row[1]
		if _, err := fmt.Sscan(row[2]+" "+row[3]+" "+row[6]+" "+row[7], &e.of.server, &e.expected, &e.read,
			&e.written); err != nil {
			return nil, fmt.Errorf("the journal cannot be read: %w", err)
		}
		if e.after, err = readCursor(row[5]); err != nil {
			return nil, err
		}
		if all[e.step] == nil {
			return nil, fmt.Errorf("the journal has a step %q that this program does not know", e.step)
		}
		all[e.step][e.of] = e
	}
	return all, nil
}

// record writes an entry of the journal; it is part of the transaction of the chunk.
func (m *Merge) record(ctx context.Context, e *entry) error {
	position, err := writeCursor(e.after)
	if err != nil {
		return err
	}
	if e.after == nil {
		position = ""
	}
	done := int64(0)
	if e.done {
		done = 1
	}
	q := newStatement(m.target.kind, "UPDATE ", m.target.kind.quote(tableJournal), " SET position = ").
		bind(position).
		add(", rows_read = ").bind(e.read).add(", rows_written = ").bind(e.written).add(", done = ").bind(done).
		add(" WHERE step = ").bind(e.step).add(" AND tbl = ").bind(e.of.table).add(" AND server = ").
		bind(e.of.server)
	_, err = m.target.run(ctx, q)
	return err
}

// recorded is record, and a point at which tests end the process.
func (m *Merge) recorded(ctx context.Context, e *entry) error {
	err := m.record(ctx, e)
	m.reach("recorded")
	return err
}

// reach tells tests where the run is.
func (m *Merge) reach(point string) {
	if m.fault != nil {
		m.fault(point)
	}
}
