package sqldb

import (
	"context"
	"strconv"
)

// currentNamespace is the schema in which PostgreSQL creates tables.
const currentNamespace = "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())"

func postgresFamily(typname, typtype string) Family {
	switch typname {
	case "int2", "int4", "int8":
		return FamilyInt
	case "bool":
		return FamilyBool
	case "float4", "float8":
		return FamilyFloat
	case "numeric":
		return FamilyDecimal
	case "text", "varchar", "bpchar", "citext", "name":
		return FamilyText
	case "bytea":
		return FamilyBytes
	case "timestamptz", "timestamp":
		return FamilyTime
	case "date":
		return FamilyDate
	case "time":
		return FamilyClock
	case "timetz":
		return FamilyZoned
	case "json", "jsonb":
		return FamilyJSON
	case "uuid":
		return FamilyUUID
	}
	if typtype == "e" {
		return FamilyText
	}
	return FamilyOther
}

// postgresTables reads the tables of the first schema in the search path.
func postgresTables(ctx context.Context, d *DB) (map[string]*Table, error) {
	// Partitions are left out: rows are written to the table that they belong to.
	return readTables(ctx, d, "SELECT c.relname, (c.relkind = 'p')::int::text FROM pg_class c "+
		"WHERE c.relnamespace = "+currentNamespace+" AND c.relkind IN ('r', 'p') "+
		"AND NOT c.relispartition ORDER BY 1",
		// Tables from which others inherit. A partitioned table has rows only in its partitions.
		reading{"SELECT DISTINCT c.relname, " +
			"EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid)::int::text, " +
			"row_security_active(c.oid)::int::text " +
			"FROM pg_class c WHERE c.relnamespace = " + currentNamespace +
			" AND c.relkind IN ('r', 'p')", func(t *Table, row []string) error {
			t.Heirs, t.Hidden = row[1] == "1" && !t.partitioned, row[2] == "1"
			return nil
		}},
		reading{"SELECT c.relname, a.attname, t.typname, t.typtype::text, " +
			"format_type(a.atttypid, a.atttypmod), a.attnotnull::int::text, a.atthasdef::int::text, " +
			"(a.attidentity <> '' OR EXISTS (SELECT 1 FROM pg_attrdef e WHERE e.adrelid = a.attrelid AND " +
			"e.adnum = a.attnum AND pg_get_expr(e.adbin, e.adrelid) LIKE 'nextval(%'))::int::text, " +
			"(a.attgenerated <> '')::int::text, a.atttypmod::text, " +
			"COALESCE(l.collname, ''), CASE WHEN t.typname IN ('bpchar', 'citext') THEN t.typname " +
			// What a collation does stands in other columns in other versions.
			"WHEN NOT l.collisdeterministic THEN (to_jsonb(l) - '{oid,collnamespace,collowner}'::text[])::text " +
			"ELSE '' END FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid " +
			"JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation " +
			"WHERE c.relnamespace = " + currentNamespace + " AND c.relkind IN ('r', 'p') " +
			"AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum", postgresColumn},
		reading{"SELECT c.relname, x.relname, i.indisprimary::int::text, " +
			"COALESCE(a.attname, ''), pg_get_indexdef(i.indexrelid, k.n::int, true), " +
			"COALESCE(pg_get_expr(i.indpred, i.indrelid, true), ''), " +
			// PostgreSQL 14 has no such column.
			"COALESCE((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)::int::text FROM pg_index i " +
			"JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid " +
			"CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) AS k(n) " +
			"LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.n - 1] " +
			"AND i.indkey[k.n - 1] > 0 " +
			"WHERE c.relnamespace = " + currentNamespace + " AND i.indisunique " +
			"ORDER BY c.relname, x.relname, k.n", postgresKeyPart},
		reading{"SELECT c.relname, a.attname, " +
			"pg_get_expr(e.adbin, e.adrelid) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid " +
			"JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum " +
			"WHERE c.relnamespace = " + currentNamespace + " AND a.attgenerated <> ''", compute},
		reading{"SELECT c.relname, o.conname " +
			"FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid " +
			"WHERE o.contype = 'x' AND c.relnamespace = " + currentNamespace +
			" ORDER BY 1, 2", func(t *Table, row []string) error {
			t.Exclusions = append(t.Exclusions, row[1])
			return nil
		}},
		reading{"SELECT c.relname, o.conname, a.attname, p.relname, " +
			"b.attname FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid " +
			"JOIN pg_class p ON p.oid = o.confrelid " +
			"CROSS JOIN LATERAL generate_subscripts(o.conkey, 1) AS k(n) " +
			"JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = o.conkey[k.n] " +
			"JOIN pg_attribute b ON b.attrelid = o.confrelid AND b.attnum = o.confkey[k.n] " +
			"WHERE o.contype = 'f' AND o.conparentid = 0 " +
			"AND c.relnamespace = " + currentNamespace + " ORDER BY c.relname, o.conname, k.n", references()},
		// Those of a partition act on rows that are written to its table. Those for replicas only act nowhere
		// else.
		reading{"SELECT DISTINCT c.relname, t.tgname " +
			"FROM pg_trigger t " +
			"JOIN pg_class c ON c.oid = COALESCE(pg_partition_root(t.tgrelid), t.tgrelid) " +
			"WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') " +
			"AND c.relnamespace = " + currentNamespace + " ORDER BY t.tgname", addTrigger})
}

func postgresColumn(t *Table, row []string) error {
	mod, err := strconv.Atoi(row[9])
	if err != nil {
		return err
	}
	c := &Column{
		Name: row[1], Declared: row[4], Family: postgresFamily(row[2], row[3]), Nullable: row[5] == "0",
		HasDefault: row[6] == "1" || row[7] == "1", counted: row[7] == "1", Generated: row[8] == "1",
		Collation: row[10], precision: 6, folds: row[11], labels: row[3] == "e",
	}
	switch {
	case row[2] == "varchar" || row[2] == "bpchar":
		c.MaxChars = max(mod-4, 0)
	case (c.Family == FamilyTime || c.Family == FamilyClock) && mod >= 0:
		c.precision = mod
	}
	t.Columns = append(t.Columns, c)
	return nil
}

func postgresKeyPart(t *Table, row []string) error {
	if row[2] == "1" {
		t.Primary = append(t.Primary, row[3])
		return nil
	}
	part := KeyPart{Column: row[3]}
	if part.Column == "" {
		part.Expression = row[4]
	}
	addPart(t, UniqueKey{Name: row[1], where: row[5], nullsEqual: row[6] == "1"}, part)
	return nil
}
