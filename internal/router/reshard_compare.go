package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
)

// A comparison finds the keys of the rows that differ between the two tables of a move. Where both tables
// are in one database, the server compares them by one statement, and only these keys travel. Otherwise
// both tables are read in the order of their keys.

// What a difference is.
const (
	isMissing     = "missing"     // the row has no copy
	isSuperfluous = "superfluous" // the copy has no row
	isChanged     = "changed"
)

// difference is a row that is not the same in both tables.
type difference struct {
	id   int64
	what string
}

// maxKeys is how many keys a statement lists.
const maxKeys = 1000

// differences compares the tables of a move. If only is not nil, it looks at these keys alone.
func (m *tableMove) differences(ctx context.Context, only []int64) ([]difference, error) {
	compare := m.compareInServer
	if m.FromDatabase != m.ToDatabase {
		compare = m.compareStreams
	}
	if only == nil {
		return compare(ctx, "")
	}
	var found []difference
	for some := range slices.Chunk(only, maxKeys) {
		differ, err := compare(ctx, " AND %s IN ("+listKeys(some)+")")
		if err != nil {
			return nil, err
		}
		found = append(found, differ...)
	}
	return found, nil
}

// listKeys writes keys as SQL.
func listKeys(keys []int64) string {
	var b strings.Builder
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(key, 10))
	}
	return b.String()
}

// onlyKeys fills the column into a condition that differences has made.
func onlyKeys(only, column string) string {
	if only == "" {
		return ""
	}
	return fmt.Sprintf(only, column)
}

// compareInServer compares by one statement. It takes every column of the catalog, NULL as a value, and no
// collation into account.
func (m *tableMove) compareInServer(ctx context.Context, only string) (found []difference, err error) {
	db := m.d.to.dbs[m.ToDatabase]
	quote := db.Statement.Quote
	left, right := "o."+quote(m.key), "n."+quote(m.key)
	from, to := quote(m.FromTable)+" o", quote(m.ToTable)+" n"
	differ := fmt.Sprintf("SELECT %s, CASE WHEN %s IS NULL THEN '%s' ELSE '%s' END "+
		"FROM %s LEFT JOIN %s ON %s = %s WHERE %s%s AND (%s IS NULL OR %s)",
		left, right, isMissing, isChanged, from, to, right, left, m.moves(left), onlyKeys(only, left), right,
		m.differ(db))
	superfluous := fmt.Sprintf("SELECT %s, '%s' FROM %s LEFT JOIN %s ON %s = %s WHERE %s%s AND %s IS NULL",
		right, isSuperfluous, to, from, left, right, m.moves(right), onlyKeys(only, right), left)
	if !m.d.still || only != "" {
		err = m.collect(ctx, differ+" UNION ALL "+superfluous, &found)
		return found, err
	}
	// Nobody writes, so the statements see the same rows. If the numbers of rows agree, there cannot be a copy
	// without a row, and to count is much cheaper than to look for each.
	if err := m.collect(ctx, differ, &found); err != nil {
		return nil, err
	}
	want, copies := int64(0), int64(0)
	err = m.pool(m.ToDatabase).QueryRowContext(ctx, fmt.Sprintf("SELECT (SELECT COUNT(*) FROM %s WHERE %s), "+
		"(SELECT COUNT(*) FROM %s WHERE %s)", from, m.moves(left), to, m.moves(right))).Scan(&want, &copies)
	for _, one := range found {
		if one.what == isMissing {
			want--
		}
	}
	if err == nil && want != copies {
		err = m.collect(ctx, superfluous, &found)
	}
	return found, err
}

// collect appends the differences that a statement returns.
func (m *tableMove) collect(ctx context.Context, query string, found *[]difference) (err error) {
	rows, err := m.pool(m.ToDatabase).QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d difference
		if err := rows.Scan(&d.id, &d.what); err != nil {
			return err
		}
		*found = append(*found, d)
	}
	return rows.Err()
}

// differ is the condition that some column of the rows o and n is not the same, byte for byte.
func (m *tableMove) differ(db *gorm.DB) string {
	var conditions []string
	var left, right []string // columns that PostgreSQL compares by their images
	for i, column := range m.columns {
		name := db.Statement.Quote(column.name)
		o, n := "o."+name, "n."+name
		if db.Name() == dialectPostgres {
			if column.kind != m.into[i].kind {
				o, n = o+"::text", n+"::text"
			}
			left, right = append(left, o), append(right, n)
			continue
		}
		conditions = append(conditions, differSQL(db.Name(), o, n, column, m.into[i]))
	}
	if left != nil {
		// The image of a value is what INSERT ... SELECT copies. Images differ also where = does not:
		// between 1.0 and 1.00, or -0 and 0, or texts that a collation takes for equal.
		// Without the cast to record, PostgreSQL would look for such an operator of each column.
		return "ROW(" + strings.Join(left, ", ") + ")::record *<> ROW(" + strings.Join(right, ", ") + ")::record"
	}
	return strings.Join(conditions, " OR ")
}

