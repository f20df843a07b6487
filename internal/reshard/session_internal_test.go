package reshard

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// The values that go from one database to another one are texts of the sessions that read and write them. So a time
// zone, a form of dates or a character set of a program must not change what arrives.
func TestAMoveDoesNotDependOnTheSettingsOfSessions(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite has no such settings")
		}
		var plain, set []*gorm.DB
		for i := range 2 {
			dsn := target.Privileged().DSN(t)
			db := target.OpenDSN(t, dsn, nil)
			options := []dbtest.Option{dbtest.MaxOpenConns(6)}
			if target.Dialect == "mysql" {
				options = append(options, dbtest.DSNParam("character_set_results", "utf8mb3"), dbtest.DSNParam("sql_select_limit", "3"),
					dbtest.DSNParam("sql_safe_updates", "1"), dbtest.DSNParam("group_concat_max_len", "4"),
					dbtest.DSNParam("time_zone", fmt.Sprintf("'+0%d:00'", 2+3*i)))
			} else {
				var name string
				must(t, db.Raw("SELECT current_database()").Scan(&name).Error, "the name")
				for _, setting := range []string{"datestyle = 'SQL, " + []string{"DMY", "MDY"}[i] + "'",
					"extra_float_digits = 0", "intervalstyle = " + []string{"sql_standard", "postgres"}[i],
					"timezone = " + []string{"'Asia/Kolkata'", "UTC"}[i], "bytea_output = " + []string{"escape", "hex"}[i]} {
					must(t, db.Exec(fmt.Sprintf("ALTER DATABASE %q SET %s", name, setting)).Error, setting)
				}
			}
			plain, set = append(plain, db), append(set, target.OpenDSN(t, dsn, nil, options...))
		}
		w := newWorld(t, moved, set)
		w.fill(10)
		columns := map[string]string{
			"postgres": "ADD day date DEFAULT '2020-02-03', ADD lasted interval DEFAULT '-1 days +02:03', " +
				"ADD rate float8 DEFAULT 0.1, ADD happened timestamptz DEFAULT '2020-02-03 04:05:06+07', ADD raw bytea DEFAULT '\\x00ff'",
			"mysql": "ADD happened timestamp NULL",
		}[target.Dialect]
		must(t, plain[0].Exec("ALTER TABLE items_10 "+columns).Error, "columns")
		must(t, plain[0].Exec("ALTER TABLE items_10 ADD CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES orders_10 (id)").Error,
			"a foreign key")
		values := map[string]string{"postgres": "day = '2024-06-05', lasted = '-1 days +02:03', rate = 0.1::float8 + 0.2, " +
			"happened = '2024-10-27 02:30:00+02', raw = '\\x00ff5c'",
			"mysql": "happened = '2024-10-27 02:30:00'"}[target.Dialect]
		must(t, plain[0].Exec("UPDATE items_10 SET note = '😀', "+values).Error, "values")
		w.job.reached = func(s step) {
			if s == stepMade {
				must(t, plain[1].Exec("ALTER TABLE items_01_g1 "+columns).Error, "columns")
			}
			if s == stepCompared { // It is listed, and so copied once more.
				must(t, plain[0].Exec("UPDATE items_10 SET order_id = order_id WHERE id = 1").Error, "a write")
			}
		}
		_, err := w.job.Run(t.Context())
		must(t, err, "Run")
		exact := map[string]string{
			"postgres": "day - date '2000-01-01' || ' ' || extract(epoch FROM lasted) || ' ' || encode(float8send(rate), 'hex') || " +
				"extract(epoch FROM happened) || encode(raw, 'hex')",
			"mysql": "CAST(UNIX_TIMESTAMP(happened) AS CHAR)",
		}[target.Dialect]
		var found [2][]string
		for i, table := range []string{"items_10_away", "items_01_g1"} {
			query := "SELECT DISTINCT concat(note, ' ', " + exact + ") FROM " + table
			must(t, plain[i].Raw(query).Scan(&found[i]).Error, "reading")
		}
		if len(found[0]) != 1 || fmt.Sprint(found[0]) != fmt.Sprint(found[1]) {
			t.Errorf("the rows have %q, their copies %q", found[0], found[1])
		}
	})
}

