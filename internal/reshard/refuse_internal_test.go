package reshard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is missing in: %v", word, err)
		}
	}
}

// What would be broken or left behind is refused by name, and nothing has been made by then.
func TestWhatCannotMoveIsRefusedByName(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Shared(t).Privileged(), split)
		db := dbs[0]
		w := newWorld(t, split, dbs)
		w.fill(10)
		type obstacle struct {
			make, drop []string
			words      []string
		}
		must(t, db.Exec("CREATE TABLE audits (id bigint PRIMARY KEY, what varchar(20))").Error, "a table")
		trigger := "CREATE TRIGGER noting AFTER DELETE ON items_10 FOR EACH ROW "
		body := map[string]string{
			"mysql": "INSERT INTO audits VALUES (1, 'x')", "sqlite": "BEGIN INSERT INTO audits VALUES (1, 'x'); END",
			"postgres": "EXECUTE FUNCTION noting()",
		}[db.Name()]
		drop := map[bool]string{false: "DROP TRIGGER noting", true: "DROP TRIGGER noting ON items_10"}[db.Name() == "postgres"]
		all := []obstacle{
			{[]string{"CREATE VIEW seen AS SELECT id, note FROM items_10"}, []string{"DROP VIEW seen"}, []string{"seen", "items_10"}},
			{[]string{"CREATE TABLE outer_rows (id bigint PRIMARY KEY, order_id bigint, CONSTRAINT outer_key FOREIGN KEY (order_id) REFERENCES orders_10 (id))"},
				[]string{"DROP TABLE outer_rows"}, []string{"outer_", "orders_10"}},
			{[]string{"CREATE TABLE items_10_away (id bigint)"}, []string{"DROP TABLE items_10_away"},
				[]string{"items_10_away", "has the name"}},
			{[]string{trigger + body}, []string{drop}, []string{"noting", "items_10", "drop it first"}},
		}
		switch db.Name() {
		case "postgres":
			must(t, db.Exec("CREATE FUNCTION noting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$").Error,
				"a function")
			all = append(all, obstacle{[]string{"ALTER TABLE tags_10 ENABLE ROW LEVEL SECURITY"},
				[]string{"ALTER TABLE tags_10 DISABLE ROW LEVEL SECURITY"}, []string{"row security", "tags_10"}},
				obstacle{[]string{"CREATE PUBLICATION told FOR TABLE tags_10"}, []string{"DROP PUBLICATION told"},
					[]string{"told", "tags_10"}},
				obstacle{ // as CREATE SUBSCRIPTION writes it, which needs a server that publishes the table
					[]string{"DO $$BEGIN SET LOCAL allow_system_table_mods = on; " +
						"INSERT INTO pg_subscription_rel VALUES (1, 'tags_10'::regclass, 'r'); END$$"},
					[]string{"DO $$BEGIN SET LOCAL allow_system_table_mods = on; DELETE FROM pg_subscription_rel; END$$"},
					[]string{"a subscription for tags_10"}},
				obstacle{[]string{"CREATE RULE kept AS ON DELETE TO tags_10 DO INSTEAD NOTHING"},
					[]string{"DROP RULE kept ON tags_10"}, []string{"kept", "tags_10"}},
				obstacle{[]string{"CREATE POLICY own ON tags_10 USING (true)"}, []string{"DROP POLICY own ON tags_10"},
					[]string{"own", "tags_10"}},
				obstacle{[]string{"ALTER TABLE tags_10 FORCE ROW LEVEL SECURITY"},
					[]string{"ALTER TABLE tags_10 NO FORCE ROW LEVEL SECURITY"}, []string{"row security", "tags_10"}},
				obstacle{[]string{"ALTER TABLE tags_10 CLUSTER ON tags_10_pkey"},
					[]string{"ALTER TABLE tags_10 SET WITHOUT CLUSTER"}, []string{"CLUSTER", "tags_10"}},
				obstacle{[]string{"CREATE UNIQUE INDEX told_by ON tags_10 (tag, order_id)", "ALTER TABLE tags_10 REPLICA IDENTITY USING INDEX told_by"},
					[]string{"DROP INDEX told_by", "ALTER TABLE tags_10 REPLICA IDENTITY DEFAULT"}, []string{"replica identity", "tags_10"}},
				obstacle{[]string{"CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler", "ALTER TABLE tags_10 SET ACCESS METHOD other"},
					[]string{"ALTER TABLE tags_10 SET ACCESS METHOD heap", "DROP ACCESS METHOD other"}, []string{"the access method", "tags_10"}},
				obstacle{[]string{"ALTER TABLE tags_10 ADD CONSTRAINT one_tag UNIQUE (order_id, tag) DEFERRABLE"},
					[]string{"ALTER TABLE tags_10 DROP CONSTRAINT one_tag"}, []string{"a deferrable constraint of tags_10"}},
				obstacle{[]string{"CREATE TYPE pairs AS (one tags_10, others tags_10[])"}, []string{"DROP TYPE pairs"},
					[]string{"pairs", "tags_10"}},
				obstacle{[]string{"CREATE FUNCTION first_of(tags_10[]) RETURNS int LANGUAGE sql AS 'SELECT 1'"},
					[]string{"DROP FUNCTION first_of(tags_10[])"}, []string{"first_of", "tags_10"}})
		case "mysql":
			all = append(all, obstacle{[]string{"CREATE EVENT sweeps ON SCHEDULE EVERY 1 YEAR DO DELETE FROM items_10 WHERE id < 0"},
				[]string{"DROP EVENT sweeps"}, []string{"the event sweeps", "items_10"}}, obstacle{
				[]string{"ALTER TABLE items_10 ADD CONSTRAINT falls FOREIGN KEY (order_id) REFERENCES orders_10 (id) ON DELETE CASCADE"},
				[]string{"ALTER TABLE items_10 DROP FOREIGN KEY falls, DROP KEY falls"}, []string{"falls", "items_10", "RESTRICT"}})
		case "sqlite":
			all = append(all, obstacle{[]string{"CREATE TRIGGER elsewhere AFTER INSERT ON audits BEGIN DELETE FROM items_10; END"},
				[]string{"DROP TRIGGER elsewhere"}, []string{"elsewhere"}}, obstacle{
				[]string{"ALTER TABLE items_10 ADD COLUMN other bigint REFERENCES audits (id)"},
				[]string{"ALTER TABLE items_10 DROP COLUMN other"}, []string{"items_10", "the foreign key on the column other"}})
		}
		for _, o := range all {
			for _, statement := range o.make {
				must(t, db.Exec(statement).Error, statement)
			}
			err := w.job.Check(t.Context())
			says(t, err, o.words...)
			_, err = w.job.Run(t.Context())
			says(t, err, o.words...)
			if w.has("snowflake") || w.has("_g1") {
				t.Errorf("after a Run that was refused there are %v", w.tables())
			}
			for _, statement := range o.drop {
				must(t, db.Exec(statement).Error, statement)
			}
		}
		if db.Name() == "mysql" { // about another table
			must(t, db.Exec("CREATE EVENT others ON SCHEDULE EVERY 1 YEAR DO DELETE FROM old_items_10_b WHERE id < 0").Error, "an event")
		}
		must(t, w.job.Check(t.Context()), "Check")
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		w.check(true)
	})
}

