package reshard

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// trigger is one of those that list the keys of the rows that are written.
type trigger struct{ name, create string }

// triggersFor returns the triggers of a table.
func triggersFor(t *table) []trigger {
	s, d := t.side, t.side.d
	key := d.Quote(t.Column)
	begin := fmt.Sprintf("%s_%d", s.begin, t.n)
	insert := "INSERT INTO " + d.Quoted(onTable(d, s.keys)) + " (t, k) "
	list := func(row string) string { return fmt.Sprintf("%sVALUES (%d, %s.%s)", insert, t.n, row, key) }
	// A row that gets another key is two rows that have changed.
	other := fmt.Sprintf("%sSELECT %d, NEW.%s WHERE NEW.%[3]s <> OLD.%[3]s", insert, t.n, key)
	if d.Kind == dialect.MySQL {
		// An INSERT that reads a SELECT locks the numbers of the list on MariaDB, as long as the statement runs.
		other = fmt.Sprintf("IF NEW.%s <> OLD.%[1]s THEN %s; END IF", key, list("NEW"))
	}
	if d.Kind == dialect.PostgreSQL {
		return []trigger{{begin, "CREATE TRIGGER " + d.Quote(begin) + " AFTER INSERT OR UPDATE OR DELETE ON " +
			t.quoted() + " FOR EACH ROW EXECUTE FUNCTION " + triggerFunction(t) + "()"}}
	}
	var all []trigger
	for _, write := range []struct{ event, body string }{
		{"INSERT", list("NEW")}, {"UPDATE", list("OLD") + "; " + other}, {"DELETE", list("OLD")},
	} {
		name := begin + "_" + strings.ToLower(write.event)
		all = append(all, trigger{name, "CREATE TRIGGER " + d.Quoted(beside(t.Name, name)) + " AFTER " +
			write.event + " ON " + d.Quoted(onTable(d, t.now)) + " FOR EACH ROW BEGIN " + write.body + "; END"})
	}
	return all
}

// onTable is the name of a table where a trigger says what it is of. SQLite wants it without the schema, and
// so in the bodies of triggers.
func onTable(d *database, table string) string {
	if _, name := dialect.Split(table); d.Embedded {
		return name
	}
	return table
}

// functionFor makes the function that the trigger of a table of PostgreSQL calls. It has the rights of its
// owner, because programs have none on the table of the keys, and finds nothing by a search path of theirs.
func functionFor(t *table, keys string) string {
	return fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "+
		"SET search_path = pg_catalog, pg_temp AS $snowflake$ BEGIN\n"+
		"IF TG_OP <> 'INSERT' THEN INSERT INTO %s (t, k) VALUES (%d, OLD.%s); END IF;\n"+
		"IF TG_OP = 'INSERT' THEN INSERT INTO %[2]s (t, k) VALUES (%[3]d, NEW.%[4]s);\n"+
		"ELSIF TG_OP = 'UPDATE' AND NEW.%[4]s <> OLD.%[4]s THEN "+
		"INSERT INTO %[2]s (t, k) VALUES (%[3]d, NEW.%[4]s); END IF;\nRETURN NULL; END $snowflake$",
		triggerFunction(t), keys, t.n, t.side.d.Quote(t.Column))
}

// triggerFunction returns the name of that function.
func triggerFunction(t *table) string {
	return t.side.d.Quoted(beside(t.Name, fmt.Sprintf("%s_%d", t.side.begin, t.n)))
}

// capture makes the triggers of an entry that are not there yet. Whoever has written to a table before it has
// its triggers has ended his transaction by then, because the database makes none meanwhile.
func (s *side) capture(ctx context.Context) error {
	d := s.d
	number := map[dialect.Kind]string{
		dialect.PostgreSQL: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		dialect.MySQL:      "bigint AUTO_INCREMENT PRIMARY KEY",
		dialect.SQLite:     "integer PRIMARY KEY AUTOINCREMENT", // No number comes twice.
	}[d.Kind]
	create := "CREATE TABLE IF NOT EXISTS " + d.Quoted(s.keys) + " (n " + number +
		", t integer NOT NULL, k bigint NOT NULL)" + d.Suffix
	if err := run(ctx, d.pool, create); err != nil {
		return err
	}
	s.m.reached(stepListed)
	for _, t := range s.tables {
		missing, err := missingTriggers(ctx, d.pool, t)
		if err != nil {
			return err
		}
		for _, trigger := range missing {
			if err := s.makeTrigger(ctx, t, trigger); err != nil {
				return fmt.Errorf("trigger %s on %s: %w", trigger.name, t.now, err)
			}
			s.m.reached(stepCaught)
		}
	}
	return nil
}

// missingTriggers returns the triggers that a table lacks.
func missingTriggers(ctx context.Context, q gorm.ConnPool, t *table) ([]trigger, error) {
	there, err := t.side.d.triggersOn(ctx, q, t.now)
	return slices.DeleteFunc(triggersFor(t), func(one trigger) bool {
		return slices.Contains(there, one.name)
	}), err
}

// makeTrigger makes one trigger, for which the database waits until all transactions have ended that have
// written to the table. Whoever wants to write then waits behind it, so it waits as briefly as a cutover.
func (s *side) makeTrigger(ctx context.Context, t *table, made trigger) error {
	d := s.d
	statements := []string{made.create}
	if d.Kind == dialect.PostgreSQL {
		var keys string
		err := d.pool.QueryRowContext(ctx, "SELECT format('%I.%I', nspname, relname) FROM pg_class c "+
			"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)",
			d.Quoted(s.keys)).Scan(&keys)
		if err != nil {
			return err
		}
		statements = []string{"LOCK TABLE " + t.quoted() + " IN SHARE ROW EXCLUSIVE MODE", functionFor(t, keys),
			// It may be there, but switched off.
			"DROP TRIGGER IF EXISTS " + d.Quote(made.name) + " ON " + t.quoted(), made.create}
	}
	return alter(ctx, t, statements...)
}

