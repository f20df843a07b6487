// Package migrate reads a database whose tables count their keys, lists what does not fit the IDs of the
// plugin, and writes the SQL that changes it, and the SQL of the way back. It changes nothing itself. The
// command "snowflake migrate" prints what it finds.
//
// [Read] looks at one schema: the current one of PostgreSQL, and the database of MySQL and MariaDB. Run what
// it writes while no program writes, on a copy first, and take a backup: it locks tables, and on SQLite it
// makes them anew. What it cannot see is up to you: views and stored programs that depend on a column, tables
// in partitions, references from other schemas, and numbers inside of texts and JSON.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// ErrDatabase is returned by [Read] for a database that it does not know, for a table that is not there, and
// for a model whose tags are at fault.
var ErrDatabase = errors.New("migrate: the database cannot be read")

// Kind says what does not fit.
type Kind string

// The kinds of findings.
const (
	// Counts is a key that the database counts: by nextval, an identity, AUTO_INCREMENT, or as a rowid.
	Counts Kind = "counts"
	// Narrow is a column with less than 64 bits that is such a key, or that refers to one.
	Narrow Kind = "narrow"
	// Undeclared is a column that refers to a key by its name and by its values, without a foreign key.
	Undeclared Kind = "undeclared"
	// Unguarded is a column with numbers of a counter that is in no unique index.
	Unguarded Kind = "unguarded"
)

// Finding is one thing that does not fit.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Table  string `json:"table"`
	Column string `json:"column"`
	Text   string `json:"text"` // a sentence for people
}

// Plan is what was found in a database, and what changes it.
type Plan struct {
	Dialect  string    `json:"dialect"`
	Findings []Finding `json:"findings"`
	// Forward are the statements of the switch-over, and Back those that let the tables count again, above
	// their greatest keys. Run them in their order, on one connection and in no transaction, and stop at the
	// first error. On PostgreSQL and SQLite they begin and commit their own, so send ROLLBACK after an error.
	// Back is for the tables as Forward leaves them, so keep it before you run that. It does not make columns
	// narrow again, because the IDs that were made meanwhile would not fit.
	Forward []string `json:"forward"`
	Back    []string `json:"back"`
}

// Read looks at tables, which are given as models or by their names. The key of a model counts as one of the
// plugin if it has the tag, and of a named table in any case. Without any it looks at all tables whose
// primary key is one integer column that refers to nothing: the plan then leads forward for those that count,
// and back for those, and for those that have IDs already. It only reads, and compares the values of at most
// a thousand rows of each column whose name could be that of a reference. The handle must not be in a
// transaction.
//
// It returns an error wrapping [ErrDatabase], or what the database said.
func Read(ctx context.Context, db *gorm.DB, tables ...any) (*Plan, error) {
	engine, known := engines()[dialect.Kind(db.Name())]
	if !known {
		return nil, fmt.Errorf("%w: the dialect %s is none of postgres, mysql and sqlite", ErrDatabase, db.Name())
	}
	r := &reader{Kind: dialect.Kind(db.Name()), engine: engine, plan: &Plan{Dialect: db.Name()}}
	r.db = db.Session(&gorm.Session{NewDB: true, Context: ctx})
	if err := r.read(ctx); err != nil {
		return nil, fmt.Errorf("%w: its catalog: %w", ErrDatabase, err)
	}
	if err := r.choose(tables); err != nil {
		return nil, err
	}
	if err := r.inspect(); err != nil {
		return nil, err
	}
	if err := engine.write(r); err != nil {
		return nil, err
	}
	return r.plan, nil
}

// column is a column as the catalog has it.
type column struct {
	Table, Name, Type string
	Bits              int    // of an integer; 0 for another type
	Counts            string // how the database makes its values; empty if it does not
	Sequence          string // of PostgreSQL, as SQL names it
	Identity          string // the options of one of PostgreSQL
	Definition        string // of MySQL, without the name
	Default           string // of PostgreSQL
}

// foreign is a foreign key.
type foreign struct {
	Name, Table, Parent string
	Columns, Refers     []string
	Definition          string // of MySQL, from CONSTRAINT on
}

// unique is a unique index, or the primary key.
type unique struct {
	table   string
	columns []string
	primary bool
}

// reference leads from a column to a key.
type reference struct{ child, key *column }

// reader reads one database.
type reader struct {
	dialect.Kind
	engine engine
	db     *gorm.DB
	plan   *Plan

	columns  []*column
	foreigns []foreign
	uniques  []unique
	ddl      map[string]string // of SQLite, by the table

	keys     []*column // whose tables are to get IDs
	back     []*column // whose tables may count again
	wide     []*column // that need 64 bits and have less
	numbered []*column // nil for one that is not there
}

// scan runs a query for structs.
func scan[T any](r *reader, query string, args ...any) (rows []T, err error) {
	return rows, r.db.Raw(query, args...).Scan(&rows).Error
}

// column returns a column, or nil.
func (r *reader) column(table, name string) *column {
	for _, c := range r.columns {
		if c.Table == table && c.Name == name {
			return c
		}
	}
	return nil
}

