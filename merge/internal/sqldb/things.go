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

// showCreate returns the statement that makes a table of MySQL.
func (d *DB) showCreate(ctx context.Context, table string) (text string, err error) {
	err = d.Row(ctx, d.SQL("SHOW CREATE TABLE ", MySQL.Quote(table)), &table, &text)
	return text, err
}

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
	text, known := d.definitions[t.Name]
	if known || d.Kind != MySQL {
		return text, nil
	}
	text, err := d.showCreate(ctx, t.Name)
	if err != nil {
		return "", err
	}
	text = d.version + "\n" + autoIncrement.ReplaceAllString(text, "")
	checks := jsonCheck.ReplaceAllString(text, "")
	if strings.Contains(checks, " CHECK (") || strings.Contains(checks, " enum(") ||
		strings.Contains(checks, "PARTITION BY") {
		text = ""
	}
	d.definitions[t.Name] = text
	return text, nil
}

var (
	autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
	// The columns of type JSON of MariaDB have this check from the beginning.
	jsonCheck = regexp.MustCompile(" CHECK \\(json_valid\\(`[^`]+`\\)\\)")
)

// readDefinitions reads the definitions of all tables, by their names. MySQL can only be asked for one at a
// time.
func (d *DB) readDefinitions(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	switch d.Kind {
	case MySQL:
		return all, nil
	case SQLite:
		rows, err := d.Strings(ctx, d.SQL("SELECT tbl_name, sql FROM sqlite_master "+
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
	rows, err := d.Strings(ctx, d.SQL(here(postgresDefinition)))
	for _, row := range rows {
		all[row[0]] = row[1]
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
		rows, failed := d.Strings(ctx, d.SQL("SELECT sql FROM sqlite_master WHERE tbl_name = ").
			Bind(t.Name).Add(" AND type = 'index' AND (sql LIKE '%(%(%' OR sql LIKE '% WHERE %')"))
		return text != "" && len(rows) == 0, errors.Join(err, failed)
	}
	computed := map[Kind]*regexp.Regexp{
		MySQL:      regexp.MustCompile(`(?i) KEY [^\n]*\(\(| GENERATED ALWAYS AS `),
		PostgreSQL: regexp.MustCompile(` USING \w+ \([^\n]*\(| USING [^\n]* WHERE `),
	}[d.Kind]
	return text != "" && !computed.MatchString(text), err
}

// Sums returns for each of some tables a text that is another one once a row has come, gone or changed, and
// "" where the database cannot tell, as SQLite never can. PostgreSQL reads no values for it: each row has the
// number of the transaction that wrote it, which means something in this server until it ends. So has each
// column, of which a new one may have a value in rows that nobody has written. Rows of a foreign table, which
// may be a part of another one, have none.
func (d *DB) Sums(ctx context.Context, tables []string) ([]string, error) {
	sums, q, between := make([]string, len(tables)), d.SQL(), ""
	switch {
	case d.Kind == SQLite || len(tables) == 0:
		return sums, nil
	case d.Kind == MySQL:
		q.Add("CHECKSUM TABLE ", d.Kind.QuoteAll(tables))
	default:
		q.Add("SELECT n, CASE WHEN EXISTS (SELECT 1 FROM pg_class WHERE relkind = 'f') THEN '' ",
			"ELSE concat_ws(' ', x, pg_postmaster_start_time(), (SELECT oid FROM pg_database ",
			"WHERE datname = current_database()), (SELECT SUM(hashint8(xmin::text::bigint)) FROM pg_attribute ",
			"WHERE attrelid >= 16384)) END FROM (")
		for i, table := range tables {
			q.Add(between, "SELECT ", strconv.Itoa(i), " AS n, SUM(hashint8(xmin::text::bigint)) AS x FROM ",
				d.Kind.Quote(table))
			between = " UNION ALL "
		}
		q.Add(") AS sums ORDER BY n")
	}
	rows, err := d.Strings(ctx, q)
	for i, row := range rows {
		if d.Tables[tables[i]].Engine != "ARCHIVE" { // of which MySQL says 0, whatever is in it
			sums[i] = row[1]
		}
	}
	return sums, err
}

// Counter returns the greatest number that a database has given out for a column that it counts, whether or
// not the row is still there; 0 if it does not count the column.
func (d *DB) Counter(ctx context.Context, t *Table, column string) (int64, error) {
	q := d.SQL()
	switch d.Kind {
	case SQLite:
		if exists, err := d.HasTable(ctx, "sqlite_sequence"); err != nil || !exists {
			return 0, err
		}
		q.Add("SELECT COALESCE(MAX(seq), 0) FROM main.sqlite_sequence WHERE name = ").Bind(t.Name)
	case MySQL:
		c := t.Column(column)
		if c != nil && c.sequence != "" && !d.TiDB {
			// The numbers up to this one were taken out of the sequence, whether a row got them or not.
			return d.Number(ctx, d.SQL("SELECT GREATEST(next_not_cached_value - increment, 0) FROM ",
				c.sequence, " WHERE increment > 0 UNION ALL SELECT 0 LIMIT 1"))
		}
		if c == nil || !c.counted {
			return 0, nil
		}
		// MySQL shows a number that may be a day old unless it is told otherwise; MariaDB has no such setting.
		_, _ = d.conn.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0")
		// The catalog of MariaDB opens every table of a schema for a question that a join makes less than plain.
		q.Add("SELECT auto_increment FROM information_schema.tables WHERE table_schema = DATABASE() " +
			"AND table_name = ").Bind(t.Name)
	case PostgreSQL:
		postgresSequence(q.Add("SELECT COALESCE(pg_sequence_last_value("), t, column).Add("), 0)")
	}
	rows, err := d.Strings(ctx, q)
	if err != nil || len(rows) == 0 || rows[0][0] == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(rows[0][0], 10, 64)
	if errors.Is(err, strconv.ErrRange) || n < 0 {
		return 0, nil // a counter that is used up, or below zero as one that counts down from -1, says nothing
	}
	if d.Kind == MySQL && n > 0 { // it is the next number
		n--
	}
	return n, err
}

// postgresSequence appends the sequence that a column of PostgreSQL takes its default from, as a regclass:
// the one that the default depends on, or names in a text, or else the one that belongs to the column.
func postgresSequence(q *Statement, t *Table, column string) *Statement {
	table := PostgreSQL.Quote(t.Name)
	note := func(what string) {
		q.Add("(SELECT " + what + " FROM pg_attrdef e JOIN pg_attribute a ON a.attrelid = e.adrelid " +
			"AND a.attnum = e.adnum LEFT JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = " +
			"e.oid AND d.refclassid = 'pg_class'::regclass AND EXISTS (SELECT 1 FROM pg_sequence s " +
			"WHERE s.seqrelid = d.refobjid) WHERE e.adrelid = ").Bind(table).
			Add("::text::regclass AND a.attname = ").Bind(column).Add("::text ORDER BY d.refobjid LIMIT 1)")
	}
	q.Add("COALESCE(")
	note("d.refobjid::regclass")
	q.Add(", ")
	note("to_regclass(substring(pg_get_expr(e.adbin, e.adrelid) from 'nextval\\(+''([^'']+)''::text'))")
	return q.Add(", pg_get_serial_sequence(").Bind(table).Add("::text, ").Bind(column).Add("::text)::regclass)")
}

// SetCounter has the database count on behind a number, and behind every number that the column holds. A
// sequence that counts down goes on below every number that the column holds and below its own last one. The
// given number is the greatest that was given out and says nothing about the least, so it is not used there.
func (d *DB) SetCounter(ctx context.Context, t *Table, column string, counter int64) error {
	name := d.Kind.Quote(t.Name)
	switch d.Kind {
	case SQLite:
		exists, err := d.HasTable(ctx, "sqlite_sequence")
		if err != nil || !exists || counter <= 0 || len(t.Primary) != 1 || t.Primary[0] != column {
			return err
		}
		if !t.Column(column).counted {
			return nil // it counts from the greatest key, and nothing can change that
		}
		for _, q := range []*Statement{
			d.SQL("INSERT INTO main.sqlite_sequence (name, seq) SELECT ").Bind(t.Name).
				Add(", 0 WHERE NOT EXISTS (SELECT 1 FROM main.sqlite_sequence WHERE name = ").Bind(t.Name).Add(")"),
			d.SQL("UPDATE main.sqlite_sequence SET seq = ").Bind(counter).Add(" WHERE name = ").Bind(t.Name).
				Add(" AND seq < ").Bind(counter),
		} {
			if _, err := d.Run(ctx, q); err != nil {
				return err
			}
		}
		return nil
	case MySQL:
		if c := t.Column(column); c != nil && c.sequence != "" {
			return d.setSequence(ctx, t, c, counter)
		}
		now, err := d.Counter(ctx, t, column)
		if err != nil || now >= counter {
			return err
		}
		return d.Exec(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", name, counter+1))
	}
	key := d.Kind.Quote(column)
	q := d.SQL("SELECT setval(seqrelid, greatest(seqmin, least(seqmax, "+
		"CASE WHEN seqincrement > 0 THEN greatest((SELECT MAX(", key, ") FROM ", name, "), ",
		strconv.FormatInt(counter, 10), ", pg_sequence_last_value(seqrelid), 1) ELSE least((SELECT MIN(", key,
		") FROM ", name, "), pg_sequence_last_value(seqrelid), seqstart) END))) "+
			"FROM pg_sequence WHERE seqrelid = ")
	_, err := d.Run(ctx, postgresSequence(q, t, column))
	return err
}

// setSequence is SetCounter for a column of MariaDB or TiDB whose default comes from a sequence. A sequence
// does not go back, so that several columns may share it.
func (d *DB) setSequence(ctx context.Context, t *Table, c *Column, counter int64) error {
	increment := int64(1)
	if !d.TiDB { // which does not show it there
		n, err := d.Number(ctx, d.SQL("SELECT increment FROM ", c.sequence))
		if err != nil {
			return err
		}
		increment = n
	}
	end := "MAX"
	if increment < 0 {
		end = "MIN"
	}
	last, err := d.Number(ctx, d.SQL("SELECT COALESCE(", end, "(", MySQL.Quote(c.Name),
		"), 0) FROM ", MySQL.Quote(t.Name)))
	if increment > 0 {
		last = max(last, counter)
	}
	if err != nil || last == 0 { // no number was given out
		return err
	}
	_, err = d.Strings(ctx, d.SQL(fmt.Sprintf("SELECT SETVAL(%s, %d)", c.sequence, last)))
	return err
}
