package router

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// foreignKey is a foreign key to a known table.
type foreignKey struct {
	table, name string
	pairs       [][2]string // column, and the one that it refers to, which is empty for the primary key
}

// staysTogether reports whether equal values are on one shard, whatever the number of shards is.
func (k foreignKey) staysTogether(child, parent *shardmap.Model) bool {
	for _, pair := range k.pairs {
		if child.PlacedBy(pair[0]) && (pair[1] == "" || parent.PlacedBy(pair[1])) {
			return true
		}
	}
	return false
}

// checkMovesTogether refuses a foreign key between tables of one shard if the rows that it joins may part.
func (k foreignKey) checkMovesTogether(to string, child, parent *shardmap.Model) error {
	if k.staysTogether(child, parent) {
		return nil
	}
	return fmt.Errorf("%w: the foreign key %s leads from the table %s to %s, and only one of two rows that it "+
		"joins may move to another table: drop it first. A foreign key may stay if it leads from the field that "+
		"a like: tag names, or from the key, to such a field", errs.ErrSharding, k.name, k.table, to)
}

// anyForeignKey accepts every foreign key between tables of one shard.
func anyForeignKey(foreignKey, string, *shardmap.Model, *shardmap.Model) error { return nil }

// namesFrom returns the models by the names that referring gives their tables of one shard: without the
// schema, if that is the schema of the table to.
func namesFrom(t *shardmap.Topology, to string, shard int) map[string]*shardmap.Model {
	home, _ := splitTable(to)
	names := map[string]*shardmap.Model{}
	for _, m := range t.Models {
		if m.Broadcast {
			continue
		}
		space, name := splitTable(m.Table(shard))
		if space != home {
			name = space + "." + name
		}
		names[strings.ToLower(name)] = m
	}
	return names
}

// referring lists the foreign keys that lead to a table.
func referring(ctx context.Context, t *shardmap.Topology, database int, to string) ([]foreignKey, error) {
	db := t.Databases[database]
	space, name := splitTable(to)
	var query string
	var args []any
	switch db.Name() {
	case dialect.PostgreSQL:
		query = "SELECT CASE WHEN c.relnamespace = f.relnamespace THEN c.relname " +
			"ELSE c.relnamespace::regnamespace || '.' || c.relname END, o.conname, a.attname, b.attname " +
			"FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_class f ON f.oid = o.confrelid " +
			"CROSS JOIN LATERAL unnest(o.conkey, o.confkey) AS k (own, other) " +
			"JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = k.own " +
			"JOIN pg_attribute b ON b.attrelid = o.confrelid AND b.attnum = k.other " +
			"WHERE o.contype = 'f' AND o.confrelid = to_regclass(?) ORDER BY o.oid"
		args = []any{db.Statement.Quote(to)}
	case dialect.MySQL:
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
	err := t.EachPlainRow(ctx, db, func(rows *sql.Rows) error {
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

// What a trigger runs on, as the catalogs write it.
const (
	onUpdate = "UPDATE"
	onDelete = "DELETE"
)

// trigger is what the database does by itself when rows of a table are written, as far as the catalog tells.
type trigger struct {
	what  string // trigger or rule
	name  string
	event string
}

// checkTable refuses a table with a trigger, a rule or a policy that a resharding cannot bear. It returns the
// number of its triggers on updates.
func checkTable(
	ctx context.Context, t *shardmap.Topology, database int, table string,
) (onUpdates int, err error) {
	found, err := triggersOf(ctx, t, database, table)
	if err != nil {
		return 0, err
	}
	for _, of := range found {
		// PostgreSQL inserts no copies into a table with a rule on updates, because they come with ON CONFLICT.
		if of.event == onUpdate && of.what == "trigger" {
			onUpdates++
			continue
		}
		return 0, fmt.Errorf("%w: the %s %s runs on %s of the table %s, and would do so for rows that only "+
			"move: drop it first, and make it again after Clean, on the tables of all shards", errs.ErrSharding,
			of.what, of.name, of.event, table)
	}
	hides, err := hidesRows(ctx, t, database, table)
	if err == nil && hides {
		err = fmt.Errorf("%w: row-level security may hide rows of the table %s, and these would not move: use a "+
			"user with BYPASSRLS, or disable it until Clean, and give the new tables the same policies",
			errs.ErrSharding, table)
	}
	return onUpdates, err
}

// triggersOf lists the triggers and rules of a table, those on several events once for each.
func triggersOf(ctx context.Context, t *shardmap.Topology, database int, table string) ([]trigger, error) {
	db := t.Databases[database]
	space, name := splitTable(table)
	var query string
	var args []any
	switch db.Name() {
	case dialect.PostgreSQL:
		query = "SELECT 'trigger', tgname, e.name FROM pg_trigger " +
			"JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE')) AS e (bit, name) ON tgtype & e.bit <> 0 " +
			"WHERE tgrelid = to_regclass(?) AND NOT tgisinternal AND tgenabled NOT IN ('D', 'R') " +
			"UNION ALL SELECT 'rule', rulename, CASE ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' " +
			"ELSE 'DELETE' END FROM pg_rewrite " +
			"WHERE ev_class = to_regclass(?) AND ev_type <> '1' AND ev_enabled <> 'D'"
		args = []any{db.Statement.Quote(table), db.Statement.Quote(table)}
	case dialect.MySQL:
		query = "SELECT 'trigger', TRIGGER_NAME, EVENT_MANIPULATION FROM information_schema.TRIGGERS " +
			"WHERE EVENT_OBJECT_TABLE = ? AND EVENT_OBJECT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE())"
		args = []any{name, space}
	default:
		query = "SELECT 'trigger', name, sql FROM " + db.Statement.Quote(cmp.Or(space, "main")+".sqlite_master") +
			" WHERE type = 'trigger' AND lower(tbl_name) = lower(?)"
		args = []any{name}
	}
	var found []trigger
	err := t.EachPlainRow(ctx, db, func(rows *sql.Rows) error {
		var of trigger
		err := rows.Scan(&of.what, &of.name, &of.event)
		if db.Name() == dialect.SQLite {
			of.event = eventOf(of.event)
		}
		found = append(found, of)
		return err
	}, query, args...)
	return found, err
}

// triggerEvent finds the event in the statement that made a trigger of SQLite. The name comes before the
// event and may consist of any words, so the pattern reads it, too.
var triggerEvent = regexp.MustCompile("(?is)^CREATE\\s+TRIGGER\\s+" +
	"(?:\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|'(?:[^']|'')*'|\\[[^\\]]*\\]|\\w+)\\s+" +
	"(?:(?:BEFORE|AFTER|INSTEAD\\s+OF)\\s+)?(INSERT|DELETE|UPDATE)\\s")

// eventOf reads the event from the statement that made a trigger. What it cannot read is taken for the worst.
func eventOf(statement string) string {
	if found := triggerEvent.FindStringSubmatch(statement); found != nil {
		return strings.ToUpper(found[1])
	}
	return onDelete
}

// hidesRows reports whether the login of a pool may not see all rows of a table.
func hidesRows(
	ctx context.Context, t *shardmap.Topology, database int, table string,
) (hides bool, err error) {
	db := t.Databases[database]
	if db.Name() != dialect.PostgreSQL {
		return false, nil
	}
	err = t.EachPlainRow(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&hides) },
		"SELECT COALESCE(row_security_active(to_regclass(?)::oid), false)", db.Statement.Quote(table))
	return hides, err
}
