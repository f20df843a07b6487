package reshard

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// postgres is PostgreSQL. All of a cutover in one database is one transaction.
type postgres struct{ usual }

// granted lists what a right is, who has it, and whether they may grant it.
const granted = "a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE " +
	"quote_ident(pg_get_userbyid(a.grantee)) END, " +
	"CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END"

func postgresTraits() traits {
	return traits{
		isolation: sql.LevelReadCommitted,
		// What one database has forgotten after a crash is not in the other one any more.
		begin: []string{dialect.Kind(dialect.PostgreSQL).Synchronous(), "SET LOCAL datestyle = ISO",
			"SET LOCAL intervalstyle = postgres", "SET LOCAL extra_float_digits = 3",
			"SET LOCAL lc_monetary = 'C'", "SET LOCAL timezone = 'UTC'", "SET LOCAL bytea_output = hex"},
		counted:       "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		transactional: true, lateKeys: true,

		triggerList: "SELECT tgname, tgenabled::text FROM pg_trigger WHERE tgrelid = to_regclass($1) AND NOT " +
			"tgisinternal AND tgenabled <> 'D'",
		columns: "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = " +
			"to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
		extras: "SELECT format('ALTER TABLE %%s OWNER TO %I', pg_get_userbyid(relowner)) FROM " +
			"pg_class WHERE oid = to_regclass($1) AND pg_get_userbyid(relowner) <> current_user " +
			"UNION ALL SELECT format('GRANT %s ON %%s TO %s%s', " + granted + ") " +
			"FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = to_regclass($1) AND a.grantee <> c.relowner " +
			// The sequences of new tables have names of their own.
			"UNION ALL SELECT format('DO $do$BEGIN EXECUTE format(%L, pg_get_serial_sequence(%L, %L)); END$do$', " +
			"format('GRANT %s ON SEQUENCE %%1$s TO %s%s', " + granted + "), " +
			"'%s', t.attname) FROM pg_depend d JOIN pg_attribute t ON " +
			"t.attrelid = d.refobjid AND t.attnum = d.refobjsubid JOIN pg_class s ON s.oid = d.objid AND " +
			"s.relkind = 'S', aclexplode(s.relacl) a WHERE d.classid = 'pg_class'::regclass AND " +
			"d.deptype IN ('a', 'i') AND d.refobjid = to_regclass($1) AND a.grantee <> s.relowner AND " +
			"(d.deptype = 'i' OR EXISTS (SELECT 1 FROM pg_depend WHERE refobjid = s.oid AND classid = " +
			"'pg_attrdef'::regclass)) " + // One without such a default belongs to nothing in the new table.
			"UNION ALL SELECT format('ALTER TABLE %%s SET (%s)', (SELECT string_agg(CASE o.relkind WHEN 't' " +
			"THEN 'toast.' ELSE '' END || option, ', ') FROM unnest(o.reloptions) option)) FROM pg_class c " +
			"JOIN pg_class o ON o.oid IN (c.oid, c.reltoastrelid) AND o.reloptions IS NOT NULL " +
			"WHERE c.oid = to_regclass($1) " +
			"UNION ALL SELECT 'ALTER TABLE %s REPLICA IDENTITY ' || CASE relreplident WHEN 'f' THEN 'FULL' " +
			"ELSE 'NOTHING' END FROM pg_class WHERE oid = to_regclass($1) AND relreplident IN ('f', 'n') " +
			"UNION ALL SELECT format('ALTER TABLE %%s ALTER %I SET %s', attname, what) FROM pg_attribute a " +
			"JOIN pg_type y ON y.oid = atttypid, LATERAL (VALUES (attstorage <> typstorage, 'STORAGE ' || " +
			"CASE attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' " +
			"ELSE 'EXTENDED' END), (attcompression <> '', 'COMPRESSION ' || CASE attcompression WHEN 'p' " +
			"THEN 'pglz' ELSE 'lz4' END), (attstattarget >= 0, 'STATISTICS ' || attstattarget), " +
			"(true, (SELECT '(' || string_agg(o, ', ') || ')' FROM unnest(attoptions) o " +
			"WHERE o LIKE 'n_distinct%'))) v (has, what) " +
			"WHERE has AND what <> '' AND attnum > 0 AND NOT attisdropped AND attrelid = to_regclass($1)",
		validKeys: "SELECT conname FROM pg_constraint WHERE contype = 'f' AND convalidated AND conrelid = " +
			"to_regclass($1)",
		obstacles: [][2]string{
			// PostgreSQL knows whatever refers to a table, but for texts of functions.
			{dropFirst, "SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0), g.tgname::text, r.relname " +
				"FROM pg_depend d LEFT JOIN pg_trigger g ON d.classid = 'pg_trigger'::regclass AND g.oid = d.objid " +
				"LEFT JOIN pg_constraint o ON d.classid = 'pg_constraint'::regclass AND o.oid = d.objid " +
				"LEFT JOIN pg_class r ON r.oid = o.conrelid AND r.relnamespace = " +
				"(SELECT relnamespace FROM pg_class WHERE oid = to_regclass($1)) " +
				"WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass($1) " +
				"AND d.deptype IN ('n', 'a', 'i') AND d.classid NOT IN ('pg_class'::regclass, " +
				"'pg_attrdef'::regclass, 'pg_type'::regclass) AND g.tgisinternal IS NOT TRUE"},
			{dropFirst, "SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid), '' FROM pg_depend d " +
				"JOIN pg_type y ON y.oid = d.refobjid OR y.typarray = d.refobjid WHERE d.refclassid = " +
				"'pg_type'::regclass AND d.deptype = 'n' AND y.typrelid = to_regclass($1)"}, // its rows as a type
			{notTaken, "SELECT what || c.relname, '' FROM pg_class c, LATERAL (VALUES " +
				"('row security of ', c.relrowsecurity OR c.relforcerowsecurity), " +
				"('the tablespace of ', c.reltablespace <> 0), ('an index for CLUSTER of ', " +
				"EXISTS (SELECT 1 FROM pg_index WHERE indrelid = c.oid AND indisclustered)), " +
				"('the index for the replica identity of ', c.relreplident = 'i'), ('the access method of ', " +
				"c.relam <> (SELECT oid FROM pg_am WHERE amname = " +
				"current_setting('default_table_access_method'))), " +
				// PostgreSQL refuses such a constraint for ON CONFLICT, by which rows are copied.
				"('a deferrable constraint of ', " +
				"EXISTS (SELECT 1 FROM pg_index WHERE indrelid = c.oid AND NOT indimmediate)), " +
				"('the kind of ', c.relkind <> 'r' OR c.relpersistence <> 'p'), ('the parent or child of ', " +
				"EXISTS (SELECT 1 FROM pg_inherits WHERE c.oid IN (inhrelid, inhparent))), " +
				"('rights on single columns of ', EXISTS (SELECT 1 FROM pg_attribute " +
				"WHERE attrelid = c.oid AND attacl IS NOT NULL)), " +
				// It looks for its table by the name, and stops when that is gone.
				"('a subscription for ', EXISTS (SELECT 1 FROM pg_subscription_rel WHERE srrelid = c.oid))) " +
				"v (what, has) WHERE has AND c.oid = to_regclass($1)"},
			{notOwned, "SELECT 'the owner of ' || c.relname || ', ' || pg_get_userbyid(c.relowner), '' " +
				"FROM pg_class c WHERE c.oid = to_regclass($1) AND NOT pg_has_role(c.relowner, 'USAGE')"},
		},
	}
}

