package sqldb

import (
	"context"
	"strings"
)

// postgresFamily returns the family of a type. All enumerations have one name here.
func postgresFamily(name string) Family {
	return familyOf(name, map[Family]string{
		FamilyInt: "int2 int4 int8", FamilyBool: "bool", FamilyFloat: "float4 float8", FamilyDecimal: "numeric",
		FamilyText: "text varchar bpchar citext name (enum)", FamilyBytes: "bytea",
		FamilyTime: "timestamptz timestamp", FamilyDate: "date", FamilyClock: "time", FamilyZoned: "timetz",
		FamilyJSON: "json jsonb", FamilyUUID: "uuid",
	})
}

// postgresTables reads the tables of the first schema in the search path.
func postgresTables(ctx context.Context, d *DB) (map[string]*Table, error) {
	return readTables(ctx, d,
		// Partitions are left out: rows are written to the table that they belong to, which has rows only in
		// them. Other tables from which some inherit have rows of their own.
		reading{`SELECT c.relname, c.relkind = 'p',
			EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid), row_security_active(c.oid)
			FROM pg_class c WHERE c.relnamespace = {here} AND c.relkind IN ('r', 'p') AND NOT c.relispartition`,
			func(t *Table, row []string) {
				t.partitioned, t.Hidden = row[1] == "1", row[3] == "1"
				t.Heirs = row[2] == "1" && !t.partitioned
			}},
		// PostgreSQL 14 has no column for NULLS NOT DISTINCT.
		reading{`SELECT c.relname, x.relname, i.indisunique, a.attname, CASE WHEN a.attname IS NULL THEN
			pg_get_indexdef(i.indexrelid, k.n::int, true) END, pg_get_expr(i.indpred, i.indrelid, true),
			COALESCE((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false), i.indisprimary FROM pg_index i
			JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
			CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) AS k(n)
			LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.n - 1]
			AND i.indkey[k.n - 1] > 0 WHERE c.relnamespace = {here} AND (i.indisunique OR i.indexprs IS NULL
			AND i.indpred IS NULL) ORDER BY c.relname, x.relname, k.n`, indexes(postgresKeyPart)},
		// What a collation does stands in other columns in other versions.
		reading{`SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
			CASE t.typtype WHEN 'e' THEN '(enum)' ELSE t.typname END, NOT a.attnotnull, a.atthasdef,
			a.attidentity <> '' OR pg_get_expr(e.adbin, e.adrelid) LIKE 'nextval(%', a.attgenerated <> '',
			CASE WHEN t.typname IN ('varchar', 'bpchar') AND m.od > 4 THEN m.od - 4 END,
			CASE WHEN t.typname IN ('time', 'timestamp', 'timestamptz') AND m.od >= 0 THEN m.od ELSE 6 END,
			NULLIF(a.attcollation, 0)::regcollation,
			CASE WHEN t.typname IN ('bpchar', 'citext') THEN t.typname
				WHEN NOT l.collisdeterministic THEN (to_jsonb(l) - '{oid,collnamespace,collowner}'::text[])::text END,
			pg_get_expr(e.adbin, e.adrelid),
			CASE WHEN a.attgenerated <> '' THEN pg_get_expr(e.adbin, e.adrelid) END, format_type(a.atttypid, -1), ''
			FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type d ON d.oid = a.atttypid
			CROSS JOIN LATERAL (SELECT GREATEST(a.atttypmod, d.typtypmod) AS od) AS m
			JOIN pg_type t ON t.oid = CASE d.typtype WHEN 'd' THEN d.typbasetype ELSE d.oid END
			LEFT JOIN pg_collation l ON l.oid = a.attcollation
			LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
			WHERE c.relnamespace = {here} AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
			ORDER BY c.relname, a.attnum`, columns(postgresFamily)},
		reading{`SELECT c.relname, o.conname FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
			WHERE o.contype = 'x' AND c.relnamespace = {here} ORDER BY 1, 2`,
			func(t *Table, row []string) { t.Exclusions = append(t.Exclusions, row[1]) }},
		reading{`SELECT c.relname, o.conname, a.attname, p.relname, b.attname FROM pg_constraint o
			JOIN pg_class c ON c.oid = o.conrelid JOIN pg_class p ON p.oid = o.confrelid
			CROSS JOIN LATERAL generate_subscripts(o.conkey, 1) AS k(n)
			JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = o.conkey[k.n]
			JOIN pg_attribute b ON b.attrelid = o.confrelid AND b.attnum = o.confkey[k.n]
			WHERE o.contype = 'f' AND o.conparentid = 0 AND c.relnamespace = {here}
			AND p.relnamespace = c.relnamespace ORDER BY c.relname, o.conname, k.n`, references()},
		reading{`SELECT c.relname, o.conname, p.relnamespace::regnamespace || '.' || p.relname
			FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_class p ON p.oid = o.confrelid
			WHERE o.contype = 'f' AND o.conparentid = 0 AND c.relnamespace = {here}
			AND p.relnamespace <> c.relnamespace ORDER BY 1, 2`, abroad},
		// Those of a partition act on rows that are written to its table. Those for replicas only act nowhere
		// else.
		reading{`SELECT DISTINCT c.relname, t.tgname FROM pg_trigger t
			JOIN pg_class c ON c.oid = COALESCE(pg_partition_root(t.tgrelid), t.tgrelid)
			WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = {here}
			ORDER BY t.tgname`, addTrigger})
}

