package sqldb

import (
	"context"
	"strings"
)

func mysqlFamily(name string) Family {
	return familyOf(name, map[Family]string{
		FamilyInt: "tinyint smallint mediumint int bigint year bit", FamilyBool: "bit(1)",
		FamilyFloat:   "float double",
		FamilyDecimal: "decimal", FamilyText: "char varchar tinytext text mediumtext longtext enum set",
		FamilyBytes: "binary varbinary tinyblob blob mediumblob longblob", FamilyTime: "datetime timestamp",
		FamilyDate: "date", FamilyClock: "time", FamilyJSON: "json", FamilyUUID: "uuid",
	})
}

func mysqlTables(ctx context.Context, d *DB) (map[string]*Table, error) {
	return readTables(ctx, d,
		reading{`SELECT t.table_name, e.engine FROM information_schema.tables t
			LEFT JOIN information_schema.engines e ON e.engine = t.engine AND e.transactions = 'NO'
			WHERE t.table_schema = DATABASE() AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')`,
			func(t *Table, row []string) { t.Engine = row[1] }},
		// MariaDB has no indexes of expressions, and no column for them. It passes over this comment.
		reading{`SELECT table_name, index_name, non_unique = 0, column_name, COALESCE(sub_part, 0),
			CONCAT('' /*!80013 , COALESCE(expression, '') */) FROM information_schema.statistics s
			WHERE table_schema = DATABASE() AND (non_unique = 0 OR index_type = 'BTREE' AND NOT EXISTS (SELECT 1
			FROM information_schema.statistics o WHERE o.table_schema = s.table_schema AND
			o.table_name = s.table_name AND o.index_name = s.index_name AND o.column_name IS NULL))
			ORDER BY table_name, index_name, seq_in_index`, indexes(mysqlKeyPart)},
		// DEFAULT_GENERATED marks a default that is an expression, not a generated column. All collations but
		// those of which the names end like this ignore blanks at the end. Quotes in expressions are escaped.
		reading{`SELECT table_name, column_name, LOWER(column_type), CASE LOWER(column_type) WHEN 'bit(1)' THEN
			'bit(1)' ELSE LOWER(data_type) END, is_nullable = 'YES', column_default IS NOT NULL,
			UPPER(extra) LIKE '%AUTO_INCREMENT%', UPPER(extra) LIKE '%VIRTUAL%' OR
			UPPER(extra) LIKE '%STORED GENERATED%' OR UPPER(extra) LIKE '%PERSISTENT%', character_maximum_length,
			datetime_precision, collation_name, CASE WHEN collation_name NOT LIKE '%\_0900\_bin' AND
			collation_name NOT LIKE '%\_nopad\_bin' THEN collation_name END, column_default,
			REPLACE(generation_expression, '\\''', ''''), '', column_type FROM information_schema.columns
			WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`, columns(mysqlFamily)},
		reading{`SELECT table_name, constraint_name, column_name, referenced_table_name, referenced_column_name
			FROM information_schema.key_column_usage WHERE table_schema = DATABASE()
			AND referenced_table_schema = DATABASE()
			ORDER BY table_name, constraint_name, ordinal_position`, references()},
		reading{`SELECT DISTINCT table_name, constraint_name, CONCAT(referenced_table_schema, '.',
			referenced_table_name) FROM information_schema.key_column_usage WHERE table_schema = DATABASE()
			AND referenced_table_schema <> DATABASE() ORDER BY 1, 2`, abroad},
		reading{`SELECT event_object_table, trigger_name FROM information_schema.triggers
			WHERE trigger_schema = DATABASE() ORDER BY trigger_name`, addTrigger})
}

func mysqlKeyPart(t *Table, row []string) {
	part := KeyPart{Column: row[3]}
	switch {
	case row[1] == "PRIMARY":
		t.Primary = append(t.Primary, row[3])
		return
	case row[3] == "" && row[5] != "": // The catalog has escaped its quotes.
		part = KeyPart{Expression: "(" + strings.ReplaceAll(row[5], `\'`, "'") + ")"}
	case row[4] != "0": // the key covers a prefix of the column
		part = KeyPart{Expression: "LEFT(" + MySQL.Quote(row[3]) + ", " + row[4] + ")"}
	}
	addPart(t, UniqueKey{Name: row[1]}, part)
}

func mysqlObjects(ctx context.Context, d *DB) error {
	rows, err := d.Strings(ctx, d.SQL(`SELECT CASE WHEN UPPER(engine) IN ('FEDERATED', 'CONNECT', 'MRG_MYISAM',
		'SPIDER', 'BLACKHOLE') THEN 'foreign table' ELSE LOWER(table_type) END, table_name, engine
		FROM information_schema.tables WHERE table_schema = DATABASE()`))
	for _, row := range rows {
		o := Object{Kind: row[0], Name: row[1]}
		switch {
		case o.Kind == "foreign table":
			o.What, o.Rows = "of the engine "+row[2], true
			delete(d.Tables, o.Name)
		case o.Kind == "system versioned":
			o.Kind, o.What = "history", "of a table with system versioning: rows as they were before"
		case d.Tables[o.Name] != nil, o.Kind == "sequence" && d.givesDefaults(o.Name):
			continue // such a sequence is set when all rows are there
		default:
			o.Rows = o.Kind != "view" && o.Kind != "sequence"
		}
		d.Objects = append(d.Objects, o)
	}
	if err != nil {
		return err
	}
	events, err := d.Strings(ctx, d.SQL("SELECT event_name, status = 'ENABLED' "+
		"AND @@event_scheduler = 'ON' FROM information_schema.events WHERE event_schema = DATABASE()"))
	for _, row := range events {
		d.Objects = append(d.Objects, Object{Kind: "event", Name: row[0], Acts: row[1] == "1"})
	}
	return err
}