// alter changes a table that is in use. It waits for transactions as briefly at a time as a cutover does.
func alter(ctx context.Context, t *table, statements ...string) error {
	d := t.side.d
	return whenFree(ctx, []*side{t.side}, func() error {
		if d.Kind == dialect.PostgreSQL {
			return d.transaction(ctx, func(q gorm.ConnPool) error {
				return run(ctx, q, append([]string{shortWait()}, statements...)...)
			})
		}
		return d.onConnection(ctx, func(c *sql.Conn) error {
			return impatiently(ctx, d, c, func() error { return run(ctx, c, statements...) })
		})
	})
}

// checkRight refuses a login that may not make triggers, by trying to make one on a table that is not there.
// The server tells a right that is missing before it tells that.
func (s *side) checkRight(ctx context.Context) error {
	d := s.d
	if d.Kind != dialect.MySQL {
		return nil // PostgreSQL lets the owner do so, which is checked, and SQLite everybody.
	}
	if d.pool.Stats().MaxOpenConnections == 1 {
		return fmt.Errorf("%w: the pool of the database has one connection, and a cutover needs a second one, "+
			"to end what waits too long: let it have more", errs.ErrSharding)
	}
	version, err := texts(ctx, d.pool, "SELECT VERSION()")
	if err != nil {
		return err
	}
	if strings.Contains(version[0][0], "TiDB") {
		return fmt.Errorf("%w: TiDB has no triggers, so nothing tells which rows are written while others are "+
			"copied", errs.ErrSharding)
	}
	nowhere := d.Quoted(beside(s.tables[0].Name, s.begin+"_nowhere"))
	err = run(ctx, d.pool, "CREATE TRIGGER "+nowhere+" AFTER INSERT ON "+nowhere+
		" FOR EACH ROW SET @snowflake = 1")
	switch dialect.State(err) {
	case "1419":
		return fmt.Errorf("%w: the login may not make triggers while the server writes its binary log: run the "+
			"resharding with a login that has the right SUPER, or set log_bin_trust_function_creators = 1: %w",
			errs.ErrSharding, err)
	case "1142", "1044":
		return fmt.Errorf("%w: the login may not make triggers: grant it the right TRIGGER on the database: %w",
			errs.ErrSharding, err)
	case "1146":
		return nil
	}
	return err
}

// release removes the triggers of an entry and the list of its keys.
func (s *side) release(ctx context.Context) error {
	for _, t := range s.tables {
		var drops []string
		for _, trigger := range triggersFor(t) {
			drops = append(drops, "DROP TRIGGER IF EXISTS "+s.d.Quoted(beside(t.Name, trigger.name)))
		}
		if s.d.Kind == dialect.PostgreSQL {
			drops = []string{"DROP FUNCTION IF EXISTS " + triggerFunction(t) + "() CASCADE"} // with its triggers
		}
		for _, drop := range drops {
			if err := alter(ctx, t, drop); err != nil {
				return err
			}
		}
		s.m.reached(stepDropped)
	}
	return run(ctx, s.d.pool, "DROP TABLE IF EXISTS "+s.d.Quoted(s.keys))
}

// listed is an entry of the list of keys.
type listed struct {
	n, key int64
	table  int
}

// listedKeys reads the beginning of the list.
func (s *side) listedKeys(ctx context.Context, q gorm.ConnPool, limit int) (all []listed, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		var l listed
		err := rows.Scan(&l.n, &l.table, &l.key)
		all = append(all, l)
		return err
	}, fmt.Sprintf("SELECT n, t, k FROM %s ORDER BY n LIMIT %d", s.d.Quoted(s.keys), limit))
	return all, err
}

// maxKeys is how many keys a statement lists. From a thousand on, MariaDB makes a table of them.
const maxKeys = 500

// enlist puts keys into the list, as a trigger would.
func (s *side) enlist(ctx context.Context, q gorm.ConnPool, t *table, keys []int64) error {
	for some := range slices.Chunk(keys, maxKeys) {
		var b strings.Builder
		fmt.Fprintf(&b, "INSERT INTO %s (t, k) VALUES ", s.d.Quoted(s.keys))
		for i, key := range some {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,%d)", t.n, key)
		}
		if err := run(ctx, q, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// strike removes entries from the list. It must not read the whole list for that, which would wait for
// transactions that have added to it and have not ended. By a join in this order and with this index, MySQL
// and MariaDB look at these entries alone.
func (s *side) strike(ctx context.Context, q gorm.ConnPool, numbers []int64) error {
	keys := s.d.Quoted(s.keys)
	for some := range slices.Chunk(numbers, maxKeys) {
		statement := "DELETE FROM " + keys + " WHERE n IN (" + list(some) + ")"
		if s.d.Kind == dialect.MySQL {
			statement = "DELETE " + keys + " FROM (SELECT 0 AS n UNION ALL SELECT " +
				strings.ReplaceAll(list(some), ",", " UNION ALL SELECT ") + ") AS numbers STRAIGHT_JOIN " + keys +
				" FORCE INDEX (PRIMARY) ON " + keys + ".n = numbers.n"
		}
		if err := run(ctx, q, statement); err != nil {
			return err
		}
	}
	return nil
}