// The new tables are made from the model, so what somebody has made by hand has to be there too, or it would be lost.
func TestWhatWasMadeByHandIsRefusedUntilTheNewTablesHaveIt(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Shared(t).Privileged(), split)
		db := dbs[0]
		w := newWorld(t, split, dbs)
		w.fill(10)
		type thing struct{ make, fact string } // with %s for the table
		all := []thing{
			{"CREATE INDEX %s_by_note ON %[1]s (note)", "note"},
			{"CREATE UNIQUE INDEX %s_once ON %[1]s (note, order_id)", "UNIQUE"},
		}
		switch db.Name() {
		case "postgres":
			all = append(all, thing{"CREATE INDEX %s_some ON %[1]s (order_id) WHERE note IS NULL", "WHERE (note IS NULL)"},
				thing{"CREATE INDEX %s_lower ON %[1]s (lower(note))", "lower((note)::text)"},
				thing{"ALTER TABLE %s ADD CONSTRAINT short CHECK (length(note) < 40)", "length((note)::text) < 40"},
				thing{"ALTER TABLE %s ADD CONSTRAINT %[1]s_apart EXCLUDE (id WITH =)", "EXCLUDE"},
				thing{"ALTER TABLE %s ALTER note SET DEFAULT 'none'", "DEFAULT 'none'"},
				thing{"ALTER TABLE %s ALTER note SET NOT NULL", "NOT NULL of note"},
				thing{"ALTER TABLE %s ALTER note TYPE varchar(60)", "character varying(60)"},
				thing{`ALTER TABLE %s ALTER note TYPE varchar(60) COLLATE "C"`, "COLLATE"},
				thing{"COMMENT ON COLUMN %s.note IS 'a note'", "the comment on note"})
		case "mysql":
			all = append(all, thing{"ALTER TABLE %s ADD CONSTRAINT %[1]s_short CHECK (length(note) < 40)", "CHECK ("},
				thing{"ALTER TABLE %s ALTER note SET DEFAULT 'none'", "DEFAULT 'none'"},
				thing{"ALTER TABLE %s MODIFY note varchar(60) NOT NULL", "varchar(60) NOT NULL"},
				thing{"ALTER TABLE %s MODIFY note varchar(60) COLLATE utf8mb4_bin NOT NULL COMMENT 'a note'", "utf8mb4_bin"},
				thing{"CREATE INDEX %s_begin ON %[1]s (note(5) DESC)", "`note`(5)"},
				thing{"ALTER TABLE %s COMMENT = 'notes'", "COMMENT='notes'"})
		case "sqlite":
			all = append(all, thing{"CREATE INDEX %s_some ON %[1]s (order_id) WHERE note IS NULL", "WHERE note IS NULL"},
				thing{"CREATE INDEX %s_lower ON %[1]s (lower(note))", "lower(note)"},
				thing{"CREATE INDEX %s_letters ON %[1]s (note COLLATE NOCASE)", "NOCASE"},
				thing{"ALTER TABLE %s ADD COLUMN other text COLLATE NOCASE NOT NULL DEFAULT 'none' CHECK (length(other) < (40))",
					"the table items_10 has a column other"})
		}
		for _, one := range all {
			must(t, db.Exec(fmt.Sprintf(one.make, "items_10")).Error, one.make)
			for _, e := range w.to {
				_, err := w.job.Run(t.Context())
				says(t, err, one.fact, "items_10", e.tables[1].Name, "add it to the model")
				must(t, db.Exec(fmt.Sprintf(one.make, e.tables[1].Name)).Error, "the remedy")
			}
		}
		if db.Name() == "sqlite" { // A column that was added cannot lose what it has.
			must(t, db.Exec("ALTER TABLE items_01_g1 DROP COLUMN other").Error, "another column")
			must(t, db.Exec("ALTER TABLE items_01_g1 ADD COLUMN other text").Error, "another column")
			_, err := w.job.Run(t.Context())
			says(t, err, "NOT NULL of other", "DEFAULT 'none' of other", "CHECK (length(other) < (40))", "COLLATE NOCASE of other",
				"items_01_g1")
			must(t, db.Exec("ALTER TABLE items_01_g1 DROP COLUMN other").Error, "another column")
			must(t, db.Exec(fmt.Sprintf(all[len(all)-1].make, "items_01_g1")).Error, "the remedy")
		}
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		w.check(true)
	})
}

