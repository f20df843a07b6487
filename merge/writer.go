package merge

import (
	"context"
	"database/sql"
	"strings"
)

// writer puts rows into a table of the target, many with one statement.
type writer struct {
	d       *database
	table   string // quoted
	columns []*column
	raw     bool
	full    *sql.Stmt // for as many rows as perStatement
	args    []any     // of one statement, to be used again
}

// maxStatementBytes keeps a statement below the packets that servers take.
const maxStatementBytes = 2 << 20

func newWriter(d *database, name string, columns []*column, raw bool) *writer {
	return &writer{d: d, table: d.kind.quote(name), columns: columns, raw: raw}
}

func (w *writer) close() error {
	if w.full == nil {
		return nil
	}
	return w.full.Close()
}

// perStatement is how many rows one statement has; the numbers are where the gain ends.
func (w *writer) perStatement() int {
	n := 1000
	if w.d.kind == SQLite {
		n = 100
	}
	return max(1, min(n, w.d.kind.maxParams()/max(1, len(w.columns))))
}

// write inserts rows.
func (w *writer) write(ctx context.Context, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	if w.d.kind == PostgreSQL {
		done, err := w.copyIn(ctx, rows)
		if done || err != nil {
			return err
		}
	}
	size := w.perStatement()
	for len(rows) > 0 {
		n := w.fitting(rows[:min(size, len(rows))])
		if err := w.insert(ctx, rows[:n], n == size); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// fitting is how many of the rows fit into one statement.
func (w *writer) fitting(rows [][]any) int {
	if w.d.kind == SQLite {
		return len(rows)
	}
	total := 0
	for i, values := range rows {
		for _, v := range values {
			switch v := v.(type) {
			case string:
				total += len(v)
			case []byte:
				total += len(v)
			default:
				total += 8
			}
		}
		if total > maxStatementBytes && i > 0 {
			return i
		}
	}
	return len(rows)
}

func (w *writer) insert(ctx context.Context, rows [][]any, full bool) error {
	args := w.args[:0]
	for _, values := range rows {
		for i, v := range values {
			args = append(args, w.d.kind.adapt(v, w.columns[i], w.raw))
		}
	}
	w.args = args
	if !full {
		_, err := w.d.conn.ExecContext(ctx, w.text(len(rows)), args...)
		return w.d.failed(err)
	}
	if w.full == nil {
		var err error
		if w.full, err = w.d.conn.PrepareContext(ctx, w.text(len(rows))); err != nil {
			return w.d.failed(err)
		}
	}
	_, err := w.full.ExecContext(ctx, args...)
	return w.d.failed(err)
}

// text is the statement for n rows.
func (w *writer) text(n int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + w.table + " (" + w.d.kind.list(namesOf(w.columns)) + ") VALUES ")
	if w.d.kind == PostgreSQL {
		// A value given by GENERATED ALWAYS AS IDENTITY is one to keep.
		b.Reset()
		b.WriteString("INSERT INTO " + w.table + " (" + w.d.kind.list(namesOf(w.columns)) +
			") OVERRIDING SYSTEM VALUE VALUES ")
	}
	k := 0
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for j, c := range w.columns {
			if j > 0 {
				b.WriteString(", ")
			}
			k++
			if w.d.kind == PostgreSQL {
				b.WriteString("CAST(" + placeholder(PostgreSQL, k) + " AS " + c.declared + ")")
			} else {
				b.WriteByte('?')
			}
		}
		b.WriteByte(')')
	}
	return b.String()
}

func namesOf(columns []*column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return names
}
