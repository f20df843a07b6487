package sqldb

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Object is something in a database that is no table of the catalog.
type Object struct {
	Kind string // view, sequence, schema and so on
	Name string
	What string // what there is to know about it
	Rows bool   // it may hold rows that are nowhere else
	Acts bool   // the database runs it by itself
}

// readObjects lists what the database holds besides the tables of its catalog. It asks for everything that
// has a name and takes away what the catalog has, so a kind that nobody has thought of is listed too.
func readObjects(ctx context.Context, d *DB) error {
	var err error
	switch d.Kind {
	case SQLite:
		err = sqliteObjects(ctx, d)
	case MySQL:
		err = mysqlObjects(ctx, d)
	case PostgreSQL:
		err = postgresObjects(ctx, d)
	}
	for _, t := range d.Tables {
		for _, name := range t.Triggers {
			d.Objects = append(d.Objects, Object{Kind: "trigger", Name: name, What: "of the table " + t.Name})
		}
	}
	slices.SortFunc(d.Objects, func(a, b Object) int {
		return strings.Compare(a.Kind+"\x00"+a.Name, b.Kind+"\x00"+b.Name)
	})
	return err
}

func sqliteObjects(ctx context.Context, d *DB) error {
	rows, err := d.Strings(ctx, NewStatement(SQLite, "SELECT type, name FROM pragma_table_list "+
		"WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"))
	for _, row := range rows {
		switch kind := row[0]; {
		case kind == "shadow": // a part of a virtual table
			delete(d.Tables, row[1])
		case d.Tables[row[1]] == nil:
			if kind == "virtual" {
				kind = "virtual table"
			}
			d.Objects = append(d.Objects, Object{Kind: kind, Name: row[1], Rows: kind != "view"})
		}
	}
	return err
}

func mysqlObjects(ctx context.Context, d *DB) error {
	rows, err := d.Strings(ctx, NewStatement(MySQL, "SELECT table_name, table_type, COALESCE(engine, '') "+
		"FROM information_schema.tables WHERE table_schema = DATABASE()"))
	for _, row := range rows {
		kind := strings.ToLower(row[1])
		engine := strings.ToUpper(row[2])
		far := slices.Contains([]string{"FEDERATED", "CONNECT", "MRG_MYISAM", "SPIDER", "BLACKHOLE"}, engine)
		switch {
		case far:
			delete(d.Tables, row[0])
			d.Objects = append(d.Objects,
				Object{Kind: "foreign table", Name: row[0], What: "of the engine " + row[2], Rows: true})
		case kind == "system versioned":
			d.Objects = append(d.Objects, Object{Kind: "history", Name: row[0],
				What: "of a table with system versioning: rows as they were before"})
		case kind == "sequence" && d.givesDefaults(row[0]): // it is set when all rows are there
		case d.Tables[row[0]] == nil:
			rows := kind != "view" && kind != "sequence"
			d.Objects = append(d.Objects, Object{Kind: kind, Name: row[0], Rows: rows})
		}
	}
	if err != nil {
		return err
	}
	events, err := d.Strings(ctx, NewStatement(MySQL, "SELECT event_name, status = 'ENABLED' "+
		"AND @@event_scheduler = 'ON' FROM information_schema.events WHERE event_schema = DATABASE()"))
	for _, row := range events {
		d.Objects = append(d.Objects, Object{Kind: "event", Name: row[0], Acts: row[1] == "1"})
	}
	return err
}

func postgresObjects(ctx context.Context, d *DB) error {
	rows, err := d.Strings(ctx, NewStatement(PostgreSQL, "SELECT n.nspname, c.relname, c.relkind::text, "+
		"(n.nspname = current_schema())::int::text, c.relispartition::int::text, "+
		"EXISTS (SELECT 1 FROM pg_depend p WHERE p.classid = 'pg_class'::regclass "+
		"AND p.objid = c.oid AND p.deptype = 'e')::int::text, "+
		"EXISTS (SELECT 1 FROM pg_depend p WHERE p.classid = 'pg_class'::regclass AND p.objid = c.oid "+
		"AND p.refclassid = 'pg_class'::regclass AND p.deptype IN ('a', 'i') OR p.classid = "+
		"'pg_attrdef'::regclass AND p.refclassid = 'pg_class'::regclass AND p.refobjid = c.oid)::int::text FROM "+
		"pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', "+
		"'S') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' ORDER BY 1, 2"))
	if err != nil {
		return err
	}
	others := map[string][]string{}
	kinds := map[string]string{"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence",
		"r": "table", "p": "partitioned table"}
	for _, row := range rows {
		kind := kinds[row[2]]
		o := Object{Kind: kind, Name: row[1], Rows: row[2] == "f" || row[2] == "r" || row[2] == "p"}
		switch {
		case row[5] == "1": // an extension makes it, in the target too
			if o.Rows {
				o.What, o.Rows = "of an extension", false
				d.Objects = append(d.Objects, o)
				delete(d.Tables, row[1])
			}
		case row[3] == "0":
			if o.Rows {
				others[row[0]] = append(others[row[0]], row[0]+"."+row[1])
			}
		case row[2] == "S" && row[6] == "1": // of a column, which is set when all rows are there
		case row[4] == "1" && row[2] != "f": // a partition: its rows are those of its table
		case d.Tables[row[1]] == nil:
			d.Objects = append(d.Objects, o)
		}
	}
	for name, t := range d.Tables {
		if len(t.Columns) == 0 {
			delete(d.Tables, name)
			d.Objects = append(d.Objects, Object{Kind: "table without columns", Name: name, Rows: true})
		}
	}
	large, err := d.Number(ctx, NewStatement(PostgreSQL, "SELECT COUNT(*) FROM pg_largeobject_metadata"))
	if large > 0 {
		d.Objects = append(d.Objects, Object{Kind: "large object store", Name: "pg_largeobject", Rows: true,
			What: fmt.Sprintf("with %d objects", large)})
	}
	if err != nil {
		return err
	}
	for schema, tables := range others {
		what := fmt.Sprintf("with %d tables: %s", len(tables), strings.Join(tables[:min(len(tables), 5)], ", "))
		d.Objects = append(d.Objects, Object{Kind: "schema", Name: schema, What: what, Rows: true})
	}
	return nil
}
