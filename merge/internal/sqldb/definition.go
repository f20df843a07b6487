package sqldb

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Definition returns the definition of a table as text. Two databases with an equal definition take the same
// values. It returns "" where that cannot be said: a CHECK that was added or switched off later does not hold
// for the rows that were there, and a MySQL that was not strict has stored what is no member of an ENUM.
func (d *DB) Definition(ctx context.Context, t *Table) (string, error) {
	if d.definitions == nil {
		all, err := d.readDefinitions(ctx)
		if err != nil {
			return "", err
		}
		d.definitions = all
	}
	if d.Kind != MySQL {
		return d.definitions[t.Name], nil
	}
	var name, text string
	err := d.Row(ctx, NewStatement(MySQL, "SHOW CREATE TABLE ", MySQL.Quote(t.Name)), &name, &text)
	if err != nil {
		return "", err
	}
	text = autoIncrement.ReplaceAllString(text, "")
	checks := jsonCheck.ReplaceAllString(text, "")
	if strings.Contains(checks, " CHECK (") || strings.Contains(checks, " enum(") ||
		strings.Contains(checks, "PARTITION BY") {
		return "", nil
	}
	return d.definitions[""] + "\n" + text, nil
}

var (
	autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
	// The columns of type JSON of MariaDB have this check from the beginning.
	jsonCheck = regexp.MustCompile(" CHECK \\(json_valid\\(`[^`]+`\\)\\)")
)

// readDefinitions reads the definitions of all tables, by their names. MySQL can only be asked for one at a
// time, so for it this is its version, under no name.
func (d *DB) readDefinitions(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	switch d.Kind {
	case MySQL:
		var version string
		err := d.Row(ctx, NewStatement(MySQL, "SELECT VERSION()"), &version)
		all[""] = version
		return all, err
	case SQLite:
		rows, err := d.Strings(ctx, NewStatement(SQLite, "SELECT tbl_name, sql FROM sqlite_master "+
			"WHERE type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type, name"))
		for _, row := range rows {
			all[row[0]] += row[1] + "\n"
		}
		for name, text := range all {
			if mentions(text, "check") {
				all[name] = ""
			}
		}
		return all, err
	}
	rows, err := d.Strings(ctx, NewStatement(PostgreSQL, postgresDefinition))
	for _, row := range rows {
		if row[0] == "1" {
			all[row[2]] = row[1]
		}
	}
	return all, err
}

// Plain reports whether a table takes a row whenever each column has the type for its value: there are no
// other conditions, and nothing is computed from a value.
func (d *DB) Plain(ctx context.Context, t *Table) (bool, error) {
	if slices.ContainsFunc(t.Columns, func(c *Column) bool { return c.Generated }) || len(t.Exclusions) > 0 {
		return false, nil
	}
	text, err := d.Definition(ctx, t)
	if d.Kind == SQLite {
		rows, failed := d.Strings(ctx, NewStatement(SQLite, "SELECT sql FROM sqlite_master WHERE tbl_name = ").
			Bind(t.Name).Add(" AND type = 'index' AND (sql LIKE '%(%(%' OR sql LIKE '% WHERE %')"))
		return text != "" && len(rows) == 0, errors.Join(err, failed)
	}
	computed := map[Kind]*regexp.Regexp{
		MySQL:      regexp.MustCompile(`(?i) KEY [^\n]*\(\(| GENERATED ALWAYS AS `),
		PostgreSQL: regexp.MustCompile(` USING \w+ \([^\n]*\(| USING [^\n]* WHERE `),
	}[d.Kind]
	return text != "" && !computed.MatchString(text), err
}

// postgresDefinition asks whether a definition can be compared, and for its text.
const postgresDefinition = `SELECT (c.relkind = 'r' AND NOT EXISTS (
	SELECT 1 FROM pg_constraint o WHERE o.conrelid = c.oid AND o.contype = 'c') AND NOT EXISTS (
	SELECT 1 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0
	AND NOT a.attisdropped AND t.typtype <> 'e' AND t.typnamespace <> 'pg_catalog'::regnamespace))::int::text,
	current_setting('server_version') || ' ' || current_setting('server_encoding') || ' ' || (
	SELECT string_agg(concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), a.attnotnull,
		a.attgenerated, pg_get_expr(e.adbin, e.adrelid), (SELECT string_agg(quote_literal(l.enumlabel), ','
		ORDER BY l.enumsortorder) FROM pg_enum l WHERE l.enumtypid = a.atttypid)), E'\n' ORDER BY a.attname)
	FROM pg_attribute a LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
		AND a.attgenerated <> '' WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || (
	SELECT COALESCE(string_agg(substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*'), E'\n'
		ORDER BY substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*')), '') FROM pg_index i
	WHERE i.indrelid = c.oid), c.relname
	FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = ` + currentNamespace