// here puts the schema in which PostgreSQL creates tables into a statement.
func here(text string) string {
	return strings.ReplaceAll(text, "{here}", "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())")
}

func postgresKeyPart(t *Table, row []string) {
	if row[7] == "1" {
		t.Primary = append(t.Primary, row[3])
		return
	}
	addPart(t, UniqueKey{Name: row[1], where: row[5], nullsEqual: row[6] == "1"},
		KeyPart{Column: row[3], Expression: row[4]})
}

func postgresObjects(ctx context.Context, d *DB) error {
	const byExtension = "of an extension" // which makes it in the target, too
	// The counter of a column is set when all rows are there.
	rows, err := d.Strings(ctx, d.SQL(`WITH o AS (SELECT c.oid, n.nspname, c.relname, c.relkind,
			n.nspname = current_schema() AS here, c.relkind IN ('r', 'p', 'f') AS holds,
			EXISTS (SELECT 1 FROM pg_depend p WHERE p.classid = 'pg_class'::regclass AND p.objid = c.oid
				AND p.deptype = 'e') AS made
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm',
			'f', 'S') AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema')
		SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
			WHEN 'S' THEN 'sequence' WHEN 'p' THEN 'partitioned table' ELSE 'table' END, relname,
			CASE WHEN made THEN '`+byExtension+`' END, holds AND NOT made
			FROM o WHERE made AND holds OR NOT made AND here AND relkind NOT IN ('r', 'p') AND NOT EXISTS (
			SELECT 1 FROM pg_depend p WHERE relkind = 'S' AND (p.classid = 'pg_class'::regclass AND
			p.objid = o.oid AND p.refclassid = 'pg_class'::regclass AND p.deptype IN ('a', 'i') OR p.classid =
			'pg_attrdef'::regclass AND p.refclassid = 'pg_class'::regclass AND p.refobjid = o.oid))
		UNION ALL SELECT 'schema', nspname, format('with %s tables: %s', count(*), array_to_string((array_agg(
			nspname || '.' || relname ORDER BY relname))[1:5], ', ')), true
			FROM o WHERE holds AND NOT made AND NOT here GROUP BY nspname
		UNION ALL SELECT 'large object store', 'pg_largeobject', format('with %s objects', count(*)), true
			FROM pg_largeobject_metadata HAVING count(*) > 0`))
	for _, row := range rows {
		if row[2] == byExtension {
			delete(d.Tables, row[1])
		}
		d.Objects = append(d.Objects, Object{Kind: row[0], Name: row[1], What: row[2], Rows: row[3] == "1"})
	}
	for name, t := range d.Tables {
		if len(t.Columns) == 0 {
			delete(d.Tables, name)
			d.Objects = append(d.Objects, Object{Kind: "table without columns", Name: name, Rows: true})
		}
	}
	return err
}

// postgresDefinition asks for the definitions of those tables of which they can be compared.
const postgresDefinition = `SELECT c.relname,
	current_setting('server_version') || ' ' || current_setting('server_encoding') || ' ' || (
	SELECT string_agg(concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), a.attnotnull,
		a.attgenerated, pg_get_expr(e.adbin, e.adrelid), (SELECT string_agg(quote_literal(l.enumlabel), ','
		ORDER BY l.enumsortorder) FROM pg_enum l WHERE l.enumtypid = a.atttypid)), E'\n' ORDER BY a.attname)
	FROM pg_attribute a LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
		AND a.attgenerated <> '' WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) || (
	SELECT COALESCE(string_agg(substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*'), E'\n'
		ORDER BY substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*')), '') FROM pg_index i
	WHERE i.indrelid = c.oid)
	FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = {here} AND NOT EXISTS (
	SELECT 1 FROM pg_constraint o WHERE o.conrelid = c.oid AND o.contype = 'c') AND NOT EXISTS (
	SELECT 1 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0
	AND NOT a.attisdropped AND t.typtype <> 'e' AND t.typnamespace <> 'pg_catalog'::regnamespace)`
