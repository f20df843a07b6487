package reshard

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// check refuses by name what a job would break, and what it could not take along.
func check(ctx context.Context, m *machine) error {
	var found []string
	for _, s := range m.old {
		if err := s.checkRight(ctx); err != nil {
			return err
		}
		for _, t := range s.tables {
			some, err := obstacles(ctx, t)
			if err != nil {
				return fmt.Errorf("looking at %s: %w", t.now, err)
			}
			found = append(found, some...)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errs.ErrSharding, strings.Join(found, "; "))
}

// checkColocated refuses to part rows from those that their keys are like. Keys from when WithShards was
// smaller may be colocated by the old modulus only.
func checkColocated(ctx context.Context, m *machine) error {
	modulus := 0
	for _, s := range m.fresh {
		modulus = max(modulus, s.Modulus)
	}
	for _, t := range tablesOf(m.old) {
		for _, check := range t.Checks[min(1, len(t.Checks)):] {
			apart, err := numbers(ctx, t.side.d.pool, fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE %[3]s > 0 AND "+
				"(%[1]s & %[4]d) %% %[5]d <> (%[3]s & %[4]d) %% %[5]d LIMIT 1", t.Checks[0].Column, t.quoted(),
				check.Column, m.Mask, modulus))
			if err != nil {
				return fmt.Errorf("looking at %s: %w", t.now, err)
			}
			if len(apart) > 0 {
				return fmt.Errorf("%w: the row %d of %s would not be colocated with that of its %s by the modulus "+
					"%d: its key was made when WithShards was smaller: give such rows new keys, or keep the shard "+
					"as it is", errs.ErrSharding, apart[0], t.now, check.Column, modulus)
			}
		}
	}
	return nil
}

// bytesOf estimates how many bytes the copies of all rows take.
func bytesOf(ctx context.Context, m *machine) (bytes int64, err error) {
	for _, t := range tablesOf(m.old) {
		query, args := t.side.d.Bytes(t.now)
		n, err := number(ctx, t.side.d.pool, query, args...)
		if err != nil {
			return 0, fmt.Errorf("the size of %s: %w", t.now, err)
		}
		if bytes += n; t.side.d.Embedded { // It is the size of the file.
			return n, nil
		}
	}
	return bytes, nil
}

// obstacles lists what is in the way of a job at one old table.
func obstacles(ctx context.Context, t *table) (found []string, err error) {
	d := t.side.d
	there, err := d.exists(ctx, d.pool, t.now)
	if err != nil || !there {
		if err == nil {
			found = []string{"the table " + t.now + " is not there"}
		}
		return found, err
	}
	taken, err := d.exists(ctx, d.pool, t.away)
	if err != nil {
		return nil, err
	}
	if taken {
		found = append(found, fmt.Sprintf("the table %s has the name that %s will get: give it another one",
			t.away, t.now))
	}
	var own, siblings []string
	for _, other := range t.side.tables {
		siblings = append(siblings, strings.ToLower(other.now))
		for _, trigger := range triggersFor(other) {
			own = append(own, trigger.name)
		}
	}
	for _, one := range obstacleQueries(d.Kind) {
		rows, err := d.catalog(ctx, d.pool, t.now, one[1])
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			inside := len(row) > 2 && slices.Contains(siblings, strings.ToLower(beside(t.now, row[2])))
			if !inside && !slices.Contains(own, row[1]) {
				found = append(found, fmt.Sprintf("%s: %s", row[0], strings.ReplaceAll(one[0], "%s", t.now)))
			}
		}
	}
	return found, nil
}

const (
	dropFirst = "it would stay with the old table: drop it first, and make it again on the new table of %s"
	notTaken  = "the new table would not have it: remove it from %s first"
	cascades  = "what it does to rows runs no trigger, so these changes would be lost: drop it first, or " +
		"make it RESTRICT"
	notOwned = "only he may rename it: run the resharding as a member of that role"
)