// called returns a column by the names that a program gives to it and its table, or nil. The case of letters
// counts where it does for the database: not on SQLite, and not for tables of MySQL on some systems.
func (r *reader) called(table, name string) *column {
	if c := r.column(table, name); c != nil {
		return c
	}
	for _, c := range r.columns {
		// The table that is found must be that of the column, and no other one or a view.
		column := r.Quote(c.Table) + "." + r.Quote(name)
		if strings.EqualFold(c.Table, table) && strings.EqualFold(c.Name, name) &&
			r.db.Exec("SELECT "+column+" FROM "+r.Quote(table)+" WHERE 1 = 0").Error == nil {
			return c
		}
	}
	return nil
}

// keyOf returns the only column of the primary key of a table, or nil.
func (r *reader) keyOf(table string) *column {
	for _, u := range r.uniques {
		if u.primary && u.table == table && len(u.columns) == 1 {
			return r.column(table, u.columns[0])
		}
	}
	return nil
}

// isReference reports whether a foreign key begins at a column.
func (r *reader) isReference(c *column) bool {
	return slices.ContainsFunc(r.foreigns, func(f foreign) bool {
		return f.Table == c.Table && slices.Contains(f.Columns, c.Name)
	})
}

// choose finds the keys of the tables that are given, or of all.
func (r *reader) choose(tables []any) error {
	for _, given := range tables {
		if name, ok := given.(string); ok {
			key := r.keyOf(name)
			for _, u := range r.uniques {
				if other := r.keyOf(u.table); key == nil && other != nil && strings.EqualFold(u.table, name) {
					key = r.called(name, other.Name)
				}
			}
			if key == nil || key.Bits == 0 {
				return fmt.Errorf("%w: there is no table %q whose primary key is one integer column", ErrDatabase,
					name)
			}
			r.keys = append(r.keys, key)
			continue
		}
		if err := r.chooseModel(given); err != nil {
			return err
		}
	}
	if len(tables) > 0 {
		r.back = r.keys
		return nil
	}
	for _, u := range r.uniques {
		key := r.keyOf(u.table)
		if !u.primary || key == nil || key.Bits == 0 || r.isReference(key) ||
			strings.HasPrefix(key.Table, "snowflake_") {
			continue
		}
		if key.Counts != "" {
			r.keys, r.back = append(r.keys, key), append(r.back, key)
			continue
		}
		filled, err := r.isFilled(key)
		if err != nil {
			return err
		}
		if filled {
			r.back = append(r.back, key)
		}
	}
	return r.readNumbered()
}

// leastID is less than every ID of a layout that is a few weeks old, and more than tables count to.
const leastID = 1 << 40

// isFilled tells by its greatest key whether a table has IDs.
func (r *reader) isFilled(key *column) (bool, error) {
	rows, err := scan[int64](r, "SELECT COALESCE(max("+r.Quote(key.Name)+"), 0) FROM "+r.Quote(key.Table))
	if err != nil {
		return false, fmt.Errorf("migrate: the greatest key of %s: %w", key.Table, err)
	}
	return len(rows) == 1 && rows[0] >= leastID, nil
}

// chooseModel takes what the tags of a model say.
func (r *reader) chooseModel(model any) error {
	stmt := &gorm.Statement{DB: r.db}
	if err := stmt.Parse(model); err != nil {
		return fmt.Errorf("%w: the model %T: %w", ErrDatabase, model, err)
	}
	plans := fill.NewPlans(maxDigits, func(n int64) any { return n }, nil)
	plan, err := plans.Prepare(stmt.Schema)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDatabase, err)
	}
	for _, field := range stmt.Schema.Fields {
		if plan.Fills(field) && strings.HasPrefix(field.Tag.Get(fill.TagName), fill.TagFrom) {
			r.numbered = append(r.numbered, r.called(stmt.Schema.Table, field.DBName))
		}
	}
	for _, field := range stmt.Schema.PrimaryFields {
		key := r.called(stmt.Schema.Table, field.DBName)
		kind := field.IndirectFieldType.Kind()
		if !plan.Fills(field) || kind == reflect.String || kind == reflect.Slice {
			continue
		}
		if key == nil {
			return fmt.Errorf("%w: there is no column %s of a table %s, which the model %s has", ErrDatabase,
				field.DBName, stmt.Schema.Table, stmt.Schema.Name)
		}
		r.keys = append(r.keys, key)
	}
	return nil
}

// maxDigits is the number of digits of the greatest int64.
const maxDigits = 19

// readNumbered finds the columns of which the plugin has noted that they have numbers of counters.
func (r *reader) readNumbered() error {
	if r.column("snowflake_authority", "subject") == nil {
		return nil
	}
	subjects, err := scan[string](r, "SELECT "+r.Quote("subject")+" FROM "+r.Quote("snowflake_authority"))
	if err != nil {
		return fmt.Errorf("migrate: the notes of counters: %w", err)
	}
	for _, subject := range subjects {
		name, is := strings.CutPrefix(subject, "numbers ")
		table, column, found := strings.Cut(name, ".")
		if is && found {
			r.numbered = append(r.numbered, r.called(table, column))
		}
	}
	return nil
}

