package verify

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// kind is a kind of database. MySQL stands for MariaDB too.
type kind int

const (
	sqlite kind = iota
	mysql
	postgres
)

// quote returns a name as an identifier.
func (k kind) quote(name string) string {
	mark := `"`
	if k == mysql {
		mark = "`"
	}
	return mark + strings.ReplaceAll(name, mark, mark+mark) + mark
}

// placeholder returns the mark of the n-th value of a statement, from 1.
func (k kind) placeholder(n int) string {
	if k == postgres {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// database is a connection that only reads, and the catalog of its database.
type database struct {
	Server
	kind   kind
	tidb   bool // of the kind mysql
	pool   *sql.DB
	conn   *sql.Conn
	tables map[string]*relation
}

// open opens a database, prepares its session and reads its catalog. No error holds what the opener knows.
func open(ctx context.Context, s Server) (_ *database, err error) {
	d := &database{Server: s}
	if d.pool, err = s.Open(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", s.Name, err), d.close())
		}
	}()
	if d.conn, err = d.pool.Conn(ctx); err != nil {
		return nil, errors.New("it cannot be reached any more")
	}
	var version string
	switch {
	case d.conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) == nil:
		d.kind = sqlite
	default:
		if err := d.conn.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
			return nil, err
		}
		if d.kind = mysql; strings.HasPrefix(version, "PostgreSQL") {
			d.kind = postgres
		}
	}
	d.tidb = strings.Contains(version, "TiDB")
	for _, setting := range d.kind.session() {
		// TiDB has no sessions that only read. It can be the target only, and nothing here writes.
		if setting == mysqlReadOnly && d.tidb {
			continue
		}
		if _, err := d.conn.ExecContext(ctx, setting); err != nil {
			return nil, err
		}
	}
	d.tables, err = d.catalog(ctx)
	return d, err
}

// mysqlMode makes MariaDB forget what a subquery returned: it takes texts for one that the subquery tells
// apart.
const mysqlMode = "SET SESSION sql_mode = '' /*M! , optimizer_switch = 'subquery_cache=off' */"

const mysqlReadOnly = "SET SESSION TRANSACTION READ ONLY"

// session returns the settings by which values are read as they are, and nothing can be written.
func (k kind) session() []string {
	switch k {
	case mysql:
		return []string{
			"SET SESSION time_zone = '+00:00'", mysqlMode,
			mysqlReadOnly,
		}
	case postgres:
		return []string{
			"SET TimeZone = 'UTC'", "SET DateStyle = 'ISO, YMD'", "SET IntervalStyle = 'postgres'",
			"SET extra_float_digits = 3", "SET bytea_output = 'hex'", "SET standard_conforming_strings = on",
			"SET statement_timeout = 0", "SET row_security = off",
			"SET default_transaction_read_only = on",
		}
	}
	return []string{"PRAGMA busy_timeout = 10000", "PRAGMA query_only = 1"}
}

func (d *database) close() error {
	var err error
	if d.conn != nil {
		// The settings must not follow a connection into a pool that somebody else uses.
		if err = d.conn.Raw(func(any) error { return driver.ErrBadConn }); errors.Is(err, driver.ErrBadConn) ||
			errors.Is(err, sql.ErrConnDone) {
			err = nil
		}
		if closed := d.conn.Close(); !errors.Is(closed, sql.ErrConnDone) {
			err = errors.Join(err, closed)
		}
	}
	if d.Shared != nil && d.Shared(d.pool) {
		return err
	}
	return errors.Join(err, d.pool.Close())
}

// each calls fn for every row of a result. The values belong to the driver, and are valid during the call
// only.
func (d *database) each(ctx context.Context, text string, args []any, fn func(values []any) error) error {
	return d.read(ctx, ctx, text, args, fn)
}

// steadily is each for a statement that returns row after row without long pauses, so that it is enough to
// look at the context between them. The usual driver of SQLite starts a goroutine for every row of a
// statement whose context can end, which would take as long as reading the row.
func (d *database) steadily(ctx context.Context, text string, fn func(values []any) error) error {
	asked := ctx
	if d.kind == sqlite {
		asked = context.WithoutCancel(ctx)
	}
	return d.read(ctx, asked, text, nil, fn)
}