func (p postgres) exactly(c column, table string) (read string, isText bool) {
	if c.kind == "bytea" { // lib/pq would take a text for the bytes themselves.
		return table + "." + p.Quote(c.name), false
	}
	return table + "." + p.Quote(c.name) + "::text", true
}

// same compares images of rows, which differ where texts that a collation takes for equal do, or 1.0 and
// 1.00. Without the cast to record, PostgreSQL would look for such an operator of each column.
func (p postgres) same(mv *move, this, that string) string {
	var left, right []string
	for i, c := range mv.oldColumns {
		a, b := this+"."+p.Quote(c.name), that+"."+p.Quote(c.name)
		if c.kind != mv.freshColumns[i].kind {
			a, b = a+"::text", b+"::text"
		}
		left, right = append(left, a), append(right, b)
	}
	return "ROW(" + strings.Join(left, ", ") + ")::record *= ROW(" + strings.Join(right, ", ") + ")::record"
}

func (postgres) unlessTaken(*move) (begin, end string) {
	return "OVERRIDING SYSTEM VALUE ", " ON CONFLICT DO NOTHING"
}

func (p postgres) triggers(t *table) []trigger {
	name := t.triggerName()
	return []trigger{{name, "CREATE OR REPLACE TRIGGER " + p.Quote(name) + " AFTER INSERT OR UPDATE OR " +
		"DELETE ON " + t.quoted() + " FOR EACH ROW EXECUTE FUNCTION " + p.function(t) + "()"}}
}