// What the catalog of SQLite does not tell is read from the statement that has made a table.
func TestTheStatementOfATableOfSQLiteTellsWhatItsCatalogDoesNot(t *testing.T) {
	t.Parallel()
	db := dbtest.Named("sqlite").Open(t, nil)
	for statement, facts := range map[string][]string{
		"CREATE TABLE t (id integer PRIMARY KEY, note text)":                           nil,
		"CREATE TABLE t (id integer PRIMARY KEY, note text) STRICT":                    {"STRICT"},
		"CREATE TABLE t (id integer PRIMARY KEY, note text) WITHOUT ROWID, STRICT":     {"WITHOUT ROWID, STRICT"},
		"CREATE TABLE t (id integer PRIMARY KEY, note text COLLATE NOCASE)":            {"COLLATE NOCASE of note"},
		"CREATE TABLE t (id integer PRIMARY KEY, `a note` text COLLATE \"nocase\")":    {"COLLATE nocase of a note"},
		"CREATE TABLE t (id integer PRIMARY KEY, [größe] decimal(10,2) COLLATE RTRIM)": {"COLLATE RTRIM of größe"},
		"CREATE TABLE t (id integer PRIMARY KEY, größe text NOT NULL COLLATE RTRIM)":   {"COLLATE RTRIM of größe"},
	} {
		must(t, db.Exec(statement).Error, statement)
		var text string
		must(t, db.Raw("SELECT sql FROM sqlite_master WHERE name = 't'").Scan(&text).Error, "reading it")
		if got := factsOfSQLite(text); !slices.Equal(got, facts) {
			t.Errorf("%s: %q, want %q", statement, got, facts)
		}
		must(t, db.Exec("DROP TABLE t").Error, "DROP")
	}
}

// With its binary log, MySQL lets few logins make triggers. The error names the right, before anything is made.
func TestALoginWithoutTheRightToMakeTriggersIsToldWhichItLacks(t *testing.T) {
	t.Parallel()
	target := dbtest.Named("mysql")
	if !target.IsMySQL(t) {
		t.Skip("the server is not MySQL")
	}
	_, dbs := open(t, target, split)
	w := newWorld(t, split, dbs)
	err := w.job.Check(t.Context())
	says(t, err, "1419", "SUPER", "log_bin_trust_function_creators")
	_, err = w.job.Run(t.Context())
	says(t, err, "SUPER")
	if w.has("snowflake") || w.has("_g1") {
		t.Errorf("there are %v", w.tables())
	}
}

// A transaction that does not end keeps a cutover from its lock. Nobody else waits for that longer than for one try.
func TestATransactionInTheWayIsNamedAndWritesGoOn(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("nobody writes beside a transaction of SQLite that has written")
		}
		_, dbs := open(t, target.Privileged(), split)
		w := newWorld(t, split, dbs)
		w.fill(100)
		must(t, dbs[0].Exec("DELETE FROM orders_10 WHERE id = 5").Error, "a key that nobody uses")
		must(t, dbs[0].Exec("DELETE FROM items_10 WHERE id = 5").Error, "a key that nobody uses")
		must(t, dbs[0].Exec("DELETE FROM tags_10 WHERE order_id = 5").Error, "a key that nobody uses")
		delete(w.rows, 5)
		w.job.Budget = time.Second
		var idle *gorm.DB
		var id int64
		w.job.reached = func(s step) {
			if s == stepCompared && idle == nil {
				idle = dbs[0].Begin()
				query := map[string]string{"postgres": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}[dbs[0].Name()]
				must(t, idle.Raw(query).Scan(&id).Error, "the connection")
				must(t, idle.Exec("INSERT INTO orders_10 (id) VALUES (5)").Error, "a write")
			}
		}
		stop := w.write(2)
		_, err := w.job.Run(t.Context())
		done, longest := stop()
		name := fmt.Sprint(id)
		if target.IsMySQL(t) {
			name = "the right PROCESS" // which the login does not have
		}
		says(t, err, "writes go on as before", "within 1s", name)
		t.Logf("%v; %d transactions, the longest %v", err, done, longest)
		if longest > 800*time.Millisecond { // one try takes 50 ms, and a busy machine its time
			t.Errorf("a writer waited for %v", longest)
		}
		w.check(false)
		must(t, idle.Rollback().Error, "Rollback")
		stop = w.write(2)
		_, err = w.job.Run(t.Context())
		stop()
		must(t, err, "Run")
		w.check(true)
	})
}