// A database that forgets copies in a crash has lost rows, which the other one calls away or has dropped.
func TestWhatAJobDoesBetweenTwoDatabasesIsOnTheDiskOfPostgreSQL(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		d, err := openDatabase(target.Open(t, nil))
		must(t, err, "the database")
		d.apart = true
		var outside, within string
		must(t, d.pool.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&outside), "the setting")
		must(t, d.transaction(t.Context(), func(q gorm.ConnPool) error {
			return q.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&within)
		}), "a transaction")
		if outside != "off" || within != "on" {
			t.Errorf("synchronous_commit is %s, and %s for the job", outside, within)
		}
	})
}

// Programs go on by a cutover that they have seen, and write to tables that are mere copies if a crash has undone it. It
// waits for no standby that other commits do not wait for, since writers wait for its lock.
func TestACutoverIsOnTheDiskOfPostgreSQL(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target, split)
		m := newWorld(t, split, dbs).opened()
		m.home.pool.SetMaxOpenConns(1)
		for outside, want := range map[string]string{"off": "local", "local": "local", "remote_apply": "remote_apply"} {
			must(t, run(t.Context(), m.home.pool, "SET synchronous_commit = "+outside), "the setting")
			var within string
			_, err := locked(t.Context(), m, func(h held) error {
				return h[m.home].QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&within)
			})
			must(t, err, "a cutover")
			if within != want {
				t.Errorf("synchronous_commit is %s, and %s for the cutover", outside, within)
			}
		}
	})
}

// A pool gets its connection back as it was. A program may have set it to commit nothing by itself.
func TestAConnectionCommitsBySettingsOfItsProgramAfterwards(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		for _, own := range []string{"0", "1"} {
			db := target.OpenDSN(t, target.Privileged().DSN(t), nil, dbtest.MaxOpenConns(2), dbtest.DSNParam("autocommit", own))
			d, err := openDatabase(db)
			must(t, err, "the database")
			must(t, db.Exec("CREATE TABLE notes (id bigint PRIMARY KEY)").Error, "a table")
			ctx := t.Context()
			setting := func(q gorm.ConnPool) string {
				n, err := number(ctx, q, "SELECT @@autocommit")
				must(t, err, "the setting")
				return fmt.Sprint(n)
			}
			must(t, d.onConnection(ctx, func(c *sql.Conn) error {
				if setting(c) != "1" {
					t.Error("a statement of the job does not commit")
				}
				err := d.lock(ctx, c, []string{"notes"}, func(gorm.ConnPool) error { return nil })
				if setting(c) != "1" {
					t.Error("a statement of the job does not commit after a lock")
				}
				return err
			}), "a lock")
			if after := setting(d.pool); after != own {
				t.Errorf("autocommit was %s, and is %s afterwards", own, after)
			}
		}
	})
}

// A proxy that splits reads from writes sends a SELECT to a replica unless a transaction is open. Under the lock that
// would be a list of keys from before the last writes, whose rows would stay behind in the old table.
func TestUnderTheLockEveryReadIsInATransaction(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		inside := map[string]string{
			"mysql":    "SELECT 1 - @@autocommit",
			"postgres": "SELECT CASE WHEN now() < statement_timestamp() THEN 1 ELSE 0 END",
		}[target.Dialect]
		if inside == "" {
			t.Skip("there is no proxy before a file")
		}
		db := target.OpenDSN(t, target.Privileged().DSN(t), nil, dbtest.MaxOpenConns(4))
		d, err := openDatabase(db)
		must(t, err, "the database")
		must(t, db.Exec("CREATE TABLE notes (id bigint PRIMARY KEY)").Error, "a table")
		ctx := t.Context()
		must(t, d.onConnection(ctx, func(c *sql.Conn) error {
			return d.lock(ctx, c, []string{"notes"}, func(q gorm.ConnPool) error {
				for i := range 2 {
					if n, err := number(ctx, q, inside); err != nil || n != 1 {
						t.Errorf("read %d is in no transaction: %d, %v", i, n, err)
					}
					must(t, d.underLock(ctx, q, func() error { return run(ctx, q, "INSERT INTO notes VALUES ("+fmt.Sprint(i)+")") }), "a write")
				}
				return nil
			})
		}), "a lock")
		if n, err := number(ctx, d.pool, "SELECT COUNT(*) FROM notes"); err != nil || n != 2 {
			t.Errorf("%d rows were written, want 2: %v", n, err)
		}
	})
}