// obstacleQueries finds what a table may not have, or nobody may have on it. Each is what to do about it, and
// a query for what it is, for the name of a trigger, and for the table beside this one with a foreign key.
func obstacleQueries(kind dialect.Kind) [][2]string {
	switch kind {
	case dialect.PostgreSQL:
		return [][2]string{
			// PostgreSQL knows whatever refers to a table, but for texts of functions.
			{dropFirst, "SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0), g.tgname::text, r.relname " +
				"FROM pg_depend d LEFT JOIN pg_trigger g ON d.classid = 'pg_trigger'::regclass AND g.oid = d.objid " +
				"LEFT JOIN pg_constraint o ON d.classid = 'pg_constraint'::regclass AND o.oid = d.objid " +
				"LEFT JOIN pg_class r ON r.oid = o.conrelid AND r.relnamespace = " +
				"(SELECT relnamespace FROM pg_class WHERE oid = to_regclass($1)) " +
				"WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass($1) " +
				"AND d.deptype IN ('n', 'a', 'i') AND d.classid NOT IN ('pg_class'::regclass, " +
				"'pg_attrdef'::regclass, 'pg_type'::regclass) AND g.tgisinternal IS NOT TRUE"},
			{notTaken, "SELECT what || c.relname, '' FROM pg_class c, LATERAL (VALUES " +
				"('row security of ', c.relrowsecurity), ('the tablespace of ', c.reltablespace <> 0), " +
				"('the kind of ', c.relkind <> 'r' OR c.relpersistence <> 'p'), ('the parent or child of ', " +
				"EXISTS (SELECT 1 FROM pg_inherits WHERE c.oid IN (inhrelid, inhparent))), " +
				"('rights on single columns of ', EXISTS (SELECT 1 FROM pg_attribute " +
				"WHERE attrelid = c.oid AND attacl IS NOT NULL))) v (what, has) " +
				"WHERE has AND c.oid = to_regclass($1)"},
			{notOwned, "SELECT 'the owner of ' || c.relname || ', ' || pg_get_userbyid(c.relowner), '' " +
				"FROM pg_class c WHERE c.oid = to_regclass($1) AND NOT pg_has_role(c.relowner, 'USAGE')"},
		}
	case dialect.MySQL:
		return [][2]string{
			{dropFirst, "SELECT CONCAT('the trigger ', TRIGGER_NAME), TRIGGER_NAME FROM " +
				"information_schema.TRIGGERS WHERE EVENT_OBJECT_TABLE = ? AND EVENT_OBJECT_SCHEMA" +
				dialect.InSchema},
			{notTaken, "SELECT CONCAT('the kind of ', TABLE_NAME, ', ', TABLE_TYPE, ' of ', " +
				"COALESCE(ENGINE, '')), '' FROM information_schema.TABLES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" +
				dialect.InSchema + " AND (TABLE_TYPE <> 'BASE TABLE' OR ENGINE <> 'InnoDB' " +
				"OR CREATE_OPTIONS LIKE '%partitioned%')"},
			{notTaken, "SELECT DISTINCT CONCAT('rights of ', GRANTEE, ' on single columns of ', TABLE_NAME), '' " +
				"FROM information_schema.COLUMN_PRIVILEGES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" + dialect.InSchema},
			{cascades, "SELECT CONCAT('the foreign key ', CONSTRAINT_NAME, ' of ', TABLE_NAME), '' FROM " +
				"information_schema.REFERENTIAL_CONSTRAINTS WHERE TABLE_NAME = ? AND CONSTRAINT_SCHEMA" +
				dialect.InSchema + " AND (UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') " +
				"OR DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION'))"},
			{dropFirst, "SELECT DISTINCT CONCAT('the foreign key ', CONSTRAINT_NAME, ' of ', TABLE_NAME), '', " +
				"IF(TABLE_SCHEMA = REFERENCED_TABLE_SCHEMA, TABLE_NAME, '') FROM " +
				"information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME = ? AND REFERENCED_TABLE_SCHEMA" +
				dialect.InSchema},
			// A definition names the database of each table, and the views of other databases may have tables of
			// this name.
			{dropFirst, "SELECT CONCAT('the view ', TABLE_NAME), '' FROM information_schema.VIEWS JOIN " +
				"(SELECT ? AS name, ? AS space) AS t ON INSTR(VIEW_DEFINITION, CONCAT('`', " +
				"COALESCE(NULLIF(space, ''), DATABASE()), '`.`', name, '`')) > 0"},
		}
	}
	const key = "SELECT 'the foreign key on the column ' || k.\"from\" || ' of ' || m.name, '' FROM " +
		"`main`.sqlite_master m, pragma_foreign_key_list(m.name) k WHERE m.type = 'table' AND "
	return [][2]string{
		// SQLite writes the new name into triggers and views that have the old one.
		{dropFirst, "SELECT 'the ' || type || ' ' || name, name FROM `main`.sqlite_master WHERE type IN " +
			"('trigger', 'view') AND ' ' || lower(sql) || ' ' GLOB '*[^a-z0-9_]' || lower(?) || '[^a-z0-9_]*'"},
		{dropFirst, key + "k.\"table\" = ? COLLATE NOCASE"},
		{notTaken, key + "m.name = ? COLLATE NOCASE"}, // It cannot be added to a table.
	}
}