// A transaction that is prepared belongs to no connection any more. It may write to a table for days, and MariaDB lets
// others lock that table meanwhile. What it has written must not come after the rows were copied.
func TestAPreparedTransactionInTheWayIsNamedAndItsRowsAreKept(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite prepares no transactions")
		}
		target = target.Privileged()
		dsns, dbs := open(t, target, split)
		db := dbs[0]
		w := newWorld(t, split, dbs)
		w.fill(100)
		w.job.Budget = 300 * time.Millisecond
		// This name is new on the server, which knows those of all databases.
		begin, prepare, commit := "BEGIN", "PREPARE TRANSACTION '%s'", "COMMIT PREPARED '%s'"
		if db.Name() == "mysql" {
			begin, prepare, commit = "XA START '%s'", "XA END '%[1]s'; XA PREPARE '%[1]s'", "XA COMMIT '%s'"
		} else {
			var most int
			must(t, db.Raw("SELECT current_setting('max_prepared_transactions')::int").Scan(&most).Error, "a setting")
			if most == 0 {
				t.Skip("the server has max_prepared_transactions = 0")
			}
		}
		// MariaDB and MySQL lock the row after each one that is written to, so these come before all others.
		free := map[step]int64{stepTaken: 3, stepCompared: 1}
		for _, key := range free {
			for i, column := range []string{"id", "id", "order_id"} {
				must(t, db.Exec(fmt.Sprintf("DELETE FROM %s WHERE %s = %d", w.from[0].tables[i].Name, column, key)).Error, "a free key")
			}
			delete(w.rows, key)
		}
		var at step
		var xid string
		w.job.reached = func(s step) {
			if s != at || xid != "" {
				return
			}
			xid = fmt.Sprintf("snowflake_%d_%d", at, time.Now().UnixNano())
			one := target.OpenDSN(t, dsns[0], nil, dbtest.MaxOpenConns(1))
			key := free[at]
			for _, statement := range append([]string{begin,
				fmt.Sprintf("INSERT INTO orders_10 (id, name) VALUES (%d, 'v0')", key),
				fmt.Sprintf("INSERT INTO items_10 VALUES (%d, %[1]d, 'v0')", key),
				fmt.Sprintf("INSERT INTO tags_10 VALUES (%d, 'v0'), (%[1]d, 'second')", key)}, strings.Split(prepare, "; ")...) {
				if strings.Contains(statement, "%") {
					statement = fmt.Sprintf(statement, xid)
				}
				must(t, one.Exec(statement).Error, statement)
			}
			pool, err := one.DB()
			must(t, err, "the pool")
			must(t, pool.Close(), "Close")
			w.mu.Lock() // Writers are under way.
			w.rows[key] = content(0)
			w.mu.Unlock()
		}
		for _, at = range []step{stepTaken, stepCompared} {
			xid = ""
			stop := w.write(2)
			_, err := w.job.Run(t.Context())
			_, longest := stop()
			name := xid
			if target.IsMySQL(t) {
				name = "XA RECOVER" // for which the login lacks a right
			}
			if xid == "" {
				t.Fatalf("step %d was not reached: %v", at, err)
			}
			t.Cleanup(func() { db.Exec(fmt.Sprintf(commit, xid)) })
			says(t, err, "writes go on as before", name)
			t.Logf("%v; the longest transaction %v", err, longest)
			if longest > 800*time.Millisecond {
				t.Errorf("a writer waited for %v", longest)
			}
			must(t, db.Exec(fmt.Sprintf(commit, xid)).Error, "the remedy")
			w.check(err == nil)
		}
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		w.check(true)
	})
}

