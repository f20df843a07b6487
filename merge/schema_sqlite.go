package merge

import (
	"context"
	"regexp"
	"strconv"
	"strings"
)

// sqliteTables reads the tables of a SQLite database.
func (d *database) sqliteTables(ctx context.Context) (map[string]*table, error) {
	tables := map[string]*table{}
	names, err := d.strings(ctx, newStatement(SQLite, "SELECT name, COALESCE(sql, '') FROM sqlite_master "+
		"WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%' "+
		"ORDER BY name"))
	if err != nil {
		return nil, err
	}
	for _, row := range names {
		t := &table{name: row[0]}
		for _, read := range []func(context.Context, *table) error{
			d.sqliteColumns, d.sqliteIndexes, d.sqliteReferences,
		} {
			if err := read(ctx, t); err != nil {
				return nil, err
			}
		}
		tables[t.name] = t
	}
	triggers, err := d.strings(ctx, newStatement(SQLite,
		"SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"))
	for _, row := range triggers {
		if t := tables[row[0]]; t != nil {
			t.triggers = append(t.triggers, row[1])
		}
	}
	return tables, err
}

func (d *database) sqliteColumns(ctx context.Context, t *table) error {
	// hidden: 1 is a hidden column of a virtual table, 2 and 3 are generated columns.
	rows, err := d.strings(ctx, newStatement(SQLite,
		"SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk, hidden FROM pragma_table_xinfo(").
		bind(t.name).add(") ORDER BY cid"))
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
		c := &column{
			name: row[0], declared: row[1], family: sqliteFamily(row[1]), precision: -1,
			nullable: row[2] == "0" && pk == 0, fallback: row[3] == "1", generated: row[5] != "0",
		}
		// The limit is the game's: SQLite itself holds nobody to it.
		if m := regexp.MustCompile(`(?i)char[a-z ]*\(\s*(\d+)\s*\)`).FindStringSubmatch(row[1]); m != nil {
			c.maxChars, _ = strconv.Atoi(m[1]) // a number too large is no limit
		}
		t.columns = append(t.columns, c)
	}
	for i := 1; i <= len(positions); i++ {
		t.primary = append(t.primary, positions[i])
	}
	if len(t.primary) == 1 {
		c := t.column(t.primary[0])
		c.fallback = c.fallback || strings.EqualFold(c.declared, "integer")
	}
	return nil
}

// sqliteFamily guesses from the declared type, in the manner of SQLite's affinities but finer.
func sqliteFamily(declared string) family {
	upper := strings.ToUpper(declared)
	for _, guess := range []struct {
		word   string
		family family
	}{
		{"BOOL", familyBool}, {"INT", familyInt}, {"UUID", familyUUID}, {"JSON", familyJSON},
		{"CHAR", familyText}, {"CLOB", familyText}, {"TEXT", familyText}, {"BLOB", familyBytes},
		{"BINARY", familyBytes}, {"REAL", familyFloat}, {"FLOA", familyFloat}, {"DOUBLE", familyFloat},
		{"DATETIME", familyTime}, {"TIMESTAMP", familyTime}, {"DATE", familyDate}, {"TIME", familyClock},
		{"NUM", familyDecimal}, {"DEC", familyDecimal},
	} {
		if strings.Contains(upper, guess.word) {
			return guess.family
		}
	}
	return familyOther
}

func (d *database) sqliteIndexes(ctx context.Context, t *table) error {
	indexes, err := d.strings(ctx, newStatement(SQLite, "SELECT l.name, l.origin, COALESCE(m.sql, '') "+
		"FROM pragma_index_list(").bind(t.name).add(") AS l LEFT JOIN sqlite_master AS m "+
		"ON m.type = 'index' AND m.name = l.name WHERE l.\"unique\" = 1 ORDER BY l.name"))
	if err != nil {
		return err
	}
	for _, index := range indexes {
		parts, err := d.strings(ctx, newStatement(SQLite,
			"SELECT COALESCE(name, ''), coll FROM pragma_index_xinfo(").
			bind(index[0]).add(") WHERE key = 1 ORDER BY seqno"))
		if err != nil {
			return err
		}
		key := uniqueKey{name: index[0], where: wherePart(index[2])}
		var expressions []string
		for i, part := range parts {
			p := keyPart{column: part[0], collation: part[1]}
			if p.column == "" {
				if expressions == nil {
					expressions = indexedParts(index[2])
				}
				if i < len(expressions) {
					p.expression = expressions[i]
				}
			} else if c := t.column(p.column); c != nil && index[1] == "pk" {
				c.collation = p.collation
			}
			key.parts = append(key.parts, p)
		}
		if index[1] != "pk" {
			t.unique = append(t.unique, key)
		}
	}
	return nil
}

// wherePart finds the condition of a partial index in the statement that made it: behind the bracket that
// closes its columns.
func wherePart(statement string) string {
	_, rest := brackets(statement)
	rest = strings.TrimSpace(rest)
	if len(rest) > 5 && strings.EqualFold(rest[:5], "where") {
		return strings.TrimSpace(rest[5:])
	}
	return ""
}

// indexedParts finds the columns and expressions in the statement that made an index.
func indexedParts(statement string) []string {
	inner, _ := brackets(statement)
	var parts []string
	depth, start := 0, 0
	for i, r := range inner {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(inner[start:i]))
				start = i + 1
			}
		}
	}
	return append(parts, strings.TrimSpace(inner[start:]))
}

// brackets returns what stands in the first outermost brackets, and what follows them.
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

func (d *database) sqliteReferences(ctx context.Context, t *table) error {
	rows, err := d.strings(ctx, newStatement(SQLite,
		"SELECT id, \"table\", \"from\", COALESCE(\"to\", '') FROM pragma_foreign_key_list(").
		bind(t.name).add(") ORDER BY id, seq"))
	if err != nil {
		return err
	}
	last := ""
	for _, row := range rows {
		if row[0] != last {
			t.parents = append(t.parents, reference{parent: row[1], enforced: true})
			last = row[0]
		}
		ref := &t.parents[len(t.parents)-1]
		ref.columns = append(ref.columns, row[2])
		if row[3] != "" { // else it is the primary key of the parent, whichever that is
			ref.target = append(ref.target, row[3])
		}
	}
	return nil
}
