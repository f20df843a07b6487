package sqldb

import (
	"context"
	"regexp"
	"strings"
)

// mysqlPartitions returns the condition under which a table of MySQL has a partition for a row. It is "" if
// there is one for every row. Only ranges and lists can have none. The definition is what SHOW CREATE TABLE
// says of the table.
func mysqlPartitions(ctx context.Context, d *DB, table, definition string) (string, error) {
	rows, err := d.Strings(ctx, NewStatement(MySQL, "SELECT DISTINCT PARTITION_METHOD, PARTITION_EXPRESSION, "+
		"PARTITION_DESCRIPTION, PARTITION_ORDINAL_POSITION FROM information_schema.PARTITIONS "+
		"WHERE TABLE_SCHEMA = DATABASE() "+
		"AND PARTITION_METHOD IN ('RANGE', 'LIST', 'RANGE COLUMNS', 'LIST COLUMNS') "+
		"AND PARTITION_DESCRIPTION IS NOT NULL AND TABLE_NAME = ").Bind(table).
		Add(" ORDER BY PARTITION_ORDINAL_POSITION"))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	method, expression := rows[0][0], rows[0][1]
	if strings.HasPrefix(method, "RANGE") {
		bounds := splitSQL(rows[len(rows)-1][2]) // those of the last partition are the highest
		columns := []string{expression}
		if method == "RANGE COLUMNS" {
			columns = splitSQL(expression)
		}
		return below(columns, bounds), nil
	}
	if holdsOthers.MatchString(definition) {
		return "", nil // the catalog describes that partition as one for the number 0
	}
	var fits []string
	for _, row := range rows {
		// A CHECK lets a comparison with = pass that is NULL, but a list takes NULL only if it names NULL.
		for _, v := range splitSQL(row[2]) {
			fits = append(fits, "("+expression+") <=> "+v)
		}
	}
	return strings.Join(fits, " OR "), nil
}

// holdsOthers finds the partition of MariaDB for all values that no other one has.
var holdsOthers = regexp.MustCompile("(?m)^[ (]*PARTITION (`([^`]|``)*`|\\w+) DEFAULT\\b")

// below is the condition that columns are less than bounds, the first of them first, or "" if they always
// are. NULL is less than all.
func below(columns, bounds []string) string {
	if len(columns) == 0 || len(columns) != len(bounds) || strings.EqualFold(bounds[0], "MAXVALUE") {
		return ""
	}
	null, less, equal := columns[0]+" IS NULL OR ", columns[0]+" < "+bounds[0], columns[0]+" = "+bounds[0]
	if len(columns) == 1 {
		return null + less
	}
	if rest := below(columns[1:], bounds[1:]); rest != "" {
		return null + less + " OR " + equal + " AND (" + rest + ")"
	}
	return null + less + " OR " + equal
}

// splitSQL splits a list at the commas that are outside of quotation marks and parentheses.
func splitSQL(list string) []string {
	var parts []string
	depth, begin := 0, 0
	var quote rune
	for i, c := range list {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '`' || c == '"':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, strings.TrimSpace(list[begin:i]))
			begin = i + 1
		}
	}
	return append(parts, strings.TrimSpace(list[begin:]))
}