// Where an INSERT reads a SELECT, MariaDB locks the numbers of the whole list until the statement has ended. A writer
// that changes a key then waits for one that waits for him, and reads error 1467 where a deadlock is meant.
func TestAWriterThatChangesKeysWaitsForNoOtherOne(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect != "mysql" {
			t.Skip("the lists of the others take their numbers without a lock")
		}
		_, dbs := open(t, target.Privileged(), split)
		w := newWorld(t, split, dbs)
		w.fill(100)
		tried := false
		w.job.reached = func(s step) {
			if s != stepCopied || tried {
				return
			}
			tried = true
			first := dbs[0].Begin()
			must(t, first.Exec("INSERT INTO items_10 (id, order_id) VALUES (4099, 1)").Error, "the first writer")
			second, ended := dbs[0].Begin(), make(chan error)
			go func() { ended <- second.Exec("UPDATE items_10 SET id = id + 4096 WHERE id IN (1, 3)").Error }()
			for { // until the second writer has changed one key, and waits with the other
				err := dbs[0].Exec("SELECT id FROM items_10 WHERE id = 4097 FOR UPDATE NOWAIT").Error
				if err != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			must(t, first.Exec("UPDATE items_10 SET id = 4101 WHERE id = 5").Error, "the first writer changes a key")
			must(t, first.Rollback().Error, "Rollback")
			must(t, <-ended, "the second writer")
			must(t, second.Rollback().Error, "Rollback")
		}
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		if !tried {
			t.Error("no chunk was copied")
		}
		w.check(true)
	})
}

// What no trigger sees is found before the cutover.
func TestWhatNoTriggerSeesIsFound(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Shared(t).Privileged(), split)
		w := newWorld(t, split, dbs)
		w.fill(500)
		emptied := 0
		w.job.reached = func(s step) {
			// The rows are compared after the first time, and only the cutover comes after the second one.
			if emptied > 1 || s != []step{stepCopied, stepCompared}[emptied] {
				return
			}
			emptied++
			if dbs[0].Name() == "sqlite" { // The row that had the value is gone, and no trigger has run.
				delete(w.rows, int64(emptied*2+1))
				w.rows[int64(999999+emptied*2)] = content(0)
				for _, statement := range []string{
					fmt.Sprintf("INSERT OR REPLACE INTO orders_10 VALUES (%d, 'v0', 'mail%d', 1.5, 'v0')", 999999+emptied*2, emptied*2+1),
					fmt.Sprintf("UPDATE items_10 SET id = %d WHERE id = %d", 999999+emptied*2, emptied*2+1),
					fmt.Sprintf("UPDATE tags_10 SET order_id = %d WHERE order_id = %d", 999999+emptied*2, emptied*2+1),
				} {
					must(t, dbs[0].Exec(statement).Error, statement)
				}
				return
			}
			for _, table := range []string{"orders_10", "items_10", "tags_10"} {
				must(t, dbs[0].Exec("TRUNCATE TABLE "+table).Error, "TRUNCATE")
			}
			w.rows = map[int64]string{}
			w.fill(400 - emptied) // The second time, all rows are written again, but for one.
		}
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		if emptied != 2 {
			t.Errorf("the tables were emptied %d times", emptied)
		}
		w.check(true)
	})
}

// A migration that makes a table anew, or drops what it does not know, takes the triggers away, and no write is listed
// any more.
func TestTriggersThatSomebodyHasDroppedAreMissedBeforeTheCutover(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 99} {
		t.Run(fmt.Sprintf("at most %d", most), func(t *testing.T) {
			t.Parallel()
			dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
				_, dbs := open(t, target.Privileged(), split)
				w := newWorld(t, split, dbs)
				w.fill(100)
				w.job.reached = func(s step) {
					if s != stepCompared {
						return
					}
					var triggers []struct{ Name, Place string }
					must(t, dbs[0].Raw(map[string]string{
						"sqlite": "SELECT name, '' AS place FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'snowflake%' ORDER BY name",
						"mysql": "SELECT TRIGGER_NAME AS name, '' AS place FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() " +
							"AND TRIGGER_NAME LIKE 'snowflake%' ORDER BY TRIGGER_NAME",
						"postgres": "SELECT tgname AS name, tgrelid::regclass AS place FROM pg_trigger WHERE tgname LIKE 'snowflake%' " +
							"ORDER BY tgname",
					}[dbs[0].Name()]).Scan(&triggers).Error, "the triggers")
					if len(triggers) == 0 {
						t.Fatal("there are no triggers")
					}
					for _, one := range triggers[:min(most, len(triggers))] {
						statement := "DROP TRIGGER " + one.Name
						switch {
						case one.Place != "" && most == 1:
							statement = "ALTER TABLE " + one.Place + " DISABLE TRIGGER " + one.Name
						case one.Place != "":
							statement += " ON " + one.Place
						}
						must(t, dbs[0].Exec(statement).Error, statement)
					}
					for _, statement := range []string{"DELETE FROM items_10 WHERE id = 1", "DELETE FROM tags_10 WHERE order_id = 1",
						"DELETE FROM orders_10 WHERE id = 1"} {
						must(t, dbs[0].Exec(statement).Error, statement)
					}
					delete(w.rows, 1)
				}
				_, err := w.job.Run(t.Context())
				says(t, err, "trigger", "of orders_10", "call the step again")
				w.check(false)
				w.job.reached = nil
				_, err = w.job.Run(t.Context())
				must(t, err, "Run again")
				w.check(true)
			})
		})
	}
}

