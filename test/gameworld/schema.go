package gameworld

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Schema returns the statements that make the tables which [Create] makes for this Config, with what
// is wrong with them. Of the Config only Names and Faults count here.
func (c Config) Schema(kind Kind) ([]string, error) {
	if err := kind.validate(); err != nil {
		return nil, err
	}
	if err := c.validateSchema(); err != nil {
		return nil, err
	}
	d := c.ddl(kind)
	return slices.Concat(d.tables, d.indexes, d.references), nil
}

// ddl are the statements of a schema, in the order in which they are possible.
type ddl struct{ tables, indexes, references []string }

// ddl writes the statements. The Config is valid.
func (c Config) ddl(kind Kind) ddl {
	var d ddl
	if kind == Postgres && c.Names == FoldedNames {
		d.tables = append(d.tables, fmt.Sprintf("CREATE COLLATION IF NOT EXISTS %s "+
			"(provider = icu, locale = 'und-u-ks-level1', deterministic = false)", kind.quote(foldedCollation)))
	}
	for _, t := range c.tables() {
		d.tables = append(d.tables, c.createTable(kind, t))
		if kind != MySQL {
			for _, columns := range t.unique {
				d.indexes = append(d.indexes, "CREATE UNIQUE INDEX "+onColumns(kind, t.name, columns))
			}
			for _, name := range t.index {
				d.indexes = append(d.indexes, "CREATE INDEX "+onColumns(kind, t.name, []string{name}))
			}
		}
		if kind != SQLite {
			for _, column := range t.columns {
				if column.refs != "" {
					d.references = append(d.references, c.addReference(kind, t, column))
				}
			}
		}
	}
	return d
}

// tables are those that this server has.
func (c Config) tables() []table {
	return slices.DeleteFunc(tables(), func(t table) bool { return t.name == c.Faults.MissingTable })
}

// createTable writes one table. MySQL takes the indexes along, and SQLite knows foreign keys only
// here.
func (c Config) createTable(kind Kind, t table) string {
	var lines []string
	for _, column := range t.columns {
		lines = append(lines, c.columnLine(kind, t, column))
	}
	if c.Faults.OtherOrder {
		slices.Reverse(lines)
	}
	if !countedBySQLite(kind, t) {
		lines = append(lines, "PRIMARY KEY ("+kind.list(t.key)+")")
	}
	suffix := ""
	switch kind {
	case MySQL:
		suffix = " ENGINE=InnoDB"
		for _, columns := range t.unique {
			lines = append(lines, fmt.Sprintf("UNIQUE KEY %s (%s)",
				kind.quote(indexName(t.name, columns)), kind.list(columns)))
		}
		for _, name := range t.index {
			lines = append(lines, fmt.Sprintf("KEY %s (%s)",
				kind.quote(indexName(t.name, []string{name})), kind.quote(name)))
		}
	case SQLite:
		for _, column := range t.columns {
			if column.refs != "" {
				lines = append(lines, foreignKey(kind, column))
			}
		}
	}
	return fmt.Sprintf("CREATE TABLE %s (\n    %s\n)%s", kind.quote(t.name),
		strings.Join(lines, ",\n    "), suffix)
}

// columnLine writes one column.
func (c Config) columnLine(kind Kind, t table, column column) string {
	line := kind.quote(column.name) + " " + kind.typeOf(column, c.Names)
	if !column.null {
		line += " NOT NULL"
	}
	switch {
	case column.form == formAuto && countedBySQLite(kind, t):
		line += " PRIMARY KEY AUTOINCREMENT"
	case column.form == formName && kind == SQLite:
		// SQLite does not mind what stands between the parentheses of a varchar.
		line += " CHECK (length(" + kind.quote(column.name) + ") <= " + strconv.Itoa(column.size) + ")"
	}
	return line
}

// countedBySQLite tells whether SQLite counts the key of a table, which it does only for a key that
// is declared in the line of its column.
func countedBySQLite(kind Kind, t table) bool { return kind == SQLite && t.columns[0].form == formAuto }

func foreignKey(kind Kind, c column) string {
	return fmt.Sprintf("FOREIGN KEY (%s) REFERENCES %s (%s)",
		kind.quote(c.name), kind.quote(c.refs), kind.quote("id"))
}

// addReference writes a foreign key of a table that is there. PostgreSQL looks at the rows that it
// has, unless it is told that they may be wrong.
func (c Config) addReference(kind Kind, t table, column column) string {
	statement := fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s %s", kind.quote(t.name),
		kind.quote("fk_"+t.name+"_"+column.name), foreignKey(kind, column))
	if kind == Postgres && c.Faults.Orphans > 0 && slices.Contains(orphaned(), t.name+"."+column.name) {
		statement += " NOT VALID"
	}
	return statement
}

// orphaned are the references that Faults.Orphans breaks.
func orphaned() []string { return []string{"items.role_id", "mail.to_id", "roles.guild_id"} }

func indexName(table string, columns []string) string {
	return table + "_" + strings.Join(columns, "_")
}

// onColumns is the end of a CREATE INDEX.
func onColumns(kind Kind, table string, columns []string) string {
	return fmt.Sprintf("%s ON %s (%s)",
		kind.quote(indexName(table, columns)), kind.quote(table), kind.list(columns))
}
