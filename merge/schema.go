package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// primaryName is what reports call a primary key.
const primaryName = "the primary key"

// table is what the merge has to know of a table.
type table struct {
	name     string
	columns  []*column
	primary  []string
	unique   []uniqueKey // besides the primary key
	parents  []reference
	triggers []string
}

type column struct {
	name      string
	declared  string // the type as the database writes it
	family    family
	nullable  bool
	fallback  bool // it has a default, or counts by itself
	generated bool // the database computes it
	maxChars  int  // 0: no limit
	precision int  // digits of a second; -1: as many as there are
	collation string
}

// uniqueKey is a unique index, or the primary key.
type uniqueKey struct {
	name  string
	parts []keyPart
	where string // of a partial index, as SQL
}

// keyPart is one column of a key, or an expression.
type keyPart struct {
	column     string // "" for an expression
	expression string
	collation  string // of SQLite's index; elsewhere the column has it
}

// reference is a foreign key, or one that the plan declares.
type reference struct {
	columns  []string
	parent   string
	target   []string // the columns of the parent
	enforced bool     // the database checks it
}

func (t *table) column(name string) *column {
	for _, c := range t.columns {
		if c.name == name {
			return c
		}
	}
	return nil
}

// written returns the columns that can be written.
func (t *table) written() []*column {
	return slices.DeleteFunc(slices.Clone(t.columns), func(c *column) bool { return c.generated })
}

// keys returns the primary key, if there is one, and the unique keys.
func (t *table) keys() []uniqueKey {
	if len(t.primary) == 0 {
		return t.unique
	}
	primary := uniqueKey{name: primaryName}
	for _, name := range t.primary {
		part := keyPart{column: name}
		if c := t.column(name); c != nil {
			part.collation = c.collation
		}
		primary.parts = append(primary.parts, part)
	}
	return append([]uniqueKey{primary}, t.unique...)
}

func (k uniqueKey) columns() []string {
	var names []string
	for _, p := range k.parts {
		if p.column != "" {
			names = append(names, p.column)
		}
	}
	return names
}

// simple tells whether the key is made of columns only.
func (k uniqueKey) simple() bool { return k.where == "" && len(k.columns()) == len(k.parts) }

// terms are what a row has to be equal in, and the conditions under which that counts, as SQL of the database
// that has the key.
func (k uniqueKey) terms(kind Kind) (by, conditions string) {
	var parts, all []string
	for _, p := range k.parts {
		text := p.expression
		if p.column != "" {
			text = kind.quote(p.column)
			if kind == SQLite && p.collation != "" {
				text += " COLLATE " + p.collation
			}
		}
		if text == "" {
			return "", "" // it could not be read
		}
		parts, all = append(parts, text), append(all, text+" IS NOT NULL")
	}
	if k.where != "" {
		all = append(all, "("+k.where+")")
	}
	return strings.Join(parts, ", "), strings.Join(all, " AND ")
}

// about tells whether a column decides whether two rows are equal in the key.
func (k uniqueKey) about(column string) bool {
	return slices.ContainsFunc(k.parts, func(p keyPart) bool {
		return p.column == column || p.column == "" && mentions(p.expression, column)
	})
}

// mentions tells whether a column is named in an expression.
func mentions(expression, column string) bool {
	part := func(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	words := strings.FieldsFunc(expression, func(r rune) bool { return !part(r) })
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, column) })
}

// family is what a type means, the same on every kind of database.
type family string

const (
	familyInt     family = "integer"
	familyBool    family = "boolean"
	familyFloat   family = "float"
	familyDecimal family = "decimal"
	familyText    family = "text"
	familyBytes   family = "bytes"
	familyTime    family = "time"
	familyDate    family = "date"
	familyClock   family = "time of day"
	familyJSON    family = "json"
	familyUUID    family = "uuid"
	familyOther   family = "other"
)

// introspect reads the tables of a database, but for those of merges themselves.
func (d *database) introspect(ctx context.Context) error {
	var tables map[string]*table
	var err error
	switch d.kind {
	case SQLite:
		tables, err = d.sqliteTables(ctx)
	case MySQL:
		tables, err = d.mysqlTables(ctx)
	case PostgreSQL:
		tables, err = d.postgresTables(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: the tables cannot be read: %w", d.name, err)
	}
	for name := range tables {
		if isOurs(name) {
			delete(tables, name)
		}
	}
	d.tables = tables
	return nil
}

// isOurs tells whether a table belongs to a merge.
func isOurs(name string) bool {
	return slices.Contains([]string{
		tableRun, tableJournal, tableRenames, tableDrops, tableValues, tableServers, tableQuarantine,
	}, name)
}

// The tables that a merge makes in its target.
const (
	tableRun        = "merge_run"
	tableJournal    = "merge_journal"
	tableRenames    = "merge_renames"
	tableDrops      = "merge_drops"
	tableValues     = "merge_values"
	tableServers    = "merge_servers"
	tableQuarantine = "merge_quarantine"
)

// widening tells whether every value of one family can be one of the other and back. Numbers of SQLite
// are of whatever type was written, so there the declared family is only a hint.
func fits(from, to *column, fromKind, toKind Kind) bool {
	a, b := from.family, to.family
	if a == b {
		return true
	}
	numeric := []family{familyInt, familyBool, familyDecimal}
	if slices.Contains(numeric, a) && slices.Contains(numeric, b) {
		return fromKind == SQLite || toKind == SQLite || b == familyDecimal ||
			(a == familyBool || b == familyBool) && isFlag(from) && isFlag(to)
	}
	if fromKind == toKind {
		return a == familyInt && b == familyFloat && false
	}
	loose := []family{familyText, familyJSON, familyUUID}
	if slices.Contains(loose, a) && slices.Contains(loose, b) {
		return true
	}
	return fromKind == SQLite && a == familyOther || a == familyFloat && b == familyDecimal &&
		fromKind == SQLite
}

// isFlag tells whether a column is one of yes and no.
func isFlag(c *column) bool {
	return c.family == familyBool || strings.HasPrefix(c.declared, "tinyint") || c.declared == "bit(1)"
}

// readTables reads the tables that a query names, and then what each reader finds of them.
func (d *database) readTables(
	ctx context.Context, names string, readers ...func(context.Context, map[string]*table) error,
) (map[string]*table, error) {
	rows, err := d.strings(ctx, newStatement(d.kind, names))
	if err != nil {
		return nil, err
	}
	tables := map[string]*table{}
	for _, row := range rows {
		tables[row[0]] = &table{name: row[0]}
	}
	for _, read := range readers {
		if err := read(ctx, tables); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// addReferences takes foreign keys in, of rows with table, name, column, parent and its column, in
// that order and by name.
func addReferences(tables map[string]*table, rows [][]string) {
	last := ""
	for _, row := range rows {
		t := tables[row[0]]
		if t == nil {
			continue
		}
		if name := row[0] + "\x00" + row[1]; name != last {
			t.parents = append(t.parents, reference{parent: row[3], enforced: true})
			last = name
		}
		ref := &t.parents[len(t.parents)-1]
		ref.columns = append(ref.columns, row[2])
		ref.target = append(ref.target, row[4])
	}
}

// addTriggers takes triggers in, of rows with table and name.
func addTriggers(tables map[string]*table, rows [][]string) {
	for _, row := range rows {
		if t := tables[row[0]]; t != nil {
			t.triggers = append(t.triggers, row[1])
		}
	}
}