// dress gives the new tables what the old ones have beside columns and indexes, and refuses what they still
// lack. It does so before the rows are copied and after that, because a migration may come between.
func dress(ctx context.Context, m *machine) error {
	for _, t := range tablesOf(m.fresh) {
		old := m.old[0].tables[t.n]
		statements, err := finery(ctx, old, t)
		if err != nil {
			return err
		}
		// Foreign keys are not checked here: a row of the new table may come before the one that it refers to.
		err = t.side.d.onConnection(ctx, func(c *sql.Conn) error { return run(ctx, c, statements...) })
		if err != nil {
			return fmt.Errorf("%s shall have what %s has: %w", t.Name, old.now, err)
		}
	}
	for _, mv := range m.moves {
		if err := refuseLosses(ctx, mv); err != nil {
			return err
		}
	}
	return nil
}

// finery returns the statements that give a new table the owner, the rights and the options of an old one.
// Foreign keys of a new table of PostgreSQL are dropped, until the cutover makes those of the old table.
func finery(ctx context.Context, old, fresh *table) (statements []string, err error) {
	d := old.side.d
	if d.Kind == dialect.SQLite {
		return nil, nil // It has none of this.
	}
	rows, err := d.catalog(ctx, d.pool, old.now, map[dialect.Kind]string{
		dialect.PostgreSQL: "SELECT format('ALTER TABLE %%s OWNER TO %I', pg_get_userbyid(relowner)) FROM " +
			"pg_class WHERE oid = to_regclass($1) AND pg_get_userbyid(relowner) <> current_user " +
			"UNION ALL SELECT format('GRANT %s ON %%s TO %s%s', a.privilege_type, CASE a.grantee " +
			"WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, " +
			"CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) " +
			"FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = to_regclass($1) AND a.grantee <> c.relowner " +
			"UNION ALL SELECT format('ALTER TABLE %%s SET (%s)', array_to_string(reloptions, ', ')) " +
			"FROM pg_class WHERE oid = to_regclass($1) AND reloptions IS NOT NULL " +
			"UNION ALL SELECT 'ALTER TABLE %s REPLICA IDENTITY FULL' " +
			"FROM pg_class WHERE oid = to_regclass($1) AND relreplident = 'f'",
		dialect.MySQL: "SELECT CONCAT('GRANT ', PRIVILEGE_TYPE, ' ON %s TO ', GRANTEE, " +
			"CASE IS_GRANTABLE WHEN 'YES' THEN ' WITH GRANT OPTION' ELSE '' END) " +
			"FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" + dialect.InSchema,
	}[d.Kind])
	for _, row := range rows {
		statements = append(statements, strings.ReplaceAll(row[0], "%s", fresh.quoted()))
	}
	if err != nil {
		return nil, err
	}
	there, err := foreignKeys(ctx, fresh.side.d.pool, fresh, nil)
	if err != nil {
		return nil, err
	}
	if d.Kind == dialect.PostgreSQL {
		for _, key := range there {
			statements = append(statements, "ALTER TABLE "+fresh.quoted()+" DROP CONSTRAINT "+d.Quote(key[0]))
		}
		return statements, nil
	}
	keys, err := foreignKeys(ctx, d.pool, old, fresh.side)
	for _, key := range keys {
		if slices.ContainsFunc(there, func(own []string) bool { return own[1] == key[1] }) {
			continue
		}
		_, only := dialect.Split(fresh.Name)
		statements = append(statements, "ALTER TABLE "+fresh.quoted()+" ADD CONSTRAINT "+
			d.Quote(shorten(only, fmt.Sprintf("_fk%d", len(there))))+" "+key[1])
		there = append(there, key)
	}
	return statements, err
}

// foreignKeys returns the names and the definitions of the foreign keys of a table, as those of another
// entry.
func foreignKeys(ctx context.Context, q gorm.ConnPool, t *table, as *side) ([][]string, error) {
	d := t.side.d
	renamed := map[string]string{}
	for _, sibling := range t.side.tables {
		if as != nil {
			renamed[strings.ToLower(d.Quoted(sibling.now))] = as.tables[sibling.n].quoted()
		}
	}
	const names = "GROUP_CONCAT(CONCAT('`', REPLACE(k.%s, '`', '``'), '`') ORDER BY k.ORDINAL_POSITION)"
	rows, err := d.catalog(ctx, q, t.now, map[dialect.Kind]string{
		dialect.PostgreSQL: "SELECT o.conname, pg_get_constraintdef(o.oid), " +
			"CASE WHEN pg_table_is_visible(f.oid) THEN '' ELSE quote_ident(n.nspname) || '.' END, f.relname " +
			"FROM pg_constraint o JOIN pg_class f ON f.oid = o.confrelid JOIN pg_namespace n " +
			"ON n.oid = f.relnamespace WHERE o.contype = 'f' AND o.conrelid = to_regclass($1) ORDER BY o.conname",
		dialect.MySQL: "SELECT k.CONSTRAINT_NAME, CONCAT('FOREIGN KEY (', " + fmt.Sprintf(names, "COLUMN_NAME") +
			", ') REFERENCES (', " + fmt.Sprintf(names, "REFERENCED_COLUMN_NAME") + ", ')'), " +
			"CASE WHEN k.REFERENCED_TABLE_SCHEMA = DATABASE() THEN '' " +
			"ELSE CONCAT('`', k.REFERENCED_TABLE_SCHEMA, '`.') END, k.REFERENCED_TABLE_NAME " +
			"FROM information_schema.KEY_COLUMN_USAGE k WHERE k.TABLE_NAME = ? AND k.TABLE_SCHEMA" +
			dialect.InSchema + " AND k.REFERENCED_TABLE_NAME IS NOT NULL " +
			"GROUP BY k.CONSTRAINT_NAME, k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME ORDER BY 1",
	}[d.Kind])
	for _, row := range rows {
		target := row[2] + d.Quote(row[3])
		if other := renamed[strings.ToLower(target)]; other != "" {
			target = other
		}
		before, after, _ := strings.Cut(row[1], ") REFERENCES ")
		row[1] = before + ") REFERENCES " + target + after[strings.IndexByte(after, '('):]
	}
	return rows, err
}