// find adds a finding.
func (r *reader) find(kind Kind, c *column, format string, args ...any) {
	r.plan.Findings = append(r.plan.Findings, Finding{kind, c.Table, c.Name, fmt.Sprintf(format, args...)})
}

// inspect compares what the catalog says with what IDs need.
func (r *reader) inspect() error {
	for _, key := range r.keys {
		if key.Counts != "" {
			r.find(Counts, key, "The database makes the keys of %s itself, by %s.", key.Table, key.Counts)
		}
		if key.Bits < 64 {
			r.wide = append(r.wide, key)
			r.find(Narrow, key, "%s.%s is %s, and an ID needs bigint.", key.Table, key.Name, key.Type)
		}
	}
	undeclared, err := r.undeclared()
	if err != nil {
		return err
	}
	for _, ref := range undeclared {
		r.find(Undeclared, ref.child, "%s.%s has the keys of %s by its name and its values, and no foreign key "+
			"says so.", ref.child.Table, ref.child.Name, ref.key.Table)
	}
	// What is made wider may be referred to itself, so the list grows while it is read.
	seen := slices.Clone(r.keys)
	for next := 0; next < len(seen); next++ {
		for _, ref := range append(r.declared(seen[next]), undeclared...) {
			if ref.key != seen[next] || slices.Contains(seen, ref.child) {
				continue
			}
			if seen = append(seen, ref.child); ref.child.Bits > 0 && ref.child.Bits < 64 {
				r.wide = append(r.wide, ref.child)
				r.find(Narrow, ref.child, "%s.%s is %s and refers to %s.%s, which has IDs.", ref.child.Table,
					ref.child.Name, ref.child.Type, ref.key.Table, ref.key.Name)
			}
		}
	}
	for _, c := range r.numbered {
		if c != nil && !slices.ContainsFunc(r.uniques, func(u unique) bool {
			return u.table == c.Table && slices.Contains(u.columns, c.Name)
		}) {
			r.find(Unguarded, c, "%s.%s has numbers of a counter and no unique index, which would refuse a number "+
				"that is given twice.", c.Table, c.Name)
		}
	}
	return nil
}

// declared lists the columns that refer to a column by a foreign key.
func (r *reader) declared(key *column) (refs []reference) {
	for _, f := range r.foreigns {
		for i, name := range f.Refers {
			if f.Parent != key.Table || name != key.Name {
				continue
			}
			if child := r.column(f.Table, f.Columns[i]); child != nil {
				refs = append(refs, reference{child, key})
			}
		}
	}
	return refs
}

// undeclared lists the integer columns without a foreign key whose names are those of a table with _id, and
// whose values are keys of that table.
func (r *reader) undeclared() (refs []reference, err error) {
	for _, key := range r.keys {
		for _, c := range r.columns {
			if c.Bits == 0 || c == r.keyOf(c.Table) || r.isReference(c) || !names(c.Name, key.Table) {
				continue
			}
			fits, err := r.fits(c, key)
			if err != nil {
				return nil, err
			}
			if fits {
				refs = append(refs, reference{c, key})
			}
		}
	}
	return refs, nil
}

// names reports whether a column is called after a table: user_id, users_id or created_user_id after users.
func names(column, table string) bool {
	column, table = strings.ToLower(column), strings.ToLower(table)
	for _, name := range singulars(table) {
		if column == name+"_id" || column == name+"id" || strings.HasSuffix(column, "_"+name+"_id") {
			return true
		}
	}
	return false
}

// singulars returns the name of a table, and what it may be the plural of.
func singulars(table string) []string {
	all := []string{table}
	for ending, end := range map[string]string{"s": "", "es": "", "ies": "y", "ves": "f", "people": "person"} {
		if stem, is := strings.CutSuffix(table, ending); is && stem+end != "" {
			all = append(all, stem+end)
		}
	}
	return all
}

// sampled is how many rows are compared for a column.
const sampled = 1000

// fits reports whether a column has values, and all of those that were looked at are keys.
func (r *reader) fits(c, key *column) (bool, error) {
	type counted struct{ Total, Missing int64 }
	value := r.Quote(c.Name)
	query := fmt.Sprintf("SELECT count(*) AS total, "+
		"COALESCE(sum(CASE WHEN k.%[1]s IS NULL THEN 1 ELSE 0 END), 0) AS missing "+
		"FROM (SELECT %[2]s AS v FROM %[3]s WHERE %[2]s IS NOT NULL AND %[2]s <> 0 LIMIT %[4]d) c "+
		"LEFT JOIN %[5]s k ON k.%[1]s = c.v",
		r.Quote(key.Name), value, r.Quote(c.Table), sampled, r.Quote(key.Table))
	rows, err := scan[counted](r, query)
	if err != nil {
		return false, fmt.Errorf("migrate: the values of %s.%s: %w", c.Table, c.Name, err)
	}
	return len(rows) == 1 && rows[0].Total > 0 && rows[0].Missing == 0, nil
}
