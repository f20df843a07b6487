package verify

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// tableOfCatalog is where the merge has stored what its target had besides rows before the first one came.
const tableOfCatalog = "merge_catalog"

// Thing is something that a database has besides rows: a table, an index, a trigger, where a counter stands.
type Thing struct{ Kind, Table, Name string }

func (t Thing) String() string { return strings.TrimSpace(t.Kind + " " + t.Name) }

// KindCounter is the kind of a thing that says where a counter stands.
const KindCounter = "counter"

// AfterCopying stands in merge_catalog before the kind of a counter as it was when all rows were copied. One
// that somebody sets back later may still be ahead of where it was at first.
const AfterCopying = "copied "

// sorted returns the things of two lists, each once.
func sorted(before, now map[Thing]string) []Thing {
	list := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(now))
	slices.SortFunc(list, func(a, b Thing) int {
		return strings.Compare(a.Table+"\x00"+a.Kind+"\x00"+a.Name, b.Table+"\x00"+b.Kind+"\x00"+b.Name)
	})
	return slices.Compact(list)
}

// reached reports whether a counter stands where it stood, or further on. One that had not begun to
// count stood nowhere.
func reached(was, is string) bool {
	from, counted := new(big.Int).SetString(was, 10)
	now, counts := new(big.Int).SetString(is, 10)
	return !counted || counts && now.Cmp(from) >= 0
}

// parts cuts a CREATE TABLE into its lines or, if it has only one, at its commas. MySQL has each column and
// each key of a table in one line.
func parts(statement string) []string {
	separator := "\n"
	if !strings.Contains(statement, separator) {
		separator = ","
	}
	all := strings.Split(statement, separator)
	for i, part := range all {
		all[i] = strings.TrimSuffix(strings.TrimSpace(part), ",")
	}
	return all
}

// takeCounters takes the counters out of the statements in which MySQL shows them.
func takeCounters(all map[Thing]string) {
	shown := regexp.MustCompile(` AUTO_INCREMENT=([0-9]+)`)
	for t, text := range all {
		if t.Kind != "table" {
			continue
		}
		// It stands behind the list of the columns.
		head, tail := text, ""
		if end := strings.LastIndex(text, "\n)"); end >= 0 {
			head, tail = text[:end], text[end:]
		}
		if found := shown.FindStringSubmatch(tail); found != nil {
			all[t] = head + strings.Replace(tail, found[0], "", 1)
			all[Thing{KindCounter, t.Table, ""}] = found[1]
		}
	}
}

// madeBy stands where a statement of its own shows what a thing is.
const madeBy = "(shown)"

const sqliteThings = `SELECT type, tbl_name, name, sql FROM sqlite_master
	WHERE sql IS NOT NULL AND substr(name, 1, 7) <> 'sqlite_'`

const mysqlThings = `SELECT 'database', '', '', CONCAT_WS(' ', default_character_set_name,
		default_collation_name) FROM information_schema.schemata WHERE schema_name = DATABASE();
	SELECT CASE WHEN table_type = 'SEQUENCE' THEN 'sequence' ELSE 'table' END, table_name, '', '(shown)' FROM
		information_schema.tables WHERE table_schema = DATABASE() AND table_type IN ('BASE TABLE',
		'SYSTEM VERSIONED', 'SEQUENCE');
	SELECT 'view', table_name, '', CONCAT_WS(' ', definer, security_type, check_option, view_definition) FROM
		information_schema.views WHERE table_schema = DATABASE();
	SELECT 'trigger', event_object_table, trigger_name, CONCAT_WS(' ', definer, action_timing,
		event_manipulation, action_statement) FROM information_schema.triggers WHERE trigger_schema = DATABASE();
	SELECT routine_type, '', routine_name, CONCAT_WS(' ', definer, security_type, is_deterministic,
		dtd_identifier, routine_definition) FROM information_schema.routines WHERE routine_schema = DATABASE();
	SELECT 'event', '', event_name, CONCAT_WS(' ', definer, status, execute_at, interval_value,
		interval_field, starts, ends, on_completion, event_definition) FROM information_schema.events WHERE
		event_schema = DATABASE()`

