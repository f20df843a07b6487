package merge

import (
	"context"
	"strconv"
	"strings"
)

// mysqlTables reads the tables of the database that the connection is in.
func (d *database) mysqlTables(ctx context.Context) (map[string]*table, error) {
	return d.readTables(ctx, "SELECT table_name FROM information_schema.tables "+
		"WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' ORDER BY table_name",
		d.mysqlColumns, d.mysqlIndexes, d.mysqlReferences, d.mysqlTriggers)
}

func (d *database) mysqlColumns(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(MySQL, "SELECT table_name, column_name, data_type, column_type, "+
		"is_nullable, column_default IS NOT NULL, extra, COALESCE(character_maximum_length, 0), "+
		"COALESCE(collation_name, ''), COALESCE(datetime_precision, 0) FROM information_schema.columns "+
		"WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position"))
	if err != nil {
		return err
	}
	for _, row := range rows {
		t := tables[row[0]]
		if t == nil {
			continue
		}
		extra := strings.ToUpper(row[6])
		c := &column{
			name: row[1], declared: strings.ToLower(row[3]), family: mysqlFamily(row[2], row[3]),
			nullable: row[4] == "YES", collation: row[8],
			fallback: row[5] == "1" || strings.Contains(extra, "AUTO_INCREMENT"),
			// DEFAULT_GENERATED is MySQL 8's word for a default that is an expression.
			generated: strings.Contains(extra, "VIRTUAL") || strings.Contains(extra, "STORED GENERATED") ||
				strings.Contains(extra, "PERSISTENT"),
		}
		if c.family == familyText {
			// A LONGTEXT has no limit that could matter, and its number may not fit.
			c.maxChars, _ = strconv.Atoi(row[7])
		}
		c.precision, _ = strconv.Atoi(row[9])
		t.columns = append(t.columns, c)
	}
	return nil
}

func mysqlFamily(dataType, columnType string) family {
	switch strings.ToLower(dataType) {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit":
		if strings.EqualFold(columnType, "bit(1)") {
			return familyBool
		}
		return familyInt
	case "float", "double":
		return familyFloat
	case "decimal":
		return familyDecimal
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return familyText
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return familyBytes
	case "datetime", "timestamp":
		return familyTime
	case "date":
		return familyDate
	case "time":
		return familyClock
	case "json":
		return familyJSON
	case "uuid":
		return familyUUID
	}
	return familyOther
}

func (d *database) mysqlIndexes(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(MySQL,
		"SELECT table_name, index_name, COALESCE(column_name, ''), "+
			"COALESCE(sub_part, 0) FROM information_schema.statistics WHERE table_schema = DATABASE() "+
			"AND non_unique = 0 ORDER BY table_name, index_name, seq_in_index"))
	if err != nil {
		return err
	}
	for _, row := range rows {
		t := tables[row[0]]
		if t == nil {
			continue
		}
		if row[1] == "PRIMARY" {
			t.primary = append(t.primary, row[2])
			continue
		}
		if n := len(t.unique); n == 0 || t.unique[n-1].name != row[1] {
			t.unique = append(t.unique, uniqueKey{name: row[1]})
		}
		key := &t.unique[len(t.unique)-1]
		part := keyPart{column: row[2]}
		if row[3] != "0" { // only so many characters of the column count
			part = keyPart{expression: "LEFT(" + MySQL.quote(row[2]) + ", " + row[3] + ")"}
		}
		key.parts = append(key.parts, part)
	}
	return nil
}

func (d *database) mysqlReferences(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(MySQL, "SELECT table_name, constraint_name, column_name, "+
		"referenced_table_name, referenced_column_name FROM information_schema.key_column_usage "+
		"WHERE table_schema = DATABASE() AND referenced_table_schema = DATABASE() "+
		"ORDER BY table_name, constraint_name, ordinal_position"))
	addReferences(tables, rows)
	return err
}

func (d *database) mysqlTriggers(ctx context.Context, tables map[string]*table) error {
	rows, err := d.strings(ctx, newStatement(MySQL, "SELECT event_object_table, trigger_name "+
		"FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY trigger_name"))
	addTriggers(tables, rows)
	return err
}