// function returns the name of the function that the trigger calls.
func (p postgres) function(t *table) string { return p.Quoted(beside(t.Name, t.triggerName())) }

// makeTrigger makes a trigger and its function. That has the rights of its owner, because programs have none
// on the list of keys, and finds nothing by a search path of theirs. It runs always, also in a session
// with session_replication_role = replica.
func (p postgres) makeTrigger(ctx context.Context, t *table, made trigger) error {
	var keys string
	err := p.pool.QueryRowContext(ctx, "SELECT format('%I.%I', nspname, relname) FROM pg_class c "+
		"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)",
		p.Quoted(t.side.keys)).Scan(&keys)
	if err != nil {
		return err
	}
	return alter(ctx, t,
		"LOCK TABLE "+t.quoted()+" IN SHARE ROW EXCLUSIVE MODE",
		fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "+
			"SET search_path = pg_catalog, pg_temp AS $snowflake$ BEGIN\n"+
			"IF TG_OP <> 'INSERT' THEN INSERT INTO %s (t, k) VALUES (%d, OLD.%s); END IF;\n"+
			"IF TG_OP = 'INSERT' THEN INSERT INTO %[2]s (t, k) VALUES (%[3]d, NEW.%[4]s);\n"+
			"ELSIF TG_OP = 'UPDATE' AND NEW.%[4]s <> OLD.%[4]s THEN "+
			"INSERT INTO %[2]s (t, k) VALUES (%[3]d, NEW.%[4]s); END IF;\nRETURN NULL; END $snowflake$",
			p.function(t), keys, t.n, p.Quote(t.Column)),
		made.create, // It may be there, but switched off.
		"ALTER TABLE "+t.quoted()+" ENABLE ALWAYS TRIGGER "+p.Quote(made.name))
}

func (p postgres) dropTriggers(t *table) []string {
	return []string{"DROP FUNCTION IF EXISTS " + p.function(t) + "() CASCADE"} // with its triggers
}

func (p postgres) alter(ctx context.Context, _ *table, statements []string) error {
	return p.transaction(ctx, func(q gorm.ConnPool) error {
		return run(ctx, q, append([]string{shortWait()}, statements...)...)
	})
}

// shortWait bounds how long a transaction waits for each lock.
func shortWait() string {
	return fmt.Sprintf("SET LOCAL lock_timeout = %d", lockWait.Milliseconds())
}

func (p postgres) lock(
	ctx context.Context, c *sql.Conn, tables []string, do func(q gorm.ConnPool) error,
) error {
	return p.begun(ctx, c, func(q gorm.ConnPool) error {
		// A crash must not undo a cutover by which programs go on. For a standby that may be away, the lock waits
		// only where all commits do.
		err := run(ctx, q, shortWait(), "LOCK TABLE "+strings.Join(tables, ", ")+" IN ACCESS EXCLUSIVE MODE",
			"SELECT set_config('synchronous_commit', 'local', true) WHERE "+
				"current_setting('synchronous_commit') = 'off'")
		if err != nil {
			return err
		}
		return do(q)
	})
}

// inTheWay names prepared transactions beside the others: they belong to no connection.
func (p postgres) inTheWay(ctx context.Context, s *side) string {
	var tables []string
	for _, name := range quotedTables(s) {
		tables = append(tables, "to_regclass('"+strings.ReplaceAll(name, "'", "''")+"')")
	}
	rows, err := dialect.Texts(ctx, p.pool, "SELECT DISTINCT CASE WHEN gid IS NULL THEN format('process %s of "+
		"%s (%s), in a transaction since %s', l.pid, usename, application_name, xact_start) ELSE format('the "+
		"prepared transaction %L of %s, which COMMIT PREPARED or ROLLBACK PREPARED ends, since %s', gid, owner, "+
		"prepared) END, coalesce(xact_start, prepared) FROM pg_locks l "+
		"LEFT JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN (pg_locks x "+
		"JOIN pg_prepared_xacts p ON p.transaction = x.transactionid "+
		"AND x.pid IS NULL) ON l.pid IS NULL AND x.virtualtransaction = l.virtualtransaction "+
		"WHERE l.pid IS DISTINCT FROM pg_backend_pid() AND l.granted AND l.database = "+
		"(SELECT oid FROM pg_database WHERE datname = current_database()) AND (l.relation IN ("+
		strings.Join(tables, ", ")+") OR (l.locktype, l.classid, l.objid) = ('advisory', "+
		dialect.MapLock+")) ORDER BY 2 LIMIT 3")
	if err != nil {
		return "Who it is cannot be read: " + err.Error()
	}
	var found []string
	for _, row := range rows {
		found = append(found, row[0])
	}
	return blame(found, nil)
}

