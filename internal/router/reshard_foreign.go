package router

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// checkForeign refuses a foreign key that leads to the table of a shard, unless the rows at both its ends
// move together. When a cutover removes moved rows from that table, the database would refuse, or delete or
// change rows of the other table, or such that stay in this one.
func (d *Resharding) checkForeign(ctx context.Context) error {
	return d.eachForeign(ctx, 0, d.from.shards, foreignKey.checkMovesTogether)
}

// checkMovesTogether refuses a foreign key between tables of one shard if the rows that it joins may part.
func (k foreignKey) checkMovesTogether(to string, child, parent *shardModel) error {
	if k.staysTogether(child, parent) {
		return nil
	}
	return fmt.Errorf("%w: the foreign key %s leads from the table %s to %s, and only one of two rows that it "+
		"joins may move to another table: drop it first. A foreign key may stay if it leads from the field that "+
		"a like: tag names, or from the key, to such a field", errs.ErrSharding, k.name, k.table, to)
}

// checkForeignToOld refuses a foreign key that leads from a table without shards to the table of a shard.
func (d *Resharding) checkForeignToOld(ctx context.Context) error {
	return d.eachForeign(ctx, 0, d.from.shards, anyForeignKey)
}

// checkForeignToNew refuses a foreign key that leads from a table without shards to a new table. Cutover
// removes outdated copies, and Undo drops the table: SQLite would first delete the rows, and also the rows
// that refer to them.
func (d *Resharding) checkForeignToNew(ctx context.Context) error {
	return d.eachForeign(ctx, d.from.shards, d.to.shards, anyForeignKey)
}

// anyForeignKey accepts every foreign key between tables of one shard.
func anyForeignKey(foreignKey, string, *shardModel, *shardModel) error { return nil }

// eachForeign visits the foreign keys between tables of one shard, for some shards, and refuses those that
// lead there from other tables.
func (d *Resharding) eachForeign(
	ctx context.Context, first, end int,
	visit func(key foreignKey, to string, child, parent *shardModel) error,
) error {
	for shard := first; shard < end; shard++ {
		for _, m := range d.to.models {
			if m.broadcast {
				continue
			}
			to := m.table(shard)
			together := d.to.namesFrom(to, shard)
			keys, err := d.to.referring(ctx, d.to.place[shard], to)
			if err != nil {
				return fmt.Errorf("snowflakeplugin: reshard: the foreign keys to %s: %w", to, err)
			}
			for _, key := range keys {
				child := together[strings.ToLower(key.table)]
				if child == nil {
					return fmt.Errorf("%w: the foreign key %s leads from the table %s to %s, from which a resharding "+
						"removes rows: drop it first", errs.ErrSharding, key.name, key.table, to)
				}
				if err := visit(key, to, child, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// namesFrom returns the models by the names that referring gives their tables of one shard: without the
// schema, if that is the schema of the table to.
func (t *topology) namesFrom(to string, shard int) map[string]*shardModel {
	home, _ := splitTable(to)
	names := map[string]*shardModel{}
	for _, m := range t.models {
		if m.broadcast {
			continue
		}
		space, name := splitTable(m.table(shard))
		if space != home {
			name = space + "." + name
		}
		names[strings.ToLower(name)] = m
	}
	return names
}

// foreignKey is a foreign key to a known table.
type foreignKey struct {
	table, name string
	pairs       [][2]string // column, and the one that it refers to, which is empty for the primary key
}

// staysTogether reports whether equal values are on one shard, whatever the number of shards is.
func (k foreignKey) staysTogether(child, parent *shardModel) bool {
	for _, pair := range k.pairs {
		if child.placedBy(pair[0]) && (pair[1] == "" || parent.placedBy(pair[1])) {
			return true
		}
	}
	return false
}

// placedBy reports whether a column tells the shard of its row.
func (m *shardModel) placedBy(column string) bool {
	return strings.EqualFold(column, m.key.DBName) || m.like != nil && strings.EqualFold(column, m.like.DBName)
}

// referring lists the foreign keys that lead to a table.
func (t *topology) referring(ctx context.Context, database int, to string) ([]foreignKey, error) {
	db := t.dbs[database]
	space, name := splitTable(to)
	var query string
	var args []any
	switch db.Name() {
	case dialectPostgres:
		query = "SELECT CASE WHEN c.relnamespace = f.relnamespace THEN c.relname " +
			"ELSE c.relnamespace::regnamespace || '.' || c.relname END, o.conname, a.attname, b.attname " +
			"FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_class f ON f.oid = o.confrelid " +
			"CROSS JOIN LATERAL unnest(o.conkey, o.confkey) AS k (own, other) " +
			"JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = k.own " +
			"JOIN pg_attribute b ON b.attrelid = o.confrelid AND b.attnum = k.other " +
			"WHERE o.contype = 'f' AND o.confrelid = to_regclass(?) ORDER BY o.oid"
		args = []any{db.Statement.Quote(to)}
	case dialectMySQL:
		query = "SELECT CASE WHEN TABLE_SCHEMA = REFERENCED_TABLE_SCHEMA THEN TABLE_NAME " +
			"ELSE CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) END, CONSTRAINT_NAME, COLUMN_NAME, " +
			"REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME = ? " +
			"AND REFERENCED_TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) " +
			"ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME"
		args = []any{name, space}
	default:
		if space != "" {
			return nil, nil // The other database of the connection is not asked.
		}
		query = "SELECT t.name, 'number ' || k.id, k.\"from\", COALESCE(k.\"to\", '') FROM sqlite_master t, " +
			"pragma_foreign_key_list(t.name) k WHERE t.type = 'table' AND lower(k.\"table\") = lower(?) " +
			"ORDER BY t.name, k.id"
		args = []any{name}
	}
	var keys []foreignKey
	err := t.eachPlainRow(ctx, db, func(rows *sql.Rows) error {
		var table, key string
		var pair [2]string
		if err := rows.Scan(&table, &key, &pair[0], &pair[1]); err != nil {
			return err
		}
		last := len(keys) - 1
		if last < 0 || keys[last].table != table || keys[last].name != key {
			keys = append(keys, foreignKey{table: table, name: key})
			last++
		}
		keys[last].pairs = append(keys[last].pairs, pair)
		return nil
	}, query, args...)
	return keys, err
}
