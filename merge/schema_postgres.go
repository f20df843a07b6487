package merge

import (
	"context"
	"strconv"
)

// postgresTables reads the tables of the first schema in the search path.
func (d *database) postgresTables(ctx context.Context) (map[string]*table, error) {
	// A partition is part of its table, which is the one to write to.
	return d.readTables(ctx, "SELECT c.relname FROM pg_class c "+
		"WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') "+
		"AND NOT c.relispartition ORDER BY 1",
		d.postgresColumns, d.postgresIndexes, d.postgresReferences, d.postgresTriggers)
}

func (d *database) postgresColumns(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(PostgreSQL,
		"SELECT c.relname, a.attname, t.typname, t.typtype::text, "+
			"format_type(a.atttypid, a.atttypmod), a.attnotnull::int::text, a.atthasdef::int::text, "+
			"(a.attidentity <> '')::int::text, (a.attgenerated <> '')::int::text, a.atttypmod::text, "+
			"COALESCE(l.collname, '') FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "+
			"JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation "+
			"WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') "+
			"AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum"))
	if err != nil {
		return err
	}
	for _, row := range rows {
		t := tables[row[0]]
		if t == nil {
			continue
		}
		mod, err := strconv.Atoi(row[9])
		if err != nil {
			return err
		}
		c := &column{
			name: row[1], declared: row[4], family: postgresFamily(row[2], row[3]), nullable: row[5] == "0",
			fallback: row[6] == "1" || row[7] == "1", generated: row[8] == "1", collation: row[10], precision: 6,
		}
		switch {
		case row[2] == "varchar" || row[2] == "bpchar":
			c.maxChars = max(mod-4, 0)
		case (c.family == familyTime || c.family == familyClock) && mod >= 0:
			c.precision = mod
		}
		t.columns = append(t.columns, c)
	}
	return nil
}

func postgresFamily(typname, typtype string) family {
	switch typname {
	case "int2", "int4", "int8":
		return familyInt
	case "bool":
		return familyBool
	case "float4", "float8":
		return familyFloat
	case "numeric":
		return familyDecimal
	case "text", "varchar", "bpchar", "citext", "name":
		return familyText
	case "bytea":
		return familyBytes
	case "timestamptz", "timestamp":
		return familyTime
	case "date":
		return familyDate
	case "time", "timetz":
		return familyClock
	case "json", "jsonb":
		return familyJSON
	case "uuid":
		return familyUUID
	}
	if typtype == "e" {
		return familyText
	}
	return familyOther
}

func (d *database) postgresIndexes(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(PostgreSQL,
		"SELECT c.relname, x.relname, i.indisprimary::int::text, "+
			"COALESCE(a.attname, ''), pg_get_indexdef(i.indexrelid, k.n::int, true), "+
			"COALESCE(pg_get_expr(i.indpred, i.indrelid, true), '') FROM pg_index i "+
			"JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid "+
			"CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) AS k(n) "+
			"LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k.n - 1] "+
			"AND i.indkey[k.n - 1] > 0 WHERE c.relnamespace = current_schema()::regnamespace AND i.indisunique "+
			"ORDER BY c.relname, x.relname, k.n"))
	if err != nil {
		return err
	}
	for _, row := range rows {
		t := tables[row[0]]
		if t == nil {
			continue
		}
		if row[2] == "1" {
			t.primary = append(t.primary, row[3])
			continue
		}
		if n := len(t.unique); n == 0 || t.unique[n-1].name != row[1] {
			t.unique = append(t.unique, uniqueKey{name: row[1], where: row[5]})
		}
		key := &t.unique[len(t.unique)-1]
		part := keyPart{column: row[3]}
		if part.column == "" {
			part.expression = row[4]
		}
		key.parts = append(key.parts, part)
	}
	return nil
}

func (d *database) postgresReferences(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(PostgreSQL, "SELECT c.relname, o.conname, a.attname, p.relname, "+
		"b.attname FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid "+
		"JOIN pg_class p ON p.oid = o.confrelid "+
		"CROSS JOIN LATERAL generate_subscripts(o.conkey, 1) AS k(n) "+
		"JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = o.conkey[k.n] "+
		"JOIN pg_attribute b ON b.attrelid = o.confrelid AND b.attnum = o.confkey[k.n] "+
		"WHERE o.contype = 'f' AND o.conparentid = 0 "+
		"AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname, o.conname, k.n"))
	addReferences(tables, rows)
	return err
}

func (d *database) postgresTriggers(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(PostgreSQL, "SELECT c.relname, t.tgname FROM pg_trigger t "+
		"JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' "+
		"AND c.relnamespace = current_schema()::regnamespace ORDER BY t.tgname"))
	addTriggers(tables, rows)
	return err
}