// A foreign key of PostgreSQL is kept by triggers, which can be switched off. A counter that counts down
// stands at the negative of its number, so that it never falls.
func postgresThings() string {
	return strings.ReplaceAll(`
	SELECT 'table', c.relname, '', concat_ws(' ', c.relkind, c.relpersistence,
		c.reloptions::text, c.relrowsecurity, c.relforcerowsecurity, pg_get_partkeydef(c.oid),
		pg_get_expr(c.relpartbound, c.oid), (SELECT string_agg(inhparent::regclass::text, ',' ORDER BY inhseqno)
		FROM pg_inherits WHERE inhrelid = c.oid)) FROM pg_class c WHERE c.relkind IN ('r', 'p', 'f') AND
		c.relnamespace = {here};
	SELECT 'column', c.relname, a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), 'COLLATE ' ||
		NULLIF(l.collname, 'default'), CASE WHEN a.attnotnull THEN 'NOT NULL' END, NULLIF(a.attidentity, ''),
		NULLIF(a.attgenerated, ''), 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)) FROM pg_class c JOIN
		pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_collation l ON
		l.oid = a.attcollation LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum WHERE
		c.relkind IN ('r', 'p', 'f', 'c') AND c.relnamespace = {here};
	SELECT 'index', c.relname, x.relname, concat_ws(' ', pg_get_indexdef(i.indexrelid), CASE WHEN NOT
		i.indisvalid THEN 'INVALID' END) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x
		ON x.oid = i.indexrelid WHERE c.relnamespace = {here};
	SELECT 'constraint', COALESCE(c.relname, y.typname, ''), o.conname, concat_ws(' ',
		pg_get_constraintdef(o.oid), CASE WHEN NOT o.convalidated THEN 'UNVALIDATED' END, (SELECT
		string_agg(t.tgenabled::text, '' ORDER BY t.tgenabled) FROM pg_trigger t WHERE t.tgconstraint = o.oid))
		FROM pg_constraint o LEFT JOIN pg_class c ON c.oid = o.conrelid LEFT JOIN pg_type y ON y.oid =
		o.contypid WHERE o.connamespace = {here};
	SELECT 'trigger', c.relname, t.tgname, concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled) FROM
		pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = {here};
	SELECT 'rule', c.relname, r.rulename, concat_ws(' ', pg_get_ruledef(r.oid), r.ev_enabled) FROM pg_rewrite
		r JOIN pg_class c ON c.oid = r.ev_class WHERE r.rulename <> '_RETURN' AND c.relnamespace = {here};
	SELECT 'view', c.relname, '', concat_ws(' ', c.relkind, c.reloptions::text, pg_get_viewdef(c.oid)) FROM
		pg_class c WHERE c.relkind IN ('v', 'm') AND c.relnamespace = {here};
	SELECT 'function', '', CASE WHEN length(f.text) <= 400 THEN f.text ELSE left(f.text, 300) || '#' ||
		encode(sha256(convert_to(f.text, 'UTF8')), 'hex') END, CASE WHEN p.prokind = 'a' THEN 'aggregate' ELSE
		pg_get_functiondef(p.oid) END FROM pg_proc p CROSS JOIN LATERAL (SELECT p.proname || '(' ||
		pg_get_function_identity_arguments(p.oid) || ')' AS text) f WHERE p.pronamespace = {here} AND NOT EXISTS
		(SELECT 1 FROM pg_depend e WHERE e.deptype = 'e' AND e.objid = p.oid);
	SELECT 'type', '', y.typname, concat_ws(' ', y.typtype, (SELECT string_agg(quote_literal(e.enumlabel),
		', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid), CASE WHEN y.typtype = 'd' THEN
		format_type(y.typbasetype, y.typtypmod) END, CASE WHEN y.typnotnull THEN 'NOT NULL' END, y.typdefault)
		FROM pg_type y WHERE y.typtype IN ('e', 'd', 'r') AND y.typnamespace = {here} AND NOT EXISTS (SELECT 1
		FROM pg_depend e WHERE e.deptype = 'e' AND e.objid = y.oid);
	SELECT 'sequence', COALESCE((SELECT o.relname FROM pg_depend d JOIN pg_class o ON o.oid = d.refobjid WHERE
		d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') LIMIT 1), ''),
		c.relname, concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
		s.seqcache, s.seqcycle) FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid WHERE c.relnamespace =
		{here};
	SELECT 'counter', '', c.relname, (pg_sequence_last_value(s.seqrelid)::numeric *
		sign(s.seqincrement))::text FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid WHERE
		has_sequence_privilege(s.seqrelid, 'SELECT, USAGE') AND pg_sequence_last_value(s.seqrelid) IS NOT NULL
		AND c.relnamespace = {here};
	SELECT 'policy', c.relname, p.polname, concat_ws(' ', p.polcmd, p.polpermissive, p.polroles::text,
		pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) FROM pg_policy p JOIN
		pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = {here};
	SELECT 'collation', '', l.collname, (to_jsonb(l) - 'oid' - 'collnamespace' - 'collowner')::text FROM
		pg_collation l WHERE l.collnamespace = {here} AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.deptype
		= 'e' AND e.objid = l.oid);
	SELECT 'extension', '', x.extname, x.extversion FROM pg_extension x`,
		"{here}", "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())")
}
