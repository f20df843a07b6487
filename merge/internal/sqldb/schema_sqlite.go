package sqldb

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sqliteFamily derives the family from the declared type. It works like SQLite's affinity rules, with more
// cases.
func sqliteFamily(declared string) Family {
	upper := strings.ToUpper(declared)
	for _, guess := range []struct {
		word   string
		family Family
	}{
		{"BOOL", FamilyBool}, {"INT", FamilyInt}, {"UUID", FamilyUUID}, {"JSON", FamilyJSON},
		{"CHAR", FamilyText}, {"CLOB", FamilyText}, {"TEXT", FamilyText}, {"BLOB", FamilyBytes},
		{"BINARY", FamilyBytes}, {"REAL", FamilyFloat}, {"FLOA", FamilyFloat}, {"DOUBLE", FamilyFloat},
		{"DATETIME", FamilyTime}, {"TIMESTAMP", FamilyTime}, {"DATE", FamilyDate}, {"TIME", FamilyClock},
		{"NUM", FamilyDecimal}, {"DEC", FamilyDecimal},
	} {
		if strings.Contains(upper, guess.word) {
			return guess.family
		}
	}
	return FamilyOther
}

// wherePart returns the condition of a partial index, which follows the list of columns in the statement that
// made it.
func wherePart(statement string) string {
	_, rest := brackets(statement)
	rest = strings.TrimSpace(rest)
	if len(rest) > 5 && strings.EqualFold(rest[:5], "where") {
		return strings.TrimSpace(rest[5:])
	}
	return ""
}

// indexedParts returns the columns and expressions in the statement that made an index.
func indexedParts(statement string) []string {
	inner, _ := brackets(statement)
	return splitSQL(inner)
}

// brackets returns what the first outermost brackets contain, and what follows them.
func brackets(text string) (inner, rest string) {
	depth, start := 0, -1
	quote := rune(0)
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"' || r == '`':
			quote = r
		case r == '(':
			if depth++; depth == 1 {
				start = i + 1
			}
		case r == ')':
			if depth--; depth == 0 && start >= 0 {
				return text[start:i], text[i+1:]
			}
		}
	}
	return "", ""
}

// sqliteTables reads the tables of a SQLite database.
func sqliteTables(ctx context.Context, d *DB) (map[string]*Table, error) {
	tables := map[string]*Table{}
	names, err := d.Strings(ctx, NewStatement(SQLite, "SELECT name, COALESCE(sql, '') FROM sqlite_master "+
		"WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%' "+
		"ORDER BY name"))
	if err != nil {
		return nil, err
	}
	for _, row := range names {
		t := &Table{Name: row[0]}
		withoutRowID := sqliteWithoutRowID(row[1])
		for _, read := range []func(context.Context, *DB, *Table) error{
			sqliteColumns, sqliteIndexes, sqliteReferences,
		} {
			if err := read(ctx, d, t); err != nil {
				return nil, err
			}
		}
		sqliteFolds(t, row[1])
		if len(t.Primary) == 1 {
			t.Column(t.Primary[0]).counted = strings.Contains(strings.ToUpper(row[1]), "AUTOINCREMENT")
		}
		if !withoutRowID {
			t.RowID = freeRowID(t)
		}
		tables[t.Name] = t
	}
	triggers, err := d.Strings(ctx, NewStatement(SQLite,
		"SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"))
	for _, row := range triggers {
		if t := tables[row[0]]; t != nil {
			t.Triggers = append(t.Triggers, row[1])
		}
	}
	return tables, err
}

// sqliteWithoutRowID reports whether the statement that made a table gives its rows no number.
func sqliteWithoutRowID(statement string) bool {
	_, options := brackets(statement)
	return strings.Contains(strings.Join(strings.Fields(strings.ToUpper(options)), " "), "WITHOUT ROWID")
}

var (
	collates = regexp.MustCompile("(?i)\\bcollate\\s+[\"'`\\[]?(\\w+)")
	comments = regexp.MustCompile(`--|/\*`)
)

