package router

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

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

// checkTriggers refuses what would make a resharding do something else than to move rows. Cutover deletes
// rows from the old tables and Undo inserts them there again, although nobody has deleted or created them: a
// trigger could note that, delete other rows, or keep the row. Copies are inserted into the new tables. The
// new table needs the triggers on updates as well. They run meanwhile in one case only: on MySQL and MariaDB,
// for an outdated copy that holds the value of a unique column which another row has by now.
func (d *Resharding) checkTriggers(ctx context.Context) error {
	for i := range d.moves {
		m := &d.moves[i]
		from, err := d.to.checkTable(ctx, m.FromDatabase, m.FromTable)
		if err != nil {
			return m.failed("looking for triggers", err)
		}
		into, err := d.to.checkTable(ctx, m.ToDatabase, m.ToTable)
		if err != nil {
			return m.failed("looking for triggers", err)
		}
		if from > into {
			return fmt.Errorf("%w: triggers on UPDATE of the table %s: %d, and of the new table %s: %d; make the "+
				"same ones there, and call the step again", errs.ErrSharding, m.FromTable, from, m.ToTable, into)
		}
	}
	return nil
}

// checkTable refuses a table with a trigger, a rule or a policy that a resharding cannot bear. It returns the
// number of its triggers on updates.
func (t *topology) checkTable(ctx context.Context, database int, table string) (onUpdates int, err error) {
	found, err := t.triggersOf(ctx, database, table)
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
	hides, err := t.hidesRows(ctx, database, table)
	if err == nil && hides {
		err = fmt.Errorf("%w: row-level security may hide rows of the table %s, and these would not move: use a "+
			"user with BYPASSRLS, or disable it until Clean, and give the new tables the same policies",
			errs.ErrSharding, table)
	}
	return onUpdates, err
}

// triggersOf lists the triggers and rules of a table, those on several events once for each.
func (t *topology) triggersOf(ctx context.Context, database int, table string) ([]trigger, error) {
	db := t.dbs[database]
	space, name := splitTable(table)
	var query string
	var args []any
	switch db.Name() {
	case dialectPostgres:
		query = "SELECT 'trigger', tgname, e.name FROM pg_trigger " +
			"JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE')) AS e (bit, name) ON tgtype & e.bit <> 0 " +
			"WHERE tgrelid = to_regclass(?) AND NOT tgisinternal AND tgenabled NOT IN ('D', 'R') " +
			"UNION ALL SELECT 'rule', rulename, CASE ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' " +
			"ELSE 'DELETE' END FROM pg_rewrite " +
			"WHERE ev_class = to_regclass(?) AND ev_type <> '1' AND ev_enabled <> 'D'"
		args = []any{db.Statement.Quote(table), db.Statement.Quote(table)}
	case dialectMySQL:
		query = "SELECT 'trigger', TRIGGER_NAME, EVENT_MANIPULATION FROM information_schema.TRIGGERS " +
			"WHERE EVENT_OBJECT_TABLE = ? AND EVENT_OBJECT_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE())"
		args = []any{name, space}
	default:
		query = "SELECT 'trigger', name, sql FROM " + db.Statement.Quote(cmp.Or(space, "main")+".sqlite_master") +
			" WHERE type = 'trigger' AND lower(tbl_name) = lower(?)"
		args = []any{name}
	}
	var found []trigger
	err := t.eachPlainRow(ctx, db, func(rows *sql.Rows) error {
		var of trigger
		err := rows.Scan(&of.what, &of.name, &of.event)
		if db.Name() == dialectSQLite {
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
func (t *topology) hidesRows(ctx context.Context, database int, table string) (hides bool, err error) {
	db := t.dbs[database]
	if db.Name() != dialectPostgres {
		return false, nil
	}
	err = t.eachPlainRow(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&hides) },
		"SELECT COALESCE(row_security_active(to_regclass(?)::oid), false)", db.Statement.Quote(table))
	return hides, err
}
