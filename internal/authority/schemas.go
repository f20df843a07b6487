package authority

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// inSchema returns the table of leases of an origin if it was named with a schema, and that table or a copy
// of it lies in such a schema of this database.
func (d Database) inSchema(ctx context.Context, want Origin) (table string, err error) {
	if !want.IsIdentified() || !strings.Contains(want.Table, ".") {
		return "", nil
	}
	beside, bare := d.Beside(want.Table)
	rows, err := beside.rows(ctx)
	switch {
	case err != nil && (IsMissing(err) || isForbidden(err)):
		return "", nil // what this login cannot read, no program leases from under this login
	case err != nil:
		return "", err
	case rows[subjectLeases+bare].ID == want.ID:
		return want.Table, nil
	}
	return "", nil
}

// Elsewhere lists the tables of leases with an identity that lie in other schemas of the server than those
// of the database's connections, as far as the login may read them. On MySQL a schema is a database.
func (d Database) Elsewhere(ctx context.Context, id string) (tables []string, err error) {
	here := map[string]string{
		dialectPostgres: "ANY (current_schemas(false))", dialectMySQL: "DATABASE()",
	}[d.Dialect]
	if here == "" {
		return nil, nil
	}
	schemas, err := query(ctx, d.Pool, fmt.Sprintf("SELECT table_schema FROM information_schema.tables "+
		"WHERE table_name = '%s' AND NOT (table_schema = %s)", Table, here))
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	for _, schema := range schemas {
		if strings.Contains(schema[0], ".") {
			continue // no name of a table can say this
		}
		beside, _ := d.Beside(schema[0] + "." + DefaultLeases)
		rows, err := beside.rows(ctx)
		if err != nil {
			if IsMissing(err) || isForbidden(err) {
				continue
			}
			return nil, d.failed(ctx, err)
		}
		for subject, row := range rows {
			if table, ok := strings.CutPrefix(subject, subjectLeases); ok && row.ID == id {
				tables = append(tables, schema[0]+"."+table)
			}
		}
	}
	slices.Sort(tables)
	return tables, nil
}

// isForbidden reports whether an error says that the login may not read a table, or that there is no such
// schema.
func isForbidden(err error) bool {
	said := err.Error()
	switch state(err) {
	case "42501", "3F000":
		return true
	}
	for _, code := range []string{"Error 1044", "Error 1049", "Error 1142"} {
		if strings.Contains(said, code) {
			return true
		}
	}
	return strings.Contains(said, "unknown database") // SQLite
}