// sqliteFolds notes the collations of columns, which only the statement that made the table has. If a comment
// makes it hard to read, each collation counts as one that nobody knows.
func sqliteFolds(t *Table, statement string) {
	if !collates.MatchString(statement) {
		return
	}
	for _, c := range t.Columns {
		if comments.MatchString(statement) {
			c.folds = "the collation of " + t.Name + "." + c.Name
		}
	}
	for _, part := range indexedParts(statement) {
		found := collates.FindStringSubmatch(part)
		for _, c := range t.Columns {
			rest, named := strings.CutPrefix(strings.ToLower(strings.TrimLeft(part, "\"'`[")),
				strings.ToLower(c.Name))
			if named && found != nil && c.folds == "" && !strings.EqualFold(found[1], "binary") &&
				(rest == "" || strings.ContainsAny(rest[:1], " \t\n\"'`]")) {
				c.folds = strings.ToUpper(found[1])
			}
		}
	}
}

// freeRowID returns a name of the row number that no column has.
func freeRowID(t *Table) string {
	for _, name := range []string{"rowid", "_rowid_", "oid"} {
		if !slices.ContainsFunc(t.Columns, func(c *Column) bool { return strings.EqualFold(c.Name, name) }) {
			return name
		}
	}
	return ""
}

func sqliteColumns(ctx context.Context, d *DB, t *Table) error {
	// hidden: 1 is a hidden column of a virtual table, 2 and 3 are generated columns.
	rows, err := d.Strings(ctx, NewStatement(SQLite,
		"SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(").
		Bind(t.Name).Add(") ORDER BY cid"))
	if err != nil {
		return err
	}
	positions := map[int]string{}
	for _, row := range rows {
		pk, err := strconv.Atoi(row[4])
		if err != nil {
			return err
		}
		if pk > 0 {
			positions[pk] = row[0]
		}
		c := &Column{
			Name: row[0], Declared: row[1], Family: sqliteFamily(row[1]), precision: -1,
			Nullable: row[2] == "0" && pk == 0, HasDefault: row[3] == "1", Generated: row[5] != "0",
		}
		// SQLite does not enforce the limit, but the application that declared it relies on it.
		if m := regexp.MustCompile(`(?i)char[a-z ]*\(\s*(\d+)\s*\)`).FindStringSubmatch(row[1]); m != nil {
			c.MaxChars, _ = strconv.Atoi(m[1]) // a number that does not fit is no limit
		}
		t.Columns = append(t.Columns, c)
	}
	for i := 1; i <= len(positions); i++ {
		t.Primary = append(t.Primary, positions[i])
	}
	if len(t.Primary) == 1 {
		c := t.Column(t.Primary[0])
		c.HasDefault = c.HasDefault || strings.EqualFold(c.Declared, "integer")
	}
	return nil
}

func sqliteIndexes(ctx context.Context, d *DB, t *Table) error {
	indexes, err := d.Strings(ctx, NewStatement(SQLite, "SELECT l.name, l.origin, COALESCE(m.sql, '') "+
		"FROM pragma_index_list(").Bind(t.Name).Add(") AS l LEFT JOIN sqlite_master AS m "+
		"ON m.type = 'index' AND m.name = l.name WHERE l.\"unique\" = 1 ORDER BY l.name"))
	if err != nil {
		return err
	}
	for _, index := range indexes {
		parts, err := d.Strings(ctx, NewStatement(SQLite,
			"SELECT COALESCE(name, ''), coll FROM pragma_index_xinfo(").
			Bind(index[0]).Add(") WHERE key = 1 ORDER BY seqno"))
		if err != nil {
			return err
		}
		key := UniqueKey{Name: index[0], where: wherePart(index[2])}
		var expressions []string
		for i, part := range parts {
			p := KeyPart{Column: part[0], Collation: part[1]}
			if p.Column == "" {
				if expressions == nil {
					expressions = indexedParts(index[2])
				}
				if i < len(expressions) {
					p.Expression = expressions[i]
				}
			} else if c := t.Column(p.Column); c != nil && index[1] == "pk" {
				c.Collation = p.Collation
			}
			key.Parts = append(key.Parts, p)
		}
		if index[1] != "pk" {
			t.Unique = append(t.Unique, key)
		}
	}
	return nil
}

func sqliteReferences(ctx context.Context, d *DB, t *Table) error {
	rows, err := d.Strings(ctx, NewStatement(SQLite,
		"SELECT '', id, \"from\", \"table\", COALESCE(\"to\", '') FROM pragma_foreign_key_list(").
		Bind(t.Name).Add(") ORDER BY id, seq"))
	add := references()
	for _, row := range rows {
		err = errors.Join(err, add(t, row))
	}
	return err
}
