package sqldb

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
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

// sqliteOwn are the tables and their statements. Those of modules have columns that only the modules know.
const sqliteOwn = ` FROM (SELECT name, sql FROM sqlite_master WHERE type = 'table'
	AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND sql NOT LIKE 'CREATE VIRTUAL%') AS m `

func sqliteTables(ctx context.Context, d *DB) (map[string]*Table, error) {
	return readTables(ctx, d,
		reading{"SELECT m.name" + sqliteOwn, func(*Table, []string) {}},
		// hidden: 1 is a hidden column of a virtual table, 2 and 3 are generated columns.
		reading{`SELECT m.name, x.name, x.type, x.type, x."notnull" = 0 AND x.pk = 0, x.dflt_value IS NOT NULL, 0,
			x.hidden <> 0, '', -1, '', '', x.dflt_value, '', '', ''` +
			sqliteOwn + "JOIN pragma_table_xinfo(m.name) AS x ORDER BY m.name, x.cid", sqliteColumn},
		reading{"SELECT m.name, x.name" + sqliteOwn + "JOIN pragma_table_xinfo(m.name) AS x WHERE x.pk > 0 " +
			"ORDER BY m.name, x.pk", func(t *Table, row []string) { t.Primary = append(t.Primary, row[1]) }},
		reading{`SELECT m.name, l.name, l."unique", x.name, l.origin, i.sql, x.coll, x.seqno` + sqliteOwn +
			`JOIN pragma_index_list(m.name) AS l
			LEFT JOIN sqlite_master AS i ON i.type = 'index' AND i.name = l.name
			JOIN pragma_index_xinfo(l.name) AS x WHERE x.key = 1 AND (l."unique" = 1 OR l.partial = 0
			AND NOT EXISTS (SELECT 1 FROM pragma_index_info(l.name) AS o WHERE o.name IS NULL))
			ORDER BY m.name, l.name, x.seqno`, indexes(sqliteKeyPart)},
		reading{`SELECT m.name, f.id, f."from", f."table", f."to"` + sqliteOwn +
			"JOIN pragma_foreign_key_list(m.name) AS f ORDER BY m.name, f.id, f.seq", references()},
		reading{"SELECT m.name, m.sql" + sqliteOwn, sqliteStatement},
		reading{"SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger' ORDER BY name", addTrigger})
}

// sqliteStatement notes what only the statement that made a table says.
func sqliteStatement(t *Table, row []string) {
	sqliteFolds(t, row[1])
	if len(t.Primary) == 1 {
		c := t.Column(t.Primary[0])
		counts := dialect.Rowid(c.Declared, row[1])
		c.counted, c.HasDefault = counts == "AUTOINCREMENT", c.HasDefault || counts != ""
	}
	if dialect.Rowid("INTEGER", row[1]) == "" {
		return // WITHOUT ROWID
	}
	for _, name := range []string{"oid", "_rowid_", "rowid"} {
		if !slices.ContainsFunc(t.Columns, func(c *Column) bool { return strings.EqualFold(c.Name, name) }) {
			t.rowID = &Column{Name: name, Family: FamilyInt}
		}
	}
}

var (
	collates = regexp.MustCompile("(?i)\\bcollate\\s+[\"'`\\[]?(\\w+)")
	comments = regexp.MustCompile(`--|/\*`)
	// charLimit finds how many characters a type has room for.
	charLimit = regexp.MustCompile(`(?i)char[a-z ]*\(\s*(\d+)\s*\)`)
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
	inner, _ := brackets(statement)
	for _, part := range splitSQL(inner) {
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

func sqliteColumn(t *Table, row []string) {
	// SQLite does not enforce the limit, but the application that declared it relies on it.
	if m := charLimit.FindStringSubmatch(row[2]); m != nil {
		row[8] = m[1]
	}
	columns(sqliteFamily)(t, row)
}

func sqliteKeyPart(t *Table, row []string) {
	part := KeyPart{Column: row[3], Collation: row[6]}
	position, _ := strconv.Atoi(row[7])
	// What is indexed, and the condition of a partial index, stand in the statement that made it.
	inner, rest := brackets(row[5])
	if parts := splitSQL(inner); part.Column == "" && position < len(parts) {
		part.Expression = parts[position]
	}
	key := UniqueKey{Name: row[1]}
	if rest = strings.TrimSpace(rest); len(rest) > 5 && strings.EqualFold(rest[:5], "where") {
		key.where = strings.TrimSpace(rest[5:])
	}
	if row[4] != "pk" {
		addPart(t, key, part)
	} else if c := t.Column(part.Column); c != nil {
		c.Collation = part.Collation
	}
}

func sqliteObjects(ctx context.Context, d *DB) error {
	rows, err := d.Strings(ctx, d.SQL("SELECT type, name FROM pragma_table_list "+
		"WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"))
	for _, row := range rows {
		switch kind := row[0]; {
		case kind == "shadow": // a part of a virtual table
			delete(d.Tables, row[1])
		case d.Tables[row[1]] == nil:
			if kind == "virtual" {
				kind = "virtual table"
			}
			d.Objects = append(d.Objects, Object{Kind: kind, Name: row[1], Rows: kind != "view"})
		}
	}
	return err
}