// facts asks once, because a cutover does so under the lock.
func (p postgres) facts(ctx context.Context, q gorm.ConnPool, t *table) (facts []string, err error) {
	const column = " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid " +
		"LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum " +
		"WHERE c.oid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped"
	rows, err := p.Ask(ctx, q, t.now, strings.Join([]string{
		"SELECT format('the column %s %s', a.attname, format_type(a.atttypid, a.atttypmod)), NULL" + column,
		"SELECT format('NOT NULL of %s', a.attname), NULL" + column + " AND a.attnotnull",
		// A sequence is called like its table.
		"SELECT format('%s %s of %s', CASE a.attgenerated WHEN '' THEN 'DEFAULT' ELSE 'the expression' END, " +
			"replace(pg_get_expr(f.adbin, f.adrelid), c.relname, '...'), a.attname), NULL" +
			column + " AND f.oid IS NOT NULL",
		"SELECT format('GENERATED AS IDENTITY of %s', a.attname), NULL" + column + " AND a.attidentity <> ''",
		"SELECT format('COLLATE %s of %s', a.attcollation::regcollation, a.attname), NULL" + column +
			" AND a.attcollation <> (SELECT typcollation FROM pg_type WHERE oid = a.atttypid)",
		"SELECT format('the comment on %s', coalesce(a.attname, 'the table')), NULL FROM pg_description d " +
			"LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0 " +
			"WHERE d.classoid = 'pg_class'::regclass AND d.objoid = to_regclass($1)",
		"SELECT format('%sindex %s', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, " +
			"substring(pg_get_indexdef(i.indexrelid) FROM ' USING (.*)')), NULL FROM pg_index i " +
			"WHERE i.indrelid = to_regclass($1)",
		"SELECT pg_get_constraintdef(o.oid), o.conname::text FROM pg_constraint o WHERE o.conrelid = " +
			"to_regclass($1) AND o.contype IN ('c', 'x')",
	}, " UNION ALL "))
	for _, row := range rows {
		if _, _, own := shardmap.ReadCheckName(row[1]); !own {
			facts = append(facts, row[0])
		}
	}
	return facts, err
}

func (p postgres) foreignKeys(ctx context.Context, q gorm.ConnPool, t *table) (keys []foreignKey, err error) {
	rows, err := p.Ask(ctx, q, t.now, "SELECT o.conname, pg_get_constraintdef(o.oid), n.nspname, f.relname, "+
		"pg_table_is_visible(f.oid)::int FROM pg_constraint o JOIN pg_class f ON f.oid = o.confrelid "+
		"JOIN pg_namespace n ON n.oid = f.relnamespace WHERE o.contype = 'f' AND o.conrelid = to_regclass($1) "+
		"ORDER BY o.conname")
	for _, row := range rows {
		columns, target, _ := strings.Cut(row[1], ") REFERENCES ")
		keys = append(keys, foreignKey{row[0], row[2], row[3], row[4] == "1", columns + ")",
			target[strings.IndexByte(target, '('):]})
	}
	return keys, err
}

func (postgres) counters(ctx context.Context, q gorm.ConnPool, t *table) ([][]string, error) {
	return dialect.Texts(ctx, q, "SELECT attname, pg_sequence_last_value(pg_get_serial_sequence($1, attname)"+
		"::regclass) FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
		t.quoted())
}

func (postgres) count(ctx context.Context, q gorm.ConnPool, quoted, column string, n int64) error {
	_, err := number(ctx, q, "SELECT setval(pg_get_serial_sequence($1, $2)::regclass, $3)", quoted, column, n)
	return err
}