// A migration may change an old table while its rows are copied, and the new ones were made before.
func TestWhatAMigrationAddsWhileRowsAreCopiedIsNotLost(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Shared(t).Privileged(), split)
		db := dbs[0]
		w := newWorld(t, split, dbs)
		w.fill(100)
		migrate := func(table string) {
			statement := fmt.Sprintf("CREATE UNIQUE INDEX once_%s ON %[1]s (note, order_id, id)", table)
			must(t, db.Exec(statement).Error, statement)
		}
		w.job.reached = func(s step) {
			if s != stepCompared {
				return
			}
			w.job.reached = func(step) {}
			migrate("items_10")
			if db.Name() == "sqlite" {
				return
			}
			must(t, db.Exec("ALTER TABLE items_10 ADD CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES orders_10 (id)").Error,
				"a foreign key")
			if db.Name() == "postgres" {
				must(t, db.Exec("GRANT SELECT ON items_10 TO PUBLIC").Error, "GRANT")
			}
		}
		_, err := w.job.Run(t.Context())
		says(t, err, "items_10", "UNIQUE", "items_01_g1", "call the step again")
		w.check(false)
		for _, e := range w.to {
			migrate(e.tables[1].Name)
		}
		if db.Name() != "sqlite" {
			must(t, db.Exec("ALTER TABLE items_10 ADD CONSTRAINT by_key FOREIGN KEY (id) REFERENCES orders_10 (id)").Error,
				"another foreign key")
		}
		_, err = w.job.Run(t.Context())
		must(t, err, "Run again")
		w.check(true)
		if db.Name() == "sqlite" {
			return
		}
		var keys int
		must(t, db.Raw("SELECT count(*) FROM information_schema.table_constraints WHERE table_name = 'items_01_g1' AND "+
			"constraint_type = 'FOREIGN KEY' AND table_schema = "+
			map[string]string{"postgres": "current_schema()", "mysql": "DATABASE()"}[db.Name()]).Scan(&keys).Error, "the foreign keys")
		if keys != 2 {
			t.Errorf("the new table has %d foreign keys, want both of the old one", keys)
		}
		if db.Exec("INSERT INTO items_01_g1 VALUES (40001, 40001, 'alone')").Error == nil {
			t.Error("a row without its order was stored")
		}
		if db.Name() == "postgres" {
			var granted int
			must(t, db.Raw("SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a WHERE c.relname = 'items_01_g1' AND "+
				"a.grantee = 0 AND c.relnamespace = current_schema()::regnamespace").Scan(&granted).Error, "the rights")
			if granted != 1 {
				t.Errorf("the new right is there %d times", granted)
			}
		}
	})
}

// The last look at a table without a lock may come before a migration, and the lock after it.
func TestWhatIsAddedRightBeforeTheLockKeepsTheCutoverBack(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Shared(t).Privileged(), moved)
		kind := dbs[0].Name()
		w := newWorld(t, moved, dbs)
		w.fill(100)
		const old = "items_10"
		fresh := w.to[0].tables[1].Name
		if kind == "postgres" {
			must(t, dbs[0].Exec("CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'").Error,
				"a function")
		}
		trigger := "CREATE TRIGGER snowflake_own AFTER INSERT ON items_10 " + map[string]string{
			"sqlite": "BEGIN SELECT 1; END", "mysql": "FOR EACH ROW SET @own = 1",
			"postgres": "FOR EACH ROW EXECUTE FUNCTION nothing()",
		}[kind]
		untie := "DROP TRIGGER snowflake_own"
		if kind == "postgres" {
			untie += " ON items_10"
		}
		const key = "ALTER TABLE items_10 ADD CONSTRAINT late_key FOREIGN KEY (order_id) REFERENCES orders_10 (id)"
		cases := []struct{ name, add, says, after string }{
			{"a column", "ALTER TABLE items_10 ADD COLUMN late integer", "changed the columns", "ALTER TABLE " + fresh +
				" ADD COLUMN late integer"},
			{"an index", "CREATE UNIQUE INDEX late_index ON items_10 (note, order_id, id)", "changed indexes or constraints",
				"CREATE UNIQUE INDEX late_fresh_index ON " + fresh + " (note, order_id, id)"},
			{"a trigger", trigger, "has made the trigger snowflake_own", ""},
			{"a foreign key", key, "changed indexes or constraints", ""},
		}
		for _, c := range cases {
			if kind == "sqlite" && c.add == key {
				continue // It cannot be added to a table.
			}
			w.job.reached = func(s step) {
				if s == stepClosed {
					w.job.reached = func(step) {}
					must(t, dbs[0].Exec(c.add).Error, c.name)
				}
			}
			_, err := w.job.Run(t.Context())
			if kind == "postgres" && c.add == key {
				must(t, err, "Run, which reads foreign keys under the lock")
				break
			}
			says(t, err, old, c.says, "call the step again")
			w.check(false)
			if c.after != "" {
				must(t, dbs[1].Exec(c.after).Error, c.name+" of the new table")
			}
			if c.add == trigger {
				must(t, dbs[0].Exec(untie).Error, untie)
			}
		}
		if kind != "postgres" {
			_, err := w.job.Run(t.Context())
			must(t, err, "Run again")
		}
		w.check(true)
		if kind != "sqlite" && dbs[1].Exec("INSERT INTO "+fresh+" (id, order_id, note) VALUES (40001, 40001, 'alone')").Error == nil {
			t.Error("a row without its order was stored, so the foreign key is lost")
		}
	})
}

