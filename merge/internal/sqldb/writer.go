package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// Writer inserts rows into a table, many with each statement. It is not safe for concurrent use.
type Writer struct {
	d       *DB
	table   string // quoted
	columns []*Column
	Raw     bool
	replace bool      // rows take the place of those with an equal key; not on PostgreSQL
	full    *sql.Stmt // the statement for perStatement rows
	args    []any     // reused by the next statement
}

// maxStatementBytes keeps statements below the packet size that servers accept.
const maxStatementBytes = 2 << 20

// NewWriter returns a writer for some columns of a table. With raw, values are bound as they are.
func NewWriter(d *DB, name string, columns []*Column, raw bool) *Writer {
	return &Writer{d: d, table: d.Kind.Quote(name), columns: columns, Raw: raw}
}

// NewReplacer returns a writer whose rows take the place of those with an equal key. PostgreSQL has no such
// statement, and refuses them.
func NewReplacer(d *DB, name string, columns []*Column, raw bool) *Writer {
	w := NewWriter(d, name, columns, raw)
	w.replace = d.Kind != PostgreSQL
	return w
}

// Close releases the prepared statement.
func (w *Writer) Close() error {
	if w.full == nil {
		return nil
	}
	return w.d.failed(w.full.Close())
}

// perStatement returns how many rows one statement inserts. More rows than this bring no further gain.
func (w *Writer) perStatement() int {
	n := 1000
	if w.d.Kind == SQLite {
		n = 100
	}
	return max(1, min(n, maxParams(w.d.Kind)/max(1, len(w.columns))))
}

// Write inserts rows, whose values are in the order of the columns.
func (w *Writer) Write(ctx context.Context, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	if w.d.Kind == PostgreSQL {
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

// copyIn sends rows by COPY, if the driver can.
func (w *Writer) copyIn(ctx context.Context, rows [][]any) (bool, error) {
	_, err := CopyFrom(ctx, w.d, newCopyRows(w.columns, rows),
		"COPY "+w.table+" ("+w.d.Kind.QuoteAll(ColumnNames(w.columns))+") FROM STDIN")
	if errors.Is(err, errNoCopy) {
		return false, nil
	}
	return true, err
}

// fitting returns how many of the rows fit into one statement.
func (w *Writer) fitting(rows [][]any) int {
	if w.d.Kind == SQLite {
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

func (w *Writer) insert(ctx context.Context, rows [][]any, full bool) error {
	args := w.args[:0]
	for _, values := range rows {
		for i, v := range values {
			args = append(args, Adapt(w.d.Kind, v, w.columns[i], w.Raw))
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

// text returns the statement for n rows.
func (w *Writer) text(n int) string {
	var b strings.Builder
	verb := "INSERT INTO "
	if w.replace {
		verb = "REPLACE INTO "
	}
	b.WriteString(verb + w.table + " (" + w.d.Kind.QuoteAll(ColumnNames(w.columns)) + ") VALUES ")
	if w.d.Kind == PostgreSQL {
		// Values of a GENERATED ALWAYS AS IDENTITY column are copied too.
		b.Reset()
		b.WriteString("INSERT INTO " + w.table + " (" + w.d.Kind.QuoteAll(ColumnNames(w.columns)) +
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
			if w.d.Kind == PostgreSQL {
				b.WriteString("CAST(" + PostgreSQL.Bind(k) + " AS " + c.Declared + ")")
			} else {
				b.WriteByte('?')
			}
		}
		b.WriteByte(')')
	}
	return b.String()
}

// ColumnNames returns the names of columns.
func ColumnNames(columns []*Column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}
