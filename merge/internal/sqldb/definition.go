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
	switch d.Kind {
	case SQLite:
		rows, err := d.Strings(ctx, NewStatement(SQLite, "SELECT sql FROM sqlite_master WHERE tbl_name = ").
			Bind(t.Name).Add(" AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type, name"))
		text := joined(rows)
		if mentions(text, "check") {
			text = ""
		}
		return text, err
	case MySQL:
		var name, text, version string
		err := d.Row(ctx, NewStatement(MySQL, "SHOW CREATE TABLE ", MySQL.Quote(t.Name)), &name, &text)
		if err != nil {
			return "", err
		}
		text = regexp.MustCompile(` AUTO_INCREMENT=\d+`).ReplaceAllString(text, "")
		// The columns of type JSON of MariaDB have this check from the beginning.
		checks := regexp.MustCompile(" CHECK \\(json_valid\\(`[^`]+`\\)\\)").ReplaceAllString(text, "")
		if strings.Contains(checks, " CHECK (") || strings.Contains(checks, " enum(") ||
			strings.Contains(checks, "PARTITION BY") {
			return "", nil
		}
		err = d.Row(ctx, NewStatement(MySQL, "SELECT VERSION()"), &version)
		return version + "\n" + text, err
	}
	rows, err := d.Strings(ctx, NewStatement(PostgreSQL, postgresDefinition).Bind(t.Name))
	if err != nil || len(rows) != 1 || rows[0][0] == "0" {
		return "", err
	}
	return rows[0][1], nil
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
	WHERE i.indrelid = c.oid)
	FROM pg_class c WHERE c.relnamespace = ` + currentNamespace + ` AND c.relname = `

func joined(rows [][]string) string {
	var all []string
	for _, row := range rows {
		all = append(all, strings.Join(row, " "))
	}
	return strings.Join(all, "\n")
}