// differSQL is the condition for one column, on MySQL, MariaDB and SQLite.
func differSQL(dialect, o, n string, of, into tableColumn) string {
	if dialect == dialectSQLite {
		// The plus sign removes the affinity of a column, by which text could be compared as a number.
		return fmt.Sprintf("typeof(%s) <> typeof(%s) OR (+%[1]s) COLLATE BINARY IS NOT (+%[2]s)", o, n)
	}
	text := func(c string) string { return "CAST(CONVERT(" + c + " USING utf8mb4) AS BINARY)" }
	kind := of.kind
	if kind != into.kind {
		return fmt.Sprintf("NOT (%s <=> %s)", text(o), text(n))
	}
	switch {
	case kind == "float" || kind == "double":
		// Numbers compare exactly, except that 0 equals -0.
		return fmt.Sprintf("NOT (%s <=> %s) OR %[1]s = 0 AND NOT (%[3]s <=> %[4]s)", o, n, text(o), text(n))
	case isGeometry(kind):
		return fmt.Sprintf("NOT (HEX(%s) <=> HEX(%s))", o, n)
	case comparesExactly(kind):
		return fmt.Sprintf("NOT (%s <=> %s)", o, n)
	case of.charset != "" && of.charset == into.charset:
		return fmt.Sprintf("NOT (CAST(%s AS BINARY) <=> CAST(%s AS BINARY))", o, n)
	}
	return fmt.Sprintf("NOT (%s <=> %s)", text(o), text(n))
}

// comparesExactly reports whether equal values of a type of MySQL are the same, so that they need not be
// converted first.
func comparesExactly(kind string) bool {
	switch kind {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "bit", "year",
		"date", "time", "datetime", "timestamp":
		return true
	}
	return isBytes(kind)
}

// isBytes reports whether a type of MySQL has neither a character set nor a collation.
func isBytes(kind string) bool {
	switch kind {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return true
	}
	return false
}

func isGeometry(kind string) bool {
	switch kind {
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
		"geometrycollection", "geomcollection":
		return true
	}
	return false
}

// compareStreams reads both tables in the order of their keys.
func (m *tableMove) compareStreams(ctx context.Context, only string) ([]difference, error) {
	source := &rowStream{m: m, database: m.FromDatabase, table: m.FromTable, only: only}
	target := &rowStream{m: m, database: m.ToDatabase, table: m.ToTable, only: only}
	var found []difference
	for {
		row, err := source.peek(ctx)
		if err != nil {
			return nil, err
		}
		duplicate, err := target.peek(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case row == nil && duplicate == nil:
			return found, nil
		case duplicate == nil || row != nil && row.id < duplicate.id:
			found = append(found, difference{row.id, isMissing})
			source.next++
		case row == nil || duplicate.id < row.id:
			found = append(found, difference{duplicate.id, isSuperfluous})
			target.next++
		default:
			if !row.same(*duplicate) {
				found = append(found, difference{row.id, isChanged})
			}
			source.next++
			target.next++
		}
	}
}

// rowStream reads a table chunk by chunk.
type rowStream struct {
	m        *tableMove
	database int
	table    string
	only     string
	rows     []rawRow // the current chunk
	next     int      // index into rows
	last     int64    // the last key of the chunk
	ended    bool     // there are no more chunks
}

// peek returns the next row without taking it, or nil at the end.
func (s *rowStream) peek(ctx context.Context) (*rawRow, error) {
	if s.next == len(s.rows) && !s.ended {
		rows, err := s.m.readFrom(ctx, s.m.pool(s.database), s.table, s.last, s.only, s.m.d.chunk)
		if err != nil {
			return nil, err
		}
		s.rows, s.next, s.ended = rows, 0, len(rows) < s.m.d.chunk
		if len(rows) > 0 {
			s.last = rows[len(rows)-1].id
		}
	}
	if s.next == len(s.rows) {
		return nil, nil
	}
	return &s.rows[s.next], nil
}
