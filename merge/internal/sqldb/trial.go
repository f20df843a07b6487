package sqldb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Trial is a temporary table with the definition of a table of the target: its types, NOT NULL, CHECK,
// generated columns and the expressions of its indexes. Rows are written to it in order to see whether the
// target takes them, and whether it gives back what it was given. It has no foreign keys and no triggers, and
// its rows do not collide with each other.
type Trial struct {
	d       *DB
	name    string
	columns []*Column
	writer  *Writer
	singles map[int]*Trial // of one column each, by its position
	written int            // how many rows the table was given since it was truncated
	// simpler makes the table without the condition for its partitions, which may have a function that is not
	// allowed in a CHECK. It is "" if there is none.
	simpler string
	// Untried is why the trial is without the condition for its partitions, or nil.
	Untried error
}

// trialNumber is the name of the column that says which row is which.
const trialNumber = "merge_n"

// trialKey is that column.
func trialKey() *Column { return &Column{Name: trialNumber, Family: FamilyInt, Declared: "bigint"} }

// NewTrial makes the temporary table. Only the given columns are written.
func NewTrial(ctx context.Context, d *DB, t *Table, name string, columns []*Column,
	raw bool) (*Trial, error) {
	r := &Trial{d: d, name: name, columns: columns, singles: map[int]*Trial{}}
	statements, err := r.definition(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, s := range statements {
		err := d.Exec(ctx, s)
		if err != nil && r.simpler != "" {
			r.Untried = err
			err = d.Exec(ctx, r.simpler)
		}
		if err != nil {
			return nil, errors.Join(err, r.Drop(ctx))
		}
	}
	r.writer = NewWriter(d, name, append([]*Column{trialKey()}, columns...), raw)
	r.writer.replace = d.Kind != PostgreSQL // which has no such statement, and no indexes that are unique there
	return r, nil
}

// definition returns the statements that make the temporary table.
func (r *Trial) definition(ctx context.Context, t *Table) ([]string, error) {
	switch r.d.Kind {
	case PostgreSQL:
		return r.postgres(ctx, t)
	case MySQL:
		text, err := r.d.showCreate(ctx, t.Name)
		if err != nil {
			return nil, err
		}
		fits := ""
		if strings.Contains(text, "PARTITION BY") {
			fits, err = mysqlPartitions(ctx, r.d, t.Name, text)
		}
		if fits != "" {
			r.simpler = mysqlTrial(r.name, text, "")
		}
		return []string{mysqlTrial(r.name, text, fits)}, err
	}
	rows, err := r.d.Strings(ctx, r.d.SQL("SELECT type, sql FROM sqlite_master WHERE tbl_name = ").
		Bind(t.Name).Add(" AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC, name"))
	if err != nil {
		return nil, err
	}
	var all []string
	for i, row := range rows {
		if row[0] == "table" {
			all = append(all, "CREATE TEMP TABLE "+r.name+" "+sqliteBody(row[1]),
				"ALTER TABLE "+r.name+" ADD COLUMN "+trialNumber+" INTEGER")
			continue
		}
		inner, rest := brackets(row[1])
		all = append(all, fmt.Sprintf("CREATE INDEX temp.%s_%d ON %s (%s) %s", r.name, i, r.name, inner, rest))
	}
	return all, nil
}

// sqliteBody returns what follows the name in the statement that made a table.
func sqliteBody(statement string) string {
	for i, r := range unquoted(statement) {
		if r == '(' {
			return statement[i:]
		}
	}
	return ""
}

// mysqlTrial makes the statement for a temporary table of what SHOW CREATE TABLE returned, which has one item
// on every line. Temporary tables cannot have foreign keys, indexes of words or places, partitions or a
// history. fits is the condition under which there is a partition for a row, or "".
func mysqlTrial(name, text, fits string) string {
	var items []string
	options := ""
	for line := range strings.SplitSeq(text, "\n") {
		item := strings.TrimSuffix(strings.TrimSpace(line), ",")
		switch {
		case strings.HasPrefix(line, ")"):
			options, _, _ = strings.Cut(strings.TrimPrefix(line, ")"), " WITH SYSTEM VERSIONING")
		case options != "" || strings.HasPrefix(line, "CREATE TABLE"):
		case strings.HasPrefix(item, "FULLTEXT "), strings.HasPrefix(item, "SPATIAL "),
			strings.HasPrefix(item, "PERIOD "), strings.HasPrefix(item, "VECTOR "),
			strings.HasPrefix(item, "CONSTRAINT ") && strings.Contains(item, " FOREIGN KEY "),
			strings.Contains(item, " GENERATED ALWAYS AS ROW "):
		default:
			items = append(items, item)
		}
	}
	if fits != "" {
		items = append(items, "CONSTRAINT no_partition CHECK ("+fits+")")
	}
	return "CREATE TEMPORARY TABLE " + name + " (\n" +
		strings.Join(append(items, trialNumber+" bigint"), ",\n") + "\n)" + options
}

func (r *Trial) postgres(ctx context.Context, t *Table) ([]string, error) {
	all := []string{
		"CREATE TEMP TABLE " + r.name + " (LIKE " + PostgreSQL.Quote(t.Name) +
			" INCLUDING CONSTRAINTS INCLUDING GENERATED)",
		"ALTER TABLE " + r.name + " ADD COLUMN " + trialNumber + " BIGINT",
	}
	for _, c := range t.Writable() {
		if !slices.Contains(r.columns, c) { // it gets a default, which is not copied: it could be a sequence
			all = append(all, "ALTER TABLE "+r.name+" ALTER COLUMN "+PostgreSQL.Quote(c.Name)+" DROP NOT NULL")
		}
	}
	same := here(" = (SELECT oid FROM pg_class WHERE relnamespace = {here} AND relname = ")
	if t.partitioned {
		fits := ""
		err := r.d.Row(ctx, r.d.SQL("SELECT COALESCE(string_agg('(' || COALESCE(pg_get_partition_constraintdef("+
			"p.relid), 'true') || ')', ' OR '), 'false') FROM pg_class c CROSS JOIN LATERAL pg_partition_tree("+
			"c.oid) p WHERE p.isleaf AND c.oid", same).Bind(t.Name).Add(")"), &fits)
		if err != nil {
			return nil, err
		}
		all = append(all, "ALTER TABLE "+r.name+" ADD CONSTRAINT no_partition CHECK ("+fits+")")
	}
	// An index refuses long values, and its expressions may fail. Whether rows collide is another question.
	rows, err := r.d.Strings(ctx, r.d.SQL("SELECT replace(substring(pg_get_indexdef(i.indexrelid) "+
		"FROM ' USING .*'), ' NULLS NOT DISTINCT', '') "+
		"FROM pg_index i WHERE (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL OR EXISTS (SELECT 1 "+
		"FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) AND a.attlen < 0)) "+
		"AND i.indrelid", same).Bind(t.Name).Add(")"))
	for _, row := range rows {
		all = append(all, "CREATE INDEX ON "+r.name+row[0])
	}
	return all, err
}

// Write writes rows in the place of those before. The values are in the order of the columns.
func (r *Trial) Write(ctx context.Context, rows [][]any) error {
	numbered := make([][]any, len(rows))
	for i, values := range rows {
		numbered[i] = append([]any{int64(i)}, values...)
	}
	if err := r.empty(ctx); err != nil {
		return err
	}
	r.written += len(rows)
	if err := r.writer.Write(ctx, numbered); err != nil {
		return &RefusedError{cause: err}
	}
	return nil
}

// Names reports whether a refusal names a column, as those of strict tables of SQLite do.
func (r *Trial) Names(refused *RefusedError, column int) bool {
	text := codeBehind.ReplaceAllString(refused.Error(), "")
	return r.d.Kind == SQLite && strings.HasSuffix(text, r.name+"."+r.columns[column].Name)
}

// codeBehind is the number of an error that a driver without cgo puts behind the text of SQLite.
var codeBehind = regexp.MustCompile(` \(\d+\)$`)

// RefusedError says that the target did not take rows.
type RefusedError struct{ cause error }

// Error returns the words of the database.
func (e *RefusedError) Error() string {
	err := e.cause
	for {
		several, ok := err.(interface{ Unwrap() []error })
		if !ok || len(several.Unwrap()) == 0 {
			return err.Error()
		}
		err = several.Unwrap()[len(several.Unwrap())-1] // what the database said comes last
	}
}

func (r *Trial) empty(ctx context.Context) error {
	// A server makes new files when it truncates a table, which takes it longer than to delete a few rows.
	// PostgreSQL keeps what is deleted until then, so that the rows must not become many.
	const few = 2000
	switch {
	case r.written == 0:
		return nil
	case r.d.Kind == SQLite || r.written <= few:
		return r.d.Exec(ctx, "DELETE FROM "+r.name)
	}
	r.written = 0
	return r.d.Exec(ctx, "TRUNCATE TABLE "+r.name)
}

// Each calls fn for every row that the table holds, with the number of the row among those that were written
// and its values in the form in which they are on their way.
func (r *Trial) Each(ctx context.Context, columns []int, fn func(n int, values []any)) error {
	q := r.d.SQL("SELECT s.", trialNumber)
	texts := make([]bool, len(columns)+1)
	for i, position := range columns {
		c := r.columns[position]
		q.Add(", ", c.ReadExpression(r.d.Kind))
		texts[i+1] = !r.writer.Raw && c.Family != FamilyBytes && c.Family != FamilyOther
	}
	q.Add(" FROM ", r.name, " AS s")
	return r.d.Fetch(ctx, q, Fetch{Texts: texts, Steady: true}, func(values []any) error {
		n, err := strconv.Atoi(Text(values[0]))
		if err == nil {
			fn(n, values[1:])
		}
		return err
	})
}

// Takes reports whether the target takes a value in a column, whatever stands beside it. The error is nil or
// a [RefusedError] if the value was tried.
func (r *Trial) Takes(ctx context.Context, column int, v any) error {
	c := r.columns[column]
	if r.d.Kind == SQLite {
		return nil // only its whole tables have rules
	}
	if r.singles[column] == nil {
		name := fmt.Sprintf("%s_c%d", r.name, column)
		err := r.d.Exec(ctx, "CREATE TEMPORARY TABLE "+name+" ("+trialNumber+" BIGINT PRIMARY KEY, "+
			c.Like(r.d.Kind)+")")
		if err != nil {
			return err
		}
		r.singles[column] = &Trial{d: r.d, name: name,
			writer: NewWriter(r.d, name, []*Column{trialKey(), c}, false)}
	}
	return r.singles[column].Write(ctx, [][]any{{v}})
}

// Drop removes the temporary tables.
func (r *Trial) Drop(ctx context.Context) error {
	var err error
	if r.writer != nil {
		err = r.writer.Close()
	}
	for _, single := range r.singles {
		err = errors.Join(err, single.Drop(ctx))
	}
	return errors.Join(err, r.d.DropTemporary(ctx, r.name))
}

// mysqlPartitions returns the condition under which a table of MySQL has a partition for a row. It is "" if
// there is one for every row. Only ranges and lists can have none. The definition is what SHOW CREATE TABLE
// says of the table.
func mysqlPartitions(ctx context.Context, d *DB, table, definition string) (string, error) {
	rows, err := d.Strings(ctx, d.SQL("SELECT DISTINCT PARTITION_METHOD, PARTITION_EXPRESSION, "+
		"PARTITION_DESCRIPTION, PARTITION_ORDINAL_POSITION FROM information_schema.PARTITIONS "+
		"WHERE TABLE_SCHEMA = DATABASE() "+
		"AND PARTITION_METHOD IN ('RANGE', 'LIST', 'RANGE COLUMNS', 'LIST COLUMNS') "+
		"AND PARTITION_DESCRIPTION IS NOT NULL AND TABLE_NAME = ").Bind(table).
		Add(" ORDER BY PARTITION_ORDINAL_POSITION"))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	method, expression := rows[0][0], rows[0][1]
	if strings.HasPrefix(method, "RANGE") {
		bounds := splitSQL(rows[len(rows)-1][2]) // those of the last partition are the highest
		columns := []string{expression}
		if method == "RANGE COLUMNS" {
			columns = splitSQL(expression)
		}
		return below(columns, bounds), nil
	}
	if holdsOthers.MatchString(definition) {
		return "", nil // the catalog describes that partition as one for the number 0
	}
	var fits []string
	for _, row := range rows {
		// A CHECK lets a comparison with = pass that is NULL, but a list takes NULL only if it names NULL.
		for _, v := range splitSQL(row[2]) {
			fits = append(fits, "("+expression+") <=> "+v)
		}
	}
	return strings.Join(fits, " OR "), nil
}

// holdsOthers finds the partition of MariaDB for all values that no other one has.
var holdsOthers = regexp.MustCompile("(?m)^[ (]*PARTITION (`([^`]|``)*`|\\w+) DEFAULT\\b")

// below is the condition that columns are less than bounds, the first of them first, or "" if they always
// are. NULL is less than all.
func below(columns, bounds []string) string {
	if len(columns) == 0 || len(columns) != len(bounds) || strings.EqualFold(bounds[0], "MAXVALUE") {
		return ""
	}
	null, less, equal := columns[0]+" IS NULL OR ", columns[0]+" < "+bounds[0], columns[0]+" = "+bounds[0]
	if len(columns) == 1 {
		return null + less
	}
	if rest := below(columns[1:], bounds[1:]); rest != "" {
		return null + less + " OR " + equal + " AND (" + rest + ")"
	}
	return null + less + " OR " + equal
}
