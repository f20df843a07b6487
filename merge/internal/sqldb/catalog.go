package sqldb

import "context"

// addReferences adds foreign keys to their tables. The rows hold table, constraint, column, parent table and
// parent column, and the columns of a constraint follow each other. Without a parent column it refers to the
// primary key.
func addReferences(tables map[string]*Table, rows [][]string) {
	last := ""
	for _, row := range rows {
		t := tables[row[0]]
		if t == nil {
			continue
		}
		if name := row[0] + "\x00" + row[1]; name != last {
			t.References = append(t.References, Reference{Parent: row[3], Enforced: true})
			last = name
		}
		ref := &t.References[len(t.References)-1]
		ref.Columns = append(ref.Columns, row[2])
		if row[4] != "" {
			ref.Target = append(ref.Target, row[4])
		}
	}
}

// addTriggers adds triggers to their tables. The rows hold table and trigger.
func addTriggers(tables map[string]*Table, rows [][]string) {
	for _, row := range rows {
		if t := tables[row[0]]; t != nil {
			t.Triggers = append(t.Triggers, row[1])
		}
	}
}

// readTables makes the tables that a query names and has each reader add its part.
func readTables(ctx context.Context, d *DB, names string,
	readers ...func(context.Context, *DB, map[string]*Table) error) (map[string]*Table, error) {
	rows, err := d.Strings(ctx, NewStatement(d.Kind, names))
	if err != nil {
		return nil, err
	}
	tables := map[string]*Table{}
	for _, row := range rows {
		tables[row[0]] = &Table{Name: row[0], partitioned: len(row) > 1 && row[1] == "1"}
	}
	for _, read := range readers {
		if err := read(ctx, d, tables); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// computed notes the expressions of generated columns. The rows hold table, column and expression.
func computed(tables map[string]*Table, rows [][]string) {
	all := map[string]map[string]string{}
	for _, row := range rows {
		if all[row[0]] == nil {
			all[row[0]] = map[string]string{}
		}
		all[row[0]][row[1]] = row[2]
	}
	for name, expressions := range all {
		if t := tables[name]; t != nil {
			t.compute(expressions)
		}
	}
}