// read is each for a statement with a context of its own.
func (d *database) read(ctx, asked context.Context, text string, args []any,
	fn func(values []any) error) (err error) {
	rows, err := d.conn.QueryContext(asked, text, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	defer func() {
		if closed := rows.Close(); err == nil && closed != nil {
			err = fmt.Errorf("%s: %w", d.Name, closed)
		}
	}()
	names, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	cells, into, values := make([]cell, len(names)), make([]any, len(names)), make([]any, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		for i := range cells {
			values[i] = cells[i].value
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	return nil
}

// texts reads a whole result as text; it is for catalogs. NULL becomes "".
func (d *database) texts(ctx context.Context, text string, args ...any) (all [][]string, err error) {
	err = d.each(ctx, text, args, func(values []any) error {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = textOf(v)
		}
		all = append(all, row)
		return nil
	})
	return all, err
}

// text reads one value as text; "" if there is none.
func (d *database) text(ctx context.Context, text string, args ...any) (string, error) {
	rows, err := d.texts(ctx, text, args...)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// cell takes a value from the driver without copying it.
type cell struct{ value any }

// Scan implements sql.Scanner.
func (c *cell) Scan(v any) error {
	if b, ok := v.([]byte); ok && b == nil {
		v = nil
	}
	c.value = v
	return nil
}

// spelled returns an expression of columns that is the same text for the same bytes and for nothing else.
func (d *database) spelled(from *relation, columns []string, alias string) string {
	var parts []string
	for _, name := range columns {
		parts = append(parts, d.digits(from.column(name), alias))
	}
	if d.kind == mysql {
		return "CONCAT(" + strings.Join(parts, ", ',', ") + ")"
	}
	return strings.Join(parts, " || ',' || ")
}

func (d *database) digits(c *column, alias string) string {
	name := alias + "." + d.kind.quote(c.name)
	switch {
	case c.class == classNumber && d.kind == postgres:
		return name + "::text"
	case c.class == classNumber:
		return "CAST(" + name + " AS CHAR)"
	case c.class == classBytes && d.kind == postgres:
		return "encode(" + name + ", 'hex')"
	case d.kind == postgres:
		return "encode(convert_to(" + name + "::text, 'UTF8'), 'hex')"
	case c.class == classBytes || d.kind == sqlite:
		return "HEX(" + name + ")"
	}
	return "HEX(CAST(" + name + " AS CHAR CHARACTER SET utf8mb4))"
}

// asked returns a value as the database takes it for a column, and whether it can have it at all.
func (d *database) asked(c *column, value any) (any, bool) {
	text := textOf(value)
	switch {
	case c.class == classUUID && d.kind != sqlite:
		plain := strings.NewReplacer("-", "", "{", "", "}", "").Replace(text)
		b, err := hex.DecodeString(plain)
		return text, err == nil && len(b) == 16
	case c.class == classBytes:
		return []byte(text), true
	case c.class == classText && d.kind == postgres && strings.Contains(text, "\x00"):
		return nil, false
	}
	return value, true
}

// is returns the condition that a column has a bound value, as the database compares it. A cast to a type
// with a length would cut the value.
func (d *database) is(alias string, c *column, value string) string {
	name := alias + "." + d.kind.quote(c.name)
	if d.kind != postgres {
		return name + " = " + value
	}
	declared, _, _ := strings.Cut(c.declared, "(")
	switch declared {
	case "uuid", "bytea", "citext", "smallint", "integer", "bigint":
		if c.class == classNumber {
			declared = "bigint"
		}
		return name + " = CAST(" + value + " AS " + declared + ")"
	case "character":
		return name + " = CAST(" + value + " AS bpchar)"
	case "text", "character varying":
		return name + " = CAST(" + value + " AS text)"
	}
	return name + "::text = CAST(" + value + " AS text)"
}

func (d *database) total(ctx context.Context, s Sum, kept string) (*big.Rat, error) {
	// A name in braces is a column, quoted as this database wants it.
	expression := "(" + regexp.MustCompile("\\{([^{}'\"`]+)\\}").ReplaceAllStringFunc(s.Expression,
		func(name string) string { return d.kind.quote(name[1 : len(name)-1]) }) + ")"
	if d.kind == postgres {
		expression += "::text"
	}
	text := "SELECT " + expression + " FROM " + d.kind.quote(s.Table) + " AS s"
	if kept != "" {
		text += " WHERE " + kept
	}
	value, err := d.text(ctx, text)
	n := new(big.Rat)
	if err != nil || value == "" { // there are no rows
		return n, err
	}
	if _, ok := n.SetString(value); !ok {
		return nil, fmt.Errorf("%s: %s is %q, which is not a number", d.Name, s.Expression, value)
	}
	return n, nil
}

func (d *database) fill(v *verifier, expression string) string {
	return strings.NewReplacer("{server}", strconv.FormatInt(d.Number, 10), ofRenamed, "0",
		"{target}", strconv.FormatInt(v.plan.Target.Number, 10)).Replace(expression)
}

// ofRenamed stands in an expression for 1 in rows that got a new name.
const ofRenamed = "{renamed}"

// expression returns what to select so that neither the database nor a driver changes the value.
func (d *database) expression(alias string, c *column) string {
	name := alias + "." + d.kind.quote(c.name)
	switch d.kind {
	case sqlite:
		return "+" + name // without a declared type, drivers leave the value alone
	case mysql:
		switch {
		case strings.HasPrefix(c.declared, "float"):
			return name + " + 0e0" // it would be shown with six digits
		case strings.HasPrefix(c.declared, "bit"):
			return name + " + 0"
		case c.class == classInstant, c.class == classDate, c.class == classClock, c.class == classUUID,
			strings.HasPrefix(c.declared, "inet"):
			return "CAST(" + name + " AS CHAR)"
		}
		return name
	}
	switch {
	case c.class == classBytes, c.class == classNumber && strings.Contains(c.declared, "int"):
		return name
	case c.declared == "boolean":
		return name + "::int"
	case c.class == classFloat:
		return name + "::float8"
	case c.declared == "inet": // a cast adds the length of the mask, even if there is none
		return "CASE WHEN " + name + " IS NOT NULL THEN format('%s', " + name + ") END"
	case c.declared == "character" || strings.HasPrefix(c.declared, "character("):
		return name + "::text"
	}
	return name + "::text"
}
