package router

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// checkForeign refuses a foreign key that leads from another table to the table of a shard. When a cutover
// removes moved rows from that table, the database would refuse, or delete or change rows of the other table.
// Tables of the same shard may refer to each other, because their rows move together.
func (d *Resharding) checkForeign(ctx context.Context) error {
	for shard := range d.from.shards {
		together := map[string]bool{}
		for _, m := range d.from.models {
			if !m.broadcast {
				_, name := splitTable(m.table(shard))
				together[name] = true
			}
		}
		for _, m := range d.from.models {
			if m.broadcast {
				continue
			}
			err := d.from.eachReferring(ctx, d.from.place[shard], m.table(shard), func(table, key string) error {
				if together[table] {
					return nil
				}
				return fmt.Errorf("%w: the foreign key %s leads from the table %s to %s, whose rows will move to "+
					"another table: drop it first", errs.ErrSharding, key, table, m.table(shard))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// eachReferring visits the foreign keys that lead to a table.
func (t *topology) eachReferring(
	ctx context.Context, database int, to string, visit func(table, key string) error,
) error {
	db := t.dbs[database]
	space, name := splitTable(to)
	var query string
	var args []any
	switch db.Name() {
	case dialectPostgres:
		query = "SELECT c.relname, o.conname FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid " +
			"WHERE o.contype = 'f' AND o.confrelid = to_regclass(?)"
		args = []any{db.Statement.Quote(to)}
	case dialectMySQL:
		query = "SELECT TABLE_NAME, CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS " +
			"WHERE REFERENCED_TABLE_NAME = ? AND UNIQUE_CONSTRAINT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE())"
		args = []any{name, space}
	default:
		if space != "" {
			return nil // The other database of the connection is not asked.
		}
		query = "SELECT t.name, 'of column ' || k.\"from\" FROM sqlite_master t, " +
			"pragma_foreign_key_list(t.name) k WHERE t.type = 'table' AND lower(k.\"table\") = lower(?)"
		args = []any{name}
	}
	return t.eachPlainRow(ctx, db, func(rows *sql.Rows) error {
		var table, key string
		err := rows.Scan(&table, &key)
		if err == nil {
			err = visit(table, key)
		}
		return err
	}, query, args...)
}