// MySQL waits with another name of a table for those who read a table that it refers to, after it has given another
// table its new name for good.
func TestACutoverGoesOnWithTheTablesThatItHasRenamed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Privileged(), split)
		db := dbs[0]
		w := newWorld(t, split, dbs)
		w.fill(20)
		for _, statement := range []string{
			"CREATE TABLE parents (id bigint PRIMARY KEY)", "INSERT INTO parents SELECT DISTINCT order_id FROM items_10",
			"ALTER TABLE items_10 ADD CONSTRAINT parents_key FOREIGN KEY (order_id) REFERENCES parents (id)",
		} {
			must(t, db.Exec(statement).Error, statement)
		}
		readers := 0
		w.job.reached = func(s step) {
			if s != stepRenamed || readers > 0 {
				return
			}
			readers++
			reader := db.Begin()
			must(t, reader.Exec("SELECT id FROM parents").Error, "a reader")
			time.AfterFunc(1200*time.Millisecond, func() { _ = reader.Commit() })
		}
		w.job.Budget = 10 * time.Second
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		w.check(true)
	})
}

// Writes stand still during the last rounds, so these must not go on when they change nothing.
func TestCopiesThatNeverBecomeRightDoNotHoldWritesUp(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Privileged(), split)
		db := dbs[0]
		w := newWorld(t, split, dbs)
		w.fill(20)
		spoil := map[string][]string{
			"sqlite": {"CREATE TRIGGER spoils AFTER INSERT ON items_01_g1 BEGIN UPDATE items_01_g1 SET note = 'x' WHERE id = NEW.id; END"},
			"mysql":  {"CREATE TRIGGER spoils BEFORE INSERT ON items_01_g1 FOR EACH ROW SET NEW.note = 'x'"},
			"postgres": {"CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note = 'x'; RETURN NEW; END $$",
				"CREATE TRIGGER spoils BEFORE INSERT ON items_01_g1 FOR EACH ROW EXECUTE FUNCTION spoil()"},
		}[db.Name()]
		locked, rounds := false, 0
		w.job.reached = func(s step) {
			switch s {
			case stepListed:
				for _, statement := range spoil {
					must(t, db.Exec(statement).Error, statement)
				}
			case stepLocked:
				locked = true
			case stepApplied:
				if locked {
					rounds++
				}
			}
		}
		_, err := w.job.Run(t.Context())
		says(t, err, "differ", "orders_10", "call the step again")
		if rounds == 0 || rounds > 5 {
			t.Errorf("%d rounds under the lock, want two or three", rounds)
		}
		w.check(false)
		w.job.reached = func(step) {}
		must(t, db.Exec(map[bool]string{false: "DROP TRIGGER spoils", true: "DROP TRIGGER spoils ON items_01_g1"}[db.Name() == "postgres"]).Error,
			"DROP TRIGGER")
		_, err = w.job.Run(t.Context())
		must(t, err, "Run again")
		w.check(true)
	})
}

// A value that is unique may go from the row of one shard to that of another one, right before both are joined.
func TestAUniqueValueThatGoesFromShardToShardDoesNotKeepAJoinBack(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Privileged(), joined)
		db := dbs[0]
		w := newWorld(t, joined, dbs)
		w.fill(20)
		compared, moved := false, false
		w.job.reached = func(s step) {
			compared = compared || s == stepCompared
			if s != stepDrained || !compared || moved {
				return
			}
			moved = true
			for _, statement := range []string{"UPDATE orders_31 SET email = 'free' WHERE id = 3",
				"UPDATE orders_10 SET email = 'mail3' WHERE id = 1"} {
				must(t, db.Exec(statement).Error, statement)
			}
		}
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		w.check(true)
		var emails []string
		must(t, db.Raw("SELECT email FROM "+w.to[0].tables[0].Name+" WHERE id IN (1, 3) ORDER BY id").Scan(&emails).Error, "the emails")
		if !slices.Equal(emails, []string{"mail3", "free"}) {
			t.Errorf("the rows have the emails %q", emails)
		}
	})
}

// Drop leaves nothing behind, and the job can be done afterwards.
func TestDropUndoesEverything(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target.Shared(t).Privileged(), moved)
		w := newWorld(t, moved, dbs)
		w.fill(300)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.job.reached = func(s step) {
			if s == stepRenamed {
				cancel()
			}
		}
		stop := w.write(2)
		_, err := w.job.Run(ctx)
		says(t, err, context.Canceled.Error())
		must(t, w.job.Drop(t.Context()), "Drop")
		stop()
		w.check(false)
		if w.has("_g1") || w.has("snowflake_t1") || w.has("_away") {
			t.Errorf("after Drop there are %v", w.tables())
		}
		must(t, w.job.Drop(t.Context()), "Drop again")
		w.job.reached = nil
		_, err = w.job.Run(t.Context())
		must(t, err, "Run")
		says(t, w.job.Drop(t.Context()), "the cutover is over")
		w.check(true)
	})
}

