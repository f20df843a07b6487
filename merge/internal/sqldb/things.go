package sqldb

import (
	"context"
	"strings"
)

// Thing is something that a database has besides rows: a table, an index, a trigger, where a counter stands.
// Text is what the database itself says of it, so that nothing of it is forgotten.
type Thing struct{ Kind, Table, Name, Text string }

// KindCounter is the kind of a thing that says where a counter stands. MySQL says it of a table.
const KindCounter = "counter"

// Things lists what a database has besides rows, but for what belongs to the tables that the caller leaves
// out.
func Things(ctx context.Context, d *DB, leaveOut func(table string) bool) (all []Thing, err error) {
	queries := map[Kind][]string{SQLite: sqliteThings(), MySQL: mysqlThings(),
		PostgreSQL: postgresThings()}[d.Kind]
	if d.Kind == SQLite {
		counts, err := d.HasTable(ctx, "sqlite_sequence")
		if err != nil {
			return nil, err
		}
		if counts {
			queries = append(queries, "SELECT 'counter', name, '', seq FROM main.sqlite_sequence")
		}
	}
	for _, q := range queries {
		rows, err := d.Strings(ctx, NewStatement(d.Kind, q))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			thing := Thing{Kind: strings.ToLower(row[0]), Table: row[1], Name: row[2], Text: row[3]}
			if leaveOut(thing.Table) {
				continue
			}
			if thing.Text == "" && d.Kind == MySQL {
				if thing.Text, err = d.mysqlCreates(ctx, thing); err != nil {
					return nil, err
				}
			}
			all = append(all, thing)
		}
	}
	return all, nil
}

// mysqlCreates returns the statement that makes a table or a sequence.
func (d *DB) mysqlCreates(ctx context.Context, thing Thing) (string, error) {
	if thing.Kind != "table" && thing.Kind != "sequence" {
		return "", nil
	}
	rows, err := d.Strings(ctx, NewStatement(MySQL, "SHOW CREATE ", strings.ToUpper(thing.Kind), " ",
		MySQL.Quote(thing.Table)))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][1], nil
}

func sqliteThings() []string {
	return []string{"SELECT type, tbl_name, name, sql FROM sqlite_master WHERE sql IS NOT NULL " +
		"AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"}
}

func mysqlThings() []string {
	return []string{
		"SELECT 'database', '', '', CONCAT_WS(' ', default_character_set_name, default_collation_name) " +
			"FROM information_schema.schemata WHERE schema_name = DATABASE()",
		"SELECT CASE WHEN table_type = 'SEQUENCE' THEN 'sequence' ELSE 'table' END, table_name, '', '' " +
			"FROM information_schema.tables WHERE table_schema = DATABASE() " +
			"AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE')",
		"SELECT 'view', table_name, '', CONCAT_WS(' ', definer, security_type, check_option, view_definition) " +
			"FROM information_schema.views WHERE table_schema = DATABASE()",
		"SELECT 'trigger', event_object_table, trigger_name, CONCAT_WS(' ', definer, action_timing, " +
			"event_manipulation, action_statement) " +
			"FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
		"SELECT routine_type, '', routine_name, CONCAT_WS(' ', definer, security_type, is_deterministic, " +
			"dtd_identifier, routine_definition) " +
			"FROM information_schema.routines WHERE routine_schema = DATABASE()",
		"SELECT 'event', '', event_name, CONCAT_WS(' ', definer, status, execute_at, interval_value, " +
			"interval_field, starts, ends, on_completion, event_definition) " +
			"FROM information_schema.events WHERE event_schema = DATABASE()",
	}
}