// MySQL and MariaDB take values that the mode of a session would refuse or change, if an earlier mode let them in.
func TestRowsThatTheModeOfASessionWouldNotTakeAreCopiedAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]kind{"in one database": split, "between two": moved} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
				_, dbs := open(t, target.Privileged(), k)
				w := newWorld(t, k, dbs)
				w.fill(20)
				shape := func(db *gorm.DB, table string) {
					must(t, db.Exec("ALTER TABLE "+table+" ADD COLUMN counted integer NOT NULL AUTO_INCREMENT, ADD KEY (counted), "+
						"ADD COLUMN day date, ADD COLUMN spoken text").Error, "columns")
				}
				shape(dbs[0], "items_10")
				must(t, dbs[0].Connection(func(tx *gorm.DB) error {
					must(t, tx.Exec("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'").Error, "the mode")
					defer tx.Exec("SET SESSION sql_mode = DEFAULT")
					must(t, tx.Exec("UPDATE items_10 SET counted = 0 WHERE id = 1").Error, "no number")
					must(t, tx.Exec("UPDATE items_10 SET day = '0000-00-00', spoken = 'a\\\\b' WHERE id IN (1, 3)").Error, "no day")
					return tx.Exec("UPDATE items_10 SET day = '2024-02-31' WHERE id IN (5, 7)").Error
				}), "values")
				w.job.reached = func(s step) {
					if s == stepMade {
						for _, e := range w.to {
							shape(e.db, e.tables[1].Name)
						}
					}
				}
				_, err := w.job.Run(t.Context())
				must(t, err, "Run")
				for _, e := range w.to {
					var odd int
					must(t, e.db.Raw("SELECT count(*) FROM "+e.tables[1].Name+" WHERE CAST(day AS CHAR) IN ('0000-00-00', '2024-02-31')").
						Scan(&odd).Error, "the days")
					if want := 4 / len(w.to); odd != want {
						t.Errorf("%s has %d odd days, want %d", e.tables[1].Name, odd, want)
					}
				}
			})
		})
	}
}

// MySQL writes such a value by a function of its own, and not as a text.
func TestAVectorIsMoved(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		for _, k := range []kind{split, moved} {
			_, dbs := open(t, target.Privileged(), k)
			w := newWorld(t, k, dbs)
			w.fill(20)
			if dbs[0].Exec("ALTER TABLE items_10 ADD COLUMN embedded vector(2)").Error != nil {
				t.Skip("the server has no vectors")
			}
			must(t, dbs[0].Exec("UPDATE items_10 SET embedded = X'0000803F00002040' WHERE id < 20").Error, "values")
			w.job.reached = func(s step) {
				if s == stepMade {
					for _, e := range w.to {
						must(t, e.db.Exec("ALTER TABLE "+e.tables[1].Name+" ADD COLUMN embedded vector(2)").Error, "columns")
					}
				}
			}
			_, err := w.job.Run(t.Context())
			must(t, err, "Run")
			all := 0
			for _, e := range w.to {
				var n int
				must(t, e.db.Raw("SELECT count(*) FROM "+e.tables[1].Name+" WHERE HEX(embedded) = '0000803F00002040'").Scan(&n).Error,
					"the values")
				all += n
			}
			if all != 10 {
				t.Errorf("%d values were moved, want 10", all)
			}
		}
	})
}