// addForeignKeys gives the new tables of PostgreSQL the foreign keys of the old ones. Clean validates them,
// because that reads both tables.
func addForeignKeys(ctx context.Context, m *machine, h held) error {
	for _, t := range tablesOf(m.fresh) {
		old, d := m.old[0].tables[t.n], t.side.d
		keys, err := foreignKeys(ctx, h.reader(old.side.d), old, t.side)
		if err != nil {
			return err
		}
		var statements []string
		for _, key := range keys {
			alter, name := "ALTER TABLE "+t.quoted(), d.Quote(key[0])
			statements = append(statements, alter+" DROP CONSTRAINT IF EXISTS "+name,
				alter+" ADD CONSTRAINT "+name+" "+strings.TrimSuffix(key[1], " NOT VALID")+" NOT VALID")
		}
		err = h.write(ctx, d, func(q gorm.ConnPool) error { return run(ctx, q, statements...) })
		if err != nil {
			return err
		}
	}
	return nil
}

// continueNumbers lets the columns that the database counts go on in the new tables behind those of the old
// ones, whose last rows may be gone.
func continueNumbers(ctx context.Context, m *machine, h held) error {
	for n := range m.old[0].tables {
		next := map[string]int64{} // by column, of which MySQL has one
		for _, s := range m.old {
			rows, err := countersOf(ctx, h.reader(s.d), s.tables[n])
			if err != nil {
				return err
			}
			for _, row := range rows {
				count, _ := strconv.ParseInt(row[1], 10, 64) // It is empty if nothing was counted.
				next[row[0]] = max(next[row[0]], count)
			}
		}
		maps.DeleteFunc(next, func(_ string, count int64) bool { return count == 0 })
		for _, s := range m.fresh {
			for column, count := range next {
				var err error
				if fresh := s.tables[n].quoted(); s.d.Kind == dialect.MySQL {
					err = run(ctx, h.reader(s.d), fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", fresh, count))
				} else {
					_, err = number(ctx, h.reader(s.d), "SELECT setval(pg_get_serial_sequence($1, $2)::regclass, $3)",
						fresh, column, count)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// countersOf returns the columns of a table that the database counts, and how far it has come. SQLite counts
// keys only.
func countersOf(ctx context.Context, q gorm.ConnPool, t *table) (rows [][]string, err error) {
	switch t.side.d.Kind {
	case dialect.PostgreSQL:
		rows, err = texts(ctx, q, "SELECT attname, pg_sequence_last_value(pg_get_serial_sequence($1, attname)"+
			"::regclass) FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
			t.quoted())
	case dialect.MySQL:
		rows, err = texts(ctx, q, "SHOW CREATE TABLE "+t.quoted())
		for _, row := range rows {
			row[0], row[1] = "", strings.TrimPrefix(autoIncrement.FindString(row[1]), " AUTO_INCREMENT=")
		}
	}
	return rows, err
}

// validateForeignKeys validates those foreign keys of new tables of PostgreSQL that are valid in the old
// ones.
func validateForeignKeys(ctx context.Context, m *machine) error {
	if m.home.Kind != dialect.PostgreSQL {
		return nil
	}
	for _, t := range tablesOf(m.fresh) {
		old, d := m.old[0].tables[t.n], t.side.d
		names, err := texts(ctx, old.side.d.pool, "SELECT conname FROM pg_constraint WHERE contype = 'f' "+
			"AND convalidated AND conrelid = to_regclass($1)", old.quoted())
		for _, name := range names {
			if err == nil {
				err = run(ctx, d.pool, "ALTER TABLE "+t.quoted()+" VALIDATE CONSTRAINT "+d.Quote(name[0]))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