func postgresThings() []string {
	const here = currentNamespace
	const noExtension = " AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.deptype = 'e' AND e.objid = "
	return []string{
		"SELECT 'table', c.relname, '', concat_ws(' ', c.relkind, c.relpersistence, c.reloptions::text, " +
			"c.relrowsecurity, c.relforcerowsecurity, pg_get_partkeydef(c.oid), " +
			"pg_get_expr(c.relpartbound, c.oid), (SELECT string_agg(inhparent::regclass::text, ',' " +
			"ORDER BY inhseqno) FROM pg_inherits WHERE inhrelid = c.oid)) FROM pg_class c " +
			"WHERE c.relkind IN ('r', 'p', 'f') AND c.relnamespace = " + here,
		"SELECT 'column', c.relname, a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), " +
			"'COLLATE ' || NULLIF(l.collname, 'default'), CASE WHEN a.attnotnull THEN 'NOT NULL' END, " +
			"NULLIF(a.attidentity, ''), NULLIF(a.attgenerated, ''), " +
			"'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)) FROM pg_class c JOIN pg_attribute a " +
			"ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped " +
			"LEFT JOIN pg_collation l ON l.oid = a.attcollation " +
			"LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum " +
			"WHERE c.relkind IN ('r', 'p', 'f', 'c') AND c.relnamespace = " + here,
		"SELECT 'index', c.relname, x.relname, concat_ws(' ', pg_get_indexdef(i.indexrelid), " +
			"CASE WHEN NOT i.indisvalid THEN 'INVALID' END) FROM pg_index i " +
			"JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid " +
			"WHERE c.relnamespace = " + here,
		// A foreign key is kept by triggers, which can be switched off.
		"SELECT 'constraint', COALESCE(c.relname, y.typname, ''), o.conname, concat_ws(' ', " +
			"pg_get_constraintdef(o.oid), CASE WHEN NOT o.convalidated THEN 'UNVALIDATED' END, " +
			"(SELECT string_agg(t.tgenabled::text, '' ORDER BY t.tgenabled) FROM pg_trigger t " +
			"WHERE t.tgconstraint = o.oid)) FROM pg_constraint o LEFT JOIN pg_class c ON c.oid = o.conrelid " +
			"LEFT JOIN pg_type y ON y.oid = o.contypid WHERE o.connamespace = " + here,
		"SELECT 'trigger', c.relname, t.tgname, concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled) " +
			"FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal " +
			"AND c.relnamespace = " + here,
		"SELECT 'rule', c.relname, r.rulename, concat_ws(' ', pg_get_ruledef(r.oid), r.ev_enabled) " +
			"FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.rulename <> '_RETURN' " +
			"AND c.relnamespace = " + here,
		"SELECT 'view', c.relname, '', concat_ws(' ', c.relkind, c.reloptions::text, pg_get_viewdef(c.oid)) " +
			"FROM pg_class c WHERE c.relkind IN ('v', 'm') AND c.relnamespace = " + here,
		// A long list of arguments ends with a digest, so that no two functions have one name.
		"SELECT 'function', '', CASE WHEN length(s.text) <= 400 THEN s.text ELSE left(s.text, 300) || '#' || " +
			"encode(sha256(convert_to(s.text, 'UTF8')), 'hex') END, " +
			"CASE WHEN p.prokind = 'a' THEN 'aggregate' ELSE pg_get_functiondef(p.oid) END FROM pg_proc p " +
			"CROSS JOIN LATERAL (SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' " +
			"AS text) AS s " +
			"WHERE p.pronamespace = " + here + noExtension + "p.oid)",
		"SELECT 'type', '', y.typname, concat_ws(' ', y.typtype, (SELECT string_agg(" +
			"quote_literal(e.enumlabel), " +
			"', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid), " +
			"CASE WHEN y.typtype = 'd' THEN format_type(y.typbasetype, y.typtypmod) END, " +
			"CASE WHEN y.typnotnull THEN 'NOT NULL' END, y.typdefault) FROM pg_type y " +
			"WHERE y.typtype IN ('e', 'd', 'r') AND y.typnamespace = " + here + noExtension + "y.oid)",
		"SELECT 'sequence', COALESCE((SELECT o.relname FROM pg_depend d JOIN pg_class o ON o.oid = d.refobjid " +
			"WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') " +
			"LIMIT 1), ''), " +
			"c.relname, concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, " +
			"s.seqmax, s.seqcache, s.seqcycle) FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid " +
			"WHERE c.relnamespace = " + here,
		// A counter that counts down stands at the negative of its number, so that it never falls.
		"SELECT 'counter', '', c.relname, " +
			"(pg_sequence_last_value(s.seqrelid)::numeric * sign(s.seqincrement))::text " +
			"FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid " +
			"WHERE has_sequence_privilege(s.seqrelid, 'SELECT, USAGE') " +
			"AND pg_sequence_last_value(s.seqrelid) IS NOT NULL " +
			"AND c.relnamespace = " + here,
		"SELECT 'policy', c.relname, p.polname, concat_ws(' ', p.polcmd, p.polpermissive, p.polroles::text, " +
			"pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) FROM pg_policy p " +
			"JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = " + here,
		"SELECT 'collation', '', l.collname, (to_jsonb(l) - 'oid' - 'collnamespace' - 'collowner')::text " +
			"FROM pg_collation l WHERE l.collnamespace = " + here + noExtension + "l.oid)",
		"SELECT 'extension', '', x.extname, x.extversion FROM pg_extension x",
	}
}