// Such a server refuses every write of a job, and also that of Drop. It may be the one that a shard is moved to.
func TestAServerThatLogsStatementsIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{split, moved} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Run(t, []dbtest.Target{dbtest.Named("mysql")}, func(t *testing.T, target dbtest.Target) {
				dsns, dbs := open(t, target.Privileged(), k)
				last := len(dbs) - 1
				dbs[last] = target.Privileged().OpenDSN(t, dsns[last], nil, dbtest.MaxOpenConns(4),
					dbtest.DSNParam("binlog_format", "STATEMENT"))
				w := newWorld(t, k, dbs)
				w.fill(20)
				_, err := w.job.Run(t.Context())
				says(t, err, "binlog_format = STATEMENT", "ROW or MIXED")
				if w.has("snowflake") || w.has("_g1") {
					t.Errorf("there are the tables %v", w.tables())
				}
			})
		})
	}
}

// MariaDB refuses every write to a table of which it has read the triggers by halves. It does so if a statement is
// ended while it opens the table, and ours are ended when they wait for too long.
func TestALockThatIsGivenUpLeavesTheTriggersOfATableWhole(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, []dbtest.Target{dbtest.Named("mariadb")}, func(t *testing.T, target dbtest.Target) {
		ctx := t.Context()
		db := target.OpenDSN(t, target.Privileged().DSN(t), nil, dbtest.MaxOpenConns(4))
		d, err := openDatabase(db)
		must(t, err, "the database")
		must(t, db.Exec("CREATE TABLE notes (id bigint PRIMARY KEY)").Error, "a table")
		long := strings.Repeat("SET @a = 1; ", 20_000) // The server reads it for longer than a lock is waited for.
		must(t, db.Exec("CREATE TRIGGER noting AFTER INSERT ON notes FOR EACH ROW BEGIN "+long+"END").Error, "a trigger")
		given := 0
		for range 5 {
			must(t, db.Exec("ALTER TABLE notes ENABLE KEYS").Error, "closing the table")
			err := d.onConnection(ctx, func(c *sql.Conn) error {
				err := d.lock(ctx, c, []string{"notes"}, func(gorm.ConnPool) error { return nil })
				must(t, run(ctx, c, "DELETE FROM notes"), fmt.Sprintf("a write after a lock (%v)", err))
				return err
			})
			if err == nil {
				given++
			} else if !isLocked(err) { // which may come too late on a slow machine
				t.Error("a lock of a table that was not open:", err)
			}
		}
		if given == 0 {
			t.Error("no lock was had in time: the table was not opened before")
		}
	})
}

// A session with session_replication_role = replica runs no usual trigger, and a restore switches the triggers of a table
// off for a while.
func TestWritesThatRunNoUsualTriggerAreNotMissed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target, split)
		w := newWorld(t, split, dbs)
		w.fill(200)
		write := func(key int64, before, after string) {
			w.rows[key] = content(int(key))
			err := dbs[0].Transaction(func(tx *gorm.DB) error {
				for _, statement := range []string{
					before, fmt.Sprintf("UPDATE orders_10 SET name = '%s' WHERE id = %d", w.rows[key], key),
					fmt.Sprintf("UPDATE items_10 SET note = '%s' WHERE id = %d", w.rows[key], key),
					fmt.Sprintf("UPDATE tags_10 SET tag = '%s' WHERE order_id = %d AND tag <> 'second'", w.rows[key], key), after,
				} {
					if err := tx.Exec(statement).Error; err != nil {
						return err
					}
				}
				return nil
			})
			must(t, err, "a write")
		}
		compared := 0
		w.job.reached = func(s step) {
			if s != stepCompared {
				return
			}
			if compared++; compared == 1 {
				write(7, "SET LOCAL session_replication_role = replica", "SELECT 1")
				write(9, "ALTER TABLE orders_10 DISABLE TRIGGER ALL", "ALTER TABLE orders_10 ENABLE TRIGGER ALL")
			}
		}
		_, err := w.job.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "switched off the trigger") {
			t.Errorf("a table whose triggers were switched off: %v", err)
		}
		_, err = w.job.Run(t.Context())
		must(t, err, "Run")
		w.check(true)
	})
}