// The foreign keys between the tables of the shard and to others hold on the new tables, and so do rights and options.
func TestTheNewTablesHaveWhatTheOldOnesHad(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite cannot add foreign keys, and knows no rights")
		}
		_, dbs := open(t, target.Shared(t).Privileged(), split)
		db := dbs[0]
		w := newWorld(t, split, dbs)
		w.fill(300)
		rule := map[string]string{"postgres": " ON DELETE CASCADE ON UPDATE CASCADE"}[db.Name()]
		must(t, db.Exec("ALTER TABLE items_10 ADD CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES orders_10 (id)"+rule).Error,
			"a foreign key")
		if db.Name() == "postgres" {
			must(t, db.Exec("GRANT SELECT ON items_10 TO PUBLIC").Error, "GRANT")
			must(t, db.Exec("ALTER TABLE items_10 SET (fillfactor = 70)").Error, "an option")
			must(t, db.Exec("ALTER TABLE items_10 REPLICA IDENTITY NOTHING").Error, "what replicas are told")
			must(t, db.Exec("ALTER TABLE orders_10 SET (toast.autovacuum_enabled = false)").Error, "an option of the long values")
			must(t, db.Exec("ALTER TABLE items_10 ALTER note SET STORAGE EXTERNAL, ALTER note SET COMPRESSION pglz, "+
				"ALTER note SET STATISTICS 500, ALTER id SET (n_distinct = 5)").Error, "options of columns")
		}
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		w.check(true)
		if db.Exec("INSERT INTO items_01_g1 VALUES (40001, 40001, 'alone')").Error == nil {
			t.Error("a row without its order was stored")
		}
		must(t, w.job.Clean(t.Context()), "Clean")
		if db.Name() == "postgres" {
			must(t, db.Exec("DELETE FROM orders_01_g1 WHERE id = 1").Error, "DELETE")
			var left, granted int
			must(t, db.Raw("SELECT count(*) FROM items_01_g1 WHERE id = 1").Scan(&left).Error, "the items")
			must(t, db.Raw("SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a WHERE c.relname = 'items_01_g1' AND "+
				"a.grantee = 0 AND c.relnamespace = current_schema()::regnamespace AND "+
				"c.reloptions::text LIKE '%fillfactor=70%' AND c.relreplident = 'n' AND EXISTS (SELECT 1 FROM pg_class o JOIN pg_class l ON l.oid = "+
				"o.reltoastrelid WHERE o.oid = 'orders_01_g1'::regclass AND l.reloptions::text LIKE '%autovacuum_enabled=false%')").
				Scan(&granted).Error, "the rights")
			if left != 0 || granted != 1 {
				t.Errorf("%d items are left of the order; the rights and options are there %d times", left, granted)
			}
			var columns []string
			must(t, db.Raw("SELECT concat(attname, attstorage, attcompression, coalesce(attstattarget, -1), coalesce(attoptions @> '{n_distinct=5}', false)) FROM pg_attribute WHERE "+
				"attrelid = 'items_01_g1'::regclass AND attname IN ('id', 'note') ORDER BY 1").Scan(&columns).Error, "the columns")
			if got := fmt.Sprint(columns); got != "[idp-1t noteep500f]" {
				t.Errorf("the columns of the new table have the options %s", got)
			}
		}
	})
}

// A program that writes to a new table before the cutover finds its row there afterwards, or the job names it. It may
// not vanish, as an outdated copy does.
func TestARowOfAStrangerInANewTableIsNamedBeforeTheCutover(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{split, joined, moved} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
				_, dbs := open(t, target.Shared(t).Privileged(), k)
				w := newWorld(t, k, dbs)
				w.fill(300)
				// The first row comes before the rows around its key are copied, and the second one after that.
				strangers := map[step]int64{stepMade: 1001, stepDrained: 2001}
				e := w.to[0]
				w.job.reached = func(s step) {
					key, found := strangers[s]
					if !found {
						return
					}
					delete(strangers, s)
					must(t, e.db.Exec(fmt.Sprintf("INSERT INTO %s (id, name) VALUES (%d, 'v0')", e.tables[0].Name, key)).Error,
						"a row of a stranger")
				}
				for _, key := range []int64{1001, 2001} {
					stop := func() (int, time.Duration) { return 0, 0 }
					if key > 2000 { // The keys of writers are greater, and so is what they list meanwhile.
						stop = w.write(1)
					}
					_, err := w.job.Run(t.Context())
					stop()
					says(t, err, e.tables[0].Name, fmt.Sprint(key), "before the cutover", "delete it from")
					w.check(false)
					var there int64
					must(t, e.db.Raw(fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE id = %d", e.tables[0].Name, key)).Scan(&there).Error,
						"the row of the stranger")
					if there != 1 {
						t.Errorf("there are %d rows with the key %d", there, key)
					}
					must(t, e.db.Exec(fmt.Sprintf("DELETE FROM %s WHERE id = %d", e.tables[0].Name, key)).Error, "the remedy")
				}
				_, err := w.job.Run(t.Context())
				must(t, err, "Run")
				w.check(true)
			})
		})
	}
}
