package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strconv"
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

// Close releases the prepared statement.
func (w *Writer) Close() error {
	if w.full == nil {
		return nil
	}
	return w.d.failed(w.full.Close())
}

// perStatement returns how many rows one statement inserts. More rows bring no further gain, and a statement
// may not bind more values.
func (w *Writer) perStatement() int {
	rows, values := 1000, 65_000
	if w.d.Kind == SQLite {
		rows, values = 100, 32_000
	}
	return max(1, min(rows, values/max(1, len(w.columns))))
}

// Write inserts rows, whose values are in the order of the columns.
func (w *Writer) Write(ctx context.Context, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	if w.d.Kind == PostgreSQL {
		_, err := CopyFrom(ctx, w.d, &copyRows{columns: w.columns, rows: rows,
			escapes: strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)},
			"COPY "+w.table+" ("+w.d.Kind.QuoteAll(ColumnNames(w.columns))+") FROM STDIN")
		if !errors.Is(err, errNoCopy) {
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

// fitting returns how many of the rows fit into one statement.
func (w *Writer) fitting(rows [][]any) int {
	if w.d.Kind == SQLite {
		return len(rows)
	}
	total := 0
	for i, values := range rows {
		if total += SizeOf(values); total > maxStatementBytes && i > 0 {
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
	verb, always := "INSERT INTO ", ""
	switch {
	case w.replace:
		verb = "REPLACE INTO "
	case w.d.Kind == PostgreSQL:
		always = " OVERRIDING SYSTEM VALUE" // as a GENERATED ALWAYS AS IDENTITY column needs it
	}
	var b strings.Builder
	b.WriteString(verb + w.table + " (" + w.d.Kind.QuoteAll(ColumnNames(w.columns)) + ")" + always + " VALUES ")
	for i := range n {
		between := "("
		if i > 0 {
			between = ", ("
		}
		for j, c := range w.columns {
			b.WriteString(between)
			if between = ", "; w.d.Kind == PostgreSQL {
				// A cast to varchar(3) would cut a longer text, which the INSERT refuses.
				b.WriteString("CAST(" + PostgreSQL.Bind(i*len(w.columns)+j+1) + " AS " +
					cmp.Or(c.unlimited, c.Declared) + ")")
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
	return Mapped(columns, func(c *Column) string { return c.Name })
}

// copyRows is an io.Reader of rows in the text format of COPY. It encodes rows while the server works on
// those before them.
type copyRows struct {
	columns []*Column
	rows    [][]any
	escapes *strings.Replacer
	buffer  []byte
	read    int // how much of buffer
}

// copyBuffer is how many bytes are encoded at a time: as many as the driver sends at once.
const copyBuffer = 64 << 10

// Read implements io.Reader.
func (r *copyRows) Read(p []byte) (int, error) {
	if r.read == len(r.buffer) {
		r.buffer, r.read = r.buffer[:0], 0
	}
	for len(r.rows) > 0 && len(r.buffer) < copyBuffer {
		r.buffer = r.append(r.buffer, r.rows[0])
		r.rows = r.rows[1:]
	}
	if r.read == len(r.buffer) {
		return 0, io.EOF
	}
	n := copy(p, r.buffer[r.read:])
	r.read += n
	return n, nil
}

// append appends a row.
func (r *copyRows) append(b []byte, values []any) []byte {
	for i, v := range values {
		if i > 0 {
			b = append(b, '\t')
		}
		switch v := v.(type) {
		case nil:
			b = append(b, `\N`...)
			continue
		case int64:
			if r.columns[i].Family == FamilyInt {
				b = strconv.AppendInt(b, v, 10)
				continue
			}
		case []byte:
			if r.columns[i].Family == FamilyBytes {
				b = hex.AppendEncode(append(b, `\\x`...), v)
				continue
			}
		case string:
			if r.columns[i].Family != FamilyBytes && !r.columns[i].zoned() {
				b = append(b, r.escapes.Replace(v)...)
				continue
			}
		}
		b = append(b, r.escapes.Replace(postgresText(v, r.columns[i]))...)
	}
	return append(b, '\n')
}

// COPY is not part of database/sql. The driver pgx offers it below: its connection has a method Conn, whose
// result has a method PgConn, whose result has CopyFrom and CopyTo. These methods are found by reflection, so
// that this package imports no driver. Other drivers insert rows by INSERT.

// errNoCopy says that the driver does not offer COPY.
var errNoCopy = errors.New("merge: the driver has no COPY")

// copyMethod finds CopyFrom or CopyTo of pgx's own connection. The result is not valid if there is none of
// that form.
func copyMethod(driver any, name, stream string) (method reflect.Value) {
	v := reflect.ValueOf(driver)
	for _, step := range []struct{ name, form string }{
		{"Conn", "func() *pgx.Conn"}, {"PgConn", "func() *pgconn.PgConn"},
		{name, "func(context.Context, " + stream + ", string) (pgconn.CommandTag, error)"},
	} {
		if method.IsValid() {
			v = method.Call(nil)[0]
		}
		if method = v.MethodByName(step.name); !method.IsValid() || method.Type().String() != step.form {
			return reflect.Value{}
		}
	}
	return method
}

// CopyFrom runs COPY FROM STDIN.
func CopyFrom(ctx context.Context, d *DB, from io.Reader, text string) (int64, error) {
	return runCopy(ctx, d, "CopyFrom", "io.Reader", from, text)
}

// CopyTo runs COPY TO STDOUT.
func CopyTo(ctx context.Context, d *DB, out io.Writer, text string) (int64, error) {
	return runCopy(ctx, d, "CopyTo", "io.Writer", out, text)
}

func runCopy(ctx context.Context, d *DB, name, form string, stream any, text string) (n int64, err error) {
	// Errors are returned beside those of Raw: for one that Raw returned, database/sql would close the
	// connection if the driver calls it bad.
	raw := d.conn.Raw(func(driver any) error {
		method := copyMethod(driver, name, form)
		if !method.IsValid() {
			err = errNoCopy
			return nil
		}
		out := method.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(stream), reflect.ValueOf(text)})
		if tag, ok := out[0].Interface().(interface{ RowsAffected() int64 }); ok {
			n = tag.RowsAffected()
		}
		failure, _ := out[1].Interface().(error)
		err = d.failed(failure)
		return nil
	})
	return n, cmp.Or(d.failed(raw), err)
}

// CanCopy reports whether the driver offers COPY.
func CanCopy(d *DB) (ok bool) {
	err := d.conn.Raw(func(driver any) error {
		ok = copyMethod(driver, "CopyFrom", "io.Reader").IsValid()
		return nil
	})
	return ok && err == nil
}