// A trigger that is made again, because it was switched off, waits for those who write, and not for those who read: whoever
// reads first and then writes would meet it halfway, and the server would end one of the two.
func TestATriggerIsMadeAgainWhileSomebodyReads(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		_, dbs := open(t, target, split)
		m := newWorld(t, split, dbs).opened()
		must(t, m.old[0].capture(t.Context()), "the triggers")
		must(t, dbs[0].Exec("ALTER TABLE orders_10 DISABLE TRIGGER ALL").Error, "switching them off")
		must(t, dbs[0].Transaction(func(tx *gorm.DB) error {
			must(t, tx.Exec("SELECT 1 FROM orders_10").Error, "a reader")
			return m.old[0].capture(t.Context())
		}), "the triggers, once more")
		missing, _, err := missingTriggers(t.Context(), m.home.pool, m.old[0].tables[0])
		must(t, err, "a look")
		if len(missing) > 0 {
			t.Errorf("the trigger %s is off", missing[0].name)
		}
	})
}

// A transaction that keeps to what it has seen first would not see what was written before it had the lock, or would
// be broken off for what others have read.
func TestTransactionsOfAJobAreReadCommittedWhateverIsTheDefault(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		var name, got string
		db := target.OpenDSN(t, dsn, nil)
		must(t, db.Raw("SELECT current_database()").Scan(&name).Error, "the name")
		must(t, db.Exec(fmt.Sprintf("ALTER DATABASE %q SET default_transaction_isolation = serializable", name)).Error, "the default")
		d, err := openDatabase(target.OpenDSN(t, dsn, nil))
		must(t, err, "the database")
		must(t, d.transaction(t.Context(), func(q gorm.ConnPool) error {
			return q.QueryRowContext(t.Context(), "SHOW transaction_isolation").Scan(&got)
		}), "a transaction")
		if got != "read committed" {
			t.Errorf("a transaction is %s", got)
		}
	})
}

// A server may let statements outside of transactions see what is not committed. The key of a row that is about to
// change must not be taken from the list with the row as it was.
func TestAKeyIsTakenFromTheListOnlyWithWhatIsCommitted(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]kind{"in one database": split, "between two": moved} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
				target = target.Privileged()
				var dsns []string
				var dbs []*gorm.DB
				isolation := "tx_isolation"
				if target.Name == "mysql" {
					isolation = "transaction_isolation"
				}
				for range k.databases {
					dsns = append(dsns, target.DSN(t))
					dbs = append(dbs, target.OpenDSN(t, dsns[len(dsns)-1], nil, dbtest.DSNParam(isolation, "'READ-UNCOMMITTED'")))
				}
				w := newWorld(t, k, dbs)
				w.fill(20)
				late := target.OpenDSN(t, dsns[0], nil)
				var tx *gorm.DB
				w.job.reached = func(s step) {
					switch {
					case s == stepCompared:
						tx = late.Begin()
						for _, set := range []string{"orders_10 SET name", "items_10 SET note"} {
							must(t, tx.Exec("UPDATE "+set+" = 'late' WHERE id = 1").Error, "a write")
						}
						must(t, tx.Exec("UPDATE tags_10 SET tag = 'late' WHERE order_id = 1 AND tag <> 'second'").Error, "a write")
					case tx != nil && (s == stepApplied || s == stepDrained):
						must(t, tx.Commit().Error, "the commit")
						tx = nil
					}
				}
				w.rows[1] = "late"
				_, err := w.job.Run(t.Context())
				must(t, err, "Run")
				w.check(true)
			})
		})
	}
}
