package resharding_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

// shardOne is the shard that these tests split.
var shardOne = resharding.Class{Residue: 1, Modulus: splitFrom}

// once returns settings with which something happens once, at the first progress of a step.
func once(step string, do func()) resharding.Settings {
	return resharding.Settings{Chunk: 5, Progress: func(p resharding.Progress) {
		if p.Step == step && do != nil {
			now := do
			do = nil
			now()
		}
	}}
}

// interrupt begins to split the shard 1, and ends that at the first progress of a step.
func (p *program) interrupt(step string) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	if _, err := once(step, cancel).Split(ctx, p.router, shardOne, 2); !errors.Is(err, context.Canceled) {
		p.Fatalf("a split that was interrupted at %s: %v", step, err)
	}
}

func tablesOf(t *testing.T, db *gorm.DB) string {
	t.Helper()
	names, err := db.Migrator().GetTables()
	must(t, err, "GetTables")
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestAReshardingThatWasInterruptedIsResumedByAnyProcess(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		first := startRouter(t, db)
		orders := first.create(100)
		first.interrupt("drain")
		first.finds(orders, "after the interruption")
		_, err := resharding.Join(t.Context(), first.router, resharding.Class{Residue: 1, Modulus: 1}, 0)
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "another resharding of the shard")
		// The journal says that all rows are copied.
		must(t, db.Exec("DROP TABLE split_orders_05_g1").Error, "dropping a new table")
		must(t, db.Exec("DELETE FROM split_orders_01_g1").Error, "emptying a new table")
		second := startRouter(t, target.OpenDSN(t, dsn, nil))
		must(t, resharding.Resume(t.Context(), second.router), "Resume")
		same(t, "shards", second.router.Shards(), splitFrom+1)
		second.finds(orders, "after Resume")
		first.finds(orders, "in the process that was interrupted")
		must(t, resharding.Resume(t.Context(), first.router), "Resume of what is over")
		must(t, resharding.Drop(t.Context(), first.router), "Drop of what is over")
		first.finds(orders, "after Drop, which has had nothing to do")
	})
}

func TestDropTakesAReshardingBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		p := startRouter(t, db)
		orders := p.create(100)
		before := tablesOf(t, db)
		p.interrupt("drain")
		must(t, resharding.Clean(t.Context(), p.router), "Clean of what has not cut over")
		other := startRouter(t, target.OpenDSN(t, dsn, nil))
		must(t, resharding.Drop(t.Context(), other.router), "Drop")
		same(t, "shards", other.router.Shards(), splitFrom)
		left := strings.NewReplacer(" snowflake_copies", "", " snowflake_reshardings", "", " sqlite_sequence", "").
			Replace(tablesOf(t, db)) // SQLite makes the last one itself, and keeps it.
		same(t, "tables", left, before)
		p.finds(orders, "after Drop")
		_, err := resharding.Split(t.Context(), p.router, shardOne, 2)
		must(t, err, "Split")
		p.finds(orders, "after a split")
	})
}

// Whoever learns that there is no room for the copies can still leave everything as it is.
func TestTheSpaceThatASplitNeedsIsToldBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		p := startRouter(t, db)
		p.create(100)
		before := tablesOf(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told []resharding.Progress
		_, err := resharding.Settings{Progress: func(now resharding.Progress) {
			told = append(told, now)
			cancel()
		}}.Split(ctx, p.router, shardOne, 2)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a split that was ended: %v", err)
		}
		if len(told) != 1 || told[0].Step != "check" || told[0].Bytes < 3*4096 {
			t.Errorf("it told %+v, want a check with the bytes of three tables", told)
		}
		same(t, "tables", tablesOf(t, db), before)
	})
}

// A migration adds a column to the tables that are in use. Its values must not stay behind.
func TestAColumnThatIsAddedMeanwhileIsMoved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		p := startRouter(t, db)
		orders := p.create(100)
		add := func(table string) {
			must(t, db.Exec("ALTER TABLE "+table+" ADD COLUMN extra integer").Error, "ALTER TABLE")
		}
		_, err := once("compare", func() {
			add("split_orders_01")
			must(t, db.Exec("UPDATE split_orders_01 SET extra = 7").Error, "values")
		}).Split(t.Context(), p.router, shardOne, 2)
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a split")
		suite.Says(t, err, "split_orders_01", "extra", "call the step again")
		p.finds(orders, "after a split that was refused")
		err = resharding.Resume(t.Context(), p.router)
		suite.Says(t, err, "split_orders_01 has a column extra")
		add("split_orders_01_g1")
		add("split_orders_05_g1")
		must(t, resharding.Resume(t.Context(), p.router), "Resume")
		var without int64
		must(t, db.Raw("SELECT (SELECT COUNT(*) FROM split_orders_01_g1 WHERE extra IS NULL) + "+
			"(SELECT COUNT(*) FROM split_orders_05_g1 WHERE extra IS NULL)").Scan(&without).Error, "reading")
		same(t, "rows without the value", without, 0)
		p.finds(orders, "after Resume")
	})
}

func TestWhatIsAddedMeanwhileStandsInTheWayOfACutover(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		p := startRouter(t, db)
		orders := p.create(100)
		_, err := once("copy", func() {
			must(t, db.Exec("CREATE VIEW seen AS SELECT id, amount FROM split_items_01").Error, "a view")
		}).Split(t.Context(), p.router, shardOne, 2)
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a split")
		suite.Says(t, err, "seen", "drop it first")
		p.finds(orders, "after a split that was refused")
		must(t, db.Exec("DROP VIEW seen").Error, "DROP VIEW")
		must(t, resharding.Resume(t.Context(), p.router), "Resume")
		p.finds(orders, "after Resume")
	})
}

// A process is paused, another one goes on, and programs write to the new tables. When the first one continues, it
// must not change a row.
func TestAProcessThatWasPausedChangesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		for _, step := range nightly.Pick([]string{"drain"}, []string{"copy", "drain", "compare"}) {
			dsn := target.DSN(t)
			paused := startRouter(t, target.OpenDSN(t, dsn, nil))
			orders := paused.create(100)
			_, err := once(step, func() {
				other := startRouter(t, target.OpenDSN(t, dsn, nil))
				must(t, resharding.Resume(t.Context(), other.router), step+": Resume")
				orders = append(orders, other.create(50)...)
			}).Split(t.Context(), paused.router, shardOne, 2)
			suite.WantErr(t, err, snowflakeplugin.ErrSharding, step+": the first process")
			paused.finds(orders, step+": afterwards")
		}
	})
}

// Somebody writes to an old table under its new name, by which nobody reads.
func TestCleanDoesNotDropARowThatCameLate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		p := startRouter(t, db)
		orders := p.create(100)
		_, err := resharding.Split(t.Context(), p.router, shardOne, 2)
		must(t, err, "Split")
		late := p.onOne(orders).ID - 4096
		must(t, db.Exec("INSERT INTO split_orders_01_away (id, name) VALUES (?, 'late')", late).Error, "a late row")
		err = resharding.Clean(t.Context(), p.router)
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Clean")
		suite.Says(t, err, "came after the cutover", "by hand")
		var n int64
		must(t, db.Table("split_orders_01_away").Where("id = ?", late).Count(&n).Error, "counting")
		same(t, "late rows", n, 1)
	})
}

// Keys from when WithShards was smaller are colocated by a smaller modulus only.
func TestRowsAreNotPartedFromThoseTheyAreKeyedLike(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		p := startRouter(t, db)
		one := p.onOne(p.create(100))
		apart := one.ID - 4096 + splitFrom
		if apart&^(2*splitFrom-1) != (one.ID-4096)&^(2*splitFrom-1) {
			apart = one.ID - 4096 - splitFrom
		}
		before := tablesOf(t, db)
		must(t, db.Exec("INSERT INTO split_items_01 (id, order_id, amount) VALUES (?, ?, 1)", apart, one.ID).Error,
			"an item with an old key")
		_, err := resharding.Split(t.Context(), p.router, shardOne, 2)
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Split")
		suite.Says(t, err, fmt.Sprint(apart), "split_items_01", "WithShards was smaller")
		same(t, "tables", tablesOf(t, db), before)
		must(t, db.Exec("DELETE FROM split_items_01 WHERE id = ?", apart).Error, "DELETE")
		_, err = resharding.Split(t.Context(), p.router, shardOne, 2)
		must(t, err, "Split")
	})
}

func TestAReshardingEndsWithPoolsOfAnySize(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		for _, size := range []int{1, 2} {
			var dbs []*gorm.DB
			for range 2 {
				dbs = append(dbs, target.OpenDSN(t, target.DSN(t), nil, dbtest.MaxOpenConns(size)))
			}
			p := startRouter(t, dbs...)
			orders := p.create(100)
			_, err := resharding.Split(ctx, p.router, shardOne, 2, 0, 1)
			if size == 1 && target.Dialect == "mysql" {
				suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a cutover without a second connection")
				suite.Says(t, err, "one connection")
				continue
			}
			must(t, err, fmt.Sprintf("Split over two databases with %d connections", size))
			stopping, stop := context.WithCancel(ctx)
			if _, err = once("copy", stop).Join(stopping, p.router, shardOne, 0); !errors.Is(err, context.Canceled) {
				t.Fatalf("Join: %v", err)
			}
			must(t, resharding.Drop(ctx, p.router), fmt.Sprintf("Drop with %d connections", size))
			_, err = resharding.Join(ctx, p.router, shardOne, 0)
			must(t, err, fmt.Sprintf("Join with %d connections", size))
			must(t, resharding.Clean(ctx, p.router), "Clean")
			p.finds(orders, "afterwards")
		}
	})
}

// Two databases do not commit together. What breaks off between their records leaves databases that disagree.
func TestACutoverThatBrokeOffBetweenTwoDatabasesIsFinished(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsns := []string{target.DSN(t), target.DSN(t)}
		dbs := []*gorm.DB{target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil)}
		p := startRouter(t, dbs...)
		orders := p.create(100)
		recorded := false // in the database that gets the shard
		broken := errors.New("broken by the test")
		for i, db := range dbs {
			must(t, db.Callback().Update().Before("gorm:update").Register("break", func(tx *gorm.DB) {
				values, ok := tx.Statement.Dest.(map[string]any)
				switch {
				case tx.Statement.Table != "snowflake_shards" || !ok || values["held"] == nil:
				case i == 1:
					recorded = true
				case recorded:
					_ = tx.AddError(broken)
				}
			}), "a callback")
		}
		_, err := resharding.Move(t.Context(), p.router, shardOne, 1)
		if !errors.Is(err, broken) {
			t.Fatalf("the move: %v", err)
		}
		other := startRouter(t, target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil))
		must(t, resharding.Resume(t.Context(), other.router), "Resume")
		other.finds(orders, "after Resume")
		for _, db := range dbs {
			must(t, db.Callback().Update().Remove("break"), "Remove")
		}
		p.finds(orders, "in the process whose move broke off")
	})
}

// Somebody writes to the file of SQLite for longer than its busy timeout.
func TestAReshardingWaitsForAnotherWriterOfSQLite(t *testing.T) {
	t.Parallel()
	target := dbtest.Named("sqlite")
	dsn := target.DSN(t)
	db := target.OpenDSN(t, dsn, nil)
	p := startRouter(t, db)
	orders := p.create(100)
	other := target.OpenDSN(t, dsn, nil)
	pool, err := db.DB()
	must(t, err, "DB")
	pool.SetMaxOpenConns(1)
	must(t, db.Exec("PRAGMA busy_timeout = 50").Error, "PRAGMA")
	for _, step := range []string{"", "copy", "drain", "compare"} {
		held := make(chan error, 1)
		hold := func() {
			tx := other.Begin()
			must(t, tx.Exec("UPDATE split_tags SET name = name").Error, "the lock")
			go func() {
				time.Sleep(nightly.Pick(700*time.Millisecond, 3*time.Second))
				held <- tx.Rollback().Error
			}()
		}
		settings := once(step, hold)
		if settings.Budget = 10 * time.Second; step == "" {
			hold()
		}
		modulus := 2 * splitFrom
		if p.router.Shards() > splitFrom {
			modulus = splitFrom
		}
		_, err := settings.Resize(t.Context(), p.router, modulus)
		must(t, err, "Resize with a writer at "+step)
		must(t, <-held, "Rollback")
		p.finds(orders, "afterwards")
		must(t, resharding.Clean(t.Context(), p.router), "Clean")
	}
}

// Nothing has a generation yet when the first cutover closes its entry, and a mover may be killed right then.
func TestAProgramStartsWhileTheFirstCutoverIsUnderWay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		orders := startRouter(t, db).create(100)
		must(t, db.Exec("UPDATE snowflake_shards SET held = '0,1!,2-3'").Error, "closing shard 1")
		starting := openRouter(t, target.OpenDSN(t, dsn, nil))
		var found []splitOrder
		ids := []snowflakeplugin.ID{starting.onOne(orders).ID}
		must(t, starting.router.Find(t.Context(), &found, ids), "Find")
		_, err := resharding.Split(t.Context(), starting.router, shardOne, 2)
		must(t, err, "Split")
		starting.finds(orders, "afterwards")
	})
}

// The last that Clean removes is the record of a resharding, and a process may be killed right before that.
func TestACleanThatBrokeOffBeforeItsLastStepIsFinished(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.OpenDSN(t, target.DSN(t), nil)
		p := startRouter(t, db)
		orders := p.create(100)
		_, err := resharding.Split(t.Context(), p.router, shardOne, 2)
		must(t, err, "Split")
		must(t, db.Exec("CREATE TABLE kept AS SELECT * FROM snowflake_reshardings").Error, "keeping the record")
		must(t, resharding.Clean(t.Context(), p.router), "Clean")
		must(t, db.Exec("INSERT INTO snowflake_reshardings SELECT * FROM kept").Error, "the record")
		must(t, resharding.Resume(t.Context(), p.router), "Resume")
		must(t, resharding.Clean(t.Context(), p.router), "Clean again")
		var left int64
		must(t, db.Table("snowflake_reshardings").Count(&left).Error, "the records")
		same(t, "records", left, 0)
		p.finds(orders, "afterwards")
	})
}

// A program starts while another one splits a shard. Late statements must not find tables under the old names.
func TestAutoMigrateMakesNoTableThatACutoverHasRenamed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		for look := range nightly.Pick(2, 4) { // GORM looks for a table that the router has found.
			dsn := target.DSN(t)
			mover := startRouter(t, target.OpenDSN(t, dsn, nil))
			orders := mover.create(100)
			db := target.OpenDSN(t, dsn, nil)
			starting := startRouter(t, db)
			looks := 0
			must(t, db.Callback().Row().Before("gorm:row").Register("split", func(tx *gorm.DB) {
				if !strings.Contains(fmt.Sprint(tx.Statement.SQL.String(), tx.Statement.Vars), "split_orders_01") {
					return
				}
				if looks++; looks == look+1 {
					_, err := resharding.Split(t.Context(), mover.router, shardOne, 2)
					must(t, err, "Split")
				}
			}), "a callback")
			if err := starting.router.AutoMigrate(t.Context()); err != nil && !errors.Is(err, snowflakeplugin.ErrShardMap) {
				t.Errorf("AutoMigrate: %v", err)
			}
			same(t, "AutoMigrate was overtaken", looks > look, true)
			for _, table := range []string{"split_orders_01", "split_items_01", "split_order_tags_01"} {
				if db.Migrator().HasTable(table) {
					t.Errorf("%s was made again after look %d", table, look)
				}
			}
			must(t, starting.router.AutoMigrate(t.Context()), "AutoMigrate again")
			starting.finds(orders, "afterwards")
		}
	})
}

// The cutover ends between the look for the table and the statement that makes it. A late row that came into the table
// would be acknowledged and lost.
func TestNoLateRowFindsATableThatAutoMigrateWouldHaveMadeAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		orders := mover.create(100)
		db, late := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil)
		starting := startRouter(t, db)
		split, made := false, false
		must(t, db.Callback().Row().Before("gorm:row").Register("split", func(tx *gorm.DB) {
			if !split && strings.Contains(fmt.Sprint(tx.Statement.SQL.String(), tx.Statement.Vars), "split_orders_01") {
				split = true
				_, err := resharding.Split(t.Context(), mover.router, shardOne, 2)
				must(t, errors.Join(err, resharding.Clean(t.Context(), mover.router)), "Split")
			}
		}), "a callback")
		must(t, db.Callback().Raw().After("gorm:raw").Register("write", func(tx *gorm.DB) {
			if text := tx.Statement.SQL.String(); strings.HasPrefix(text, "CREATE TABLE") && strings.Contains(text, "split_orders_01") {
				made = true
				if err := late.Exec("INSERT INTO split_orders_01 (id) VALUES (17)").Error; !dialect.Missing(err) {
					t.Errorf("a late row: %v", err)
				}
			}
		}), "a callback")
		must(t, starting.router.AutoMigrate(t.Context()), "AutoMigrate")
		same(t, "the shard was split, and AutoMigrate came to its table", split && made, true)
		starting.finds(orders, "afterwards")
	})
}

// While a program makes a table, nobody closes the entry of its shard. SQLite lets others write, and refuses the table.
func TestAnEntryIsNotReplacedWhileItsTableIsMade(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		orders := mover.create(20)
		db := target.OpenDSN(t, dsn, nil)
		starting := startRouter(t, db).router.Inner()
		entries := shardmap.Registry{Topology: starting.Topology}
		ended := make(chan error, 1)
		early := false
		err := entries.WhileOpen(db, starting.Entry(1), func(tx *gorm.DB) error {
			go func() {
				_, err := resharding.Settings{Budget: time.Minute}.Split(t.Context(), mover.router, shardOne, 2)
				ended <- err
			}()
			select {
			case err := <-ended:
				early = true
				ended <- err
			case <-time.After(time.Second):
			}
			return tx.Exec("CREATE TABLE made (id INTEGER)").Error
		})
		if early && err == nil || !early && err != nil && !dialect.Busy(err) {
			t.Errorf("the entry was replaced: %t, and the table: %v", early, err)
		}
		must(t, <-ended, "Split")
		err = entries.WhileOpen(db, starting.Entry(1), func(*gorm.DB) error { return nil })
		suite.WantErr(t, err, snowflakeplugin.ErrShardMap, "an entry that was replaced")
		mover.finds(orders, "afterwards")
	})
}

// SQLite waits for its own lock, as long as the connection says.
func TestTheLockOfTheMapIsNotAwaitedBeyondTheContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("it has no lock for the map alone")
		}
		dsn := target.DSN(t)
		db, waiting := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil)
		router := startRouter(t, db).router.Inner()
		entries := shardmap.Registry{Topology: router.Topology}
		must(t, entries.WhileOpen(db, router.Entry(1), func(*gorm.DB) error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			since := time.Now()
			err := entries.WhileOpen(waiting.WithContext(ctx), router.Entry(1), func(*gorm.DB) error { return nil })
			if took := time.Since(since); took > 5*time.Second {
				t.Errorf("it has waited for %v", took)
			}
			suite.WantErr(t, err, context.DeadlineExceeded, "a lock that somebody else has")
			return nil
		}), "WhileOpen")
		must(t, entries.WhileOpen(waiting, router.Entry(1), func(*gorm.DB) error { return nil }), "WhileOpen afterwards")
	})
}

// Another program was stopped while it makes a table in the database to which a shard moves.
func TestNoEntryIsClosedBeforeTheLocksOfAllDatabasesAreFree(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("it has no lock for the map alone")
		}
		dsns := []string{target.DSN(t), target.DSN(t)}
		other := target.OpenDSN(t, dsns[1], nil)
		p := startRouter(t, target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil))
		orders := p.create(20)
		take, release := dialect.Kind(other.Name()).Exclusive("snowflake_shards", true)
		tx, look, taken := other.Begin(), target.OpenDSN(t, dsns[0], nil), 0
		must(t, tx.Raw(take[0]).Scan(&taken).Error, "the lock")
		moved := make(chan error, 1)
		go func() {
			_, err := resharding.Move(t.Context(), p.router, shardOne, 1)
			moved <- err
		}()
		time.Sleep(3 * time.Second)
		closed := int64(0)
		must(t, look.Table("snowflake_shards").Where("held LIKE '%!%'").Count(&closed).Error, "the records")
		same(t, "records with a closed entry", closed, 0)
		if release != "" {
			must(t, tx.Exec(release).Error, "the lock is given back")
		}
		must(t, tx.Rollback().Error, "the transaction")
		must(t, <-moved, "Move")
		p.finds(orders, "afterwards")
	})
}

// A program that was stopped while it makes a table keeps others from the map. The error says which one it is.
func TestWhoeverHasTheLockOfTheMapIsNamed(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "MySQL gives up after ten seconds")
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		p, other := startRouter(t, target.OpenDSN(t, dsn, nil)), target.OpenDSN(t, dsn, nil)
		if other.Name() == "sqlite" {
			return // The file is locked as a whole.
		}
		p.create(10)
		stopped := startRouter(t, other).router.Inner()
		var connection int64
		err := shardmap.Registry{Topology: stopped.Topology}.WhileOpen(other, stopped.Entry(1), func(tx *gorm.DB) error {
			id := map[string]string{"postgres": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}[other.Name()]
			must(t, tx.Raw(id).Scan(&connection).Error, "the connection")
			_, err := resharding.Split(t.Context(), p.router, shardOne, 2)
			suite.WantErr(t, err, snowflakeplugin.ErrSharding, "Split")
			if !strings.Contains(err.Error(), fmt.Sprint(connection)) {
				t.Errorf("the error does not name %d: %v", connection, err)
			}
			return nil
		})
		must(t, err, "the lock")
		must(t, resharding.Resume(t.Context(), p.router), "Resume")
	})
}

func TestADryRunOfAutoMigrateMakesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		p := routerOn(t, db.Session(&gorm.Session{DryRun: true}))
		must(t, p.router.AutoMigrate(t.Context()), "AutoMigrate")
		same(t, "a table is there", db.Migrator().HasTable("split_orders_00") || db.Migrator().HasTable("snowflake_shards"), false)
	})
}

// Another program has the records of the map for a moment, as by a resharding of another shard, when all but them is
// renamed. The cutover waits, and begins again.
func TestACutoverWaitsForTheRecordsOfTheMap(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		p, other := startRouter(t, target.OpenDSN(t, dsn, nil)), target.OpenDSN(t, dsn, nil)
		orders := p.create(50)
		holds := once("compare", func() {
			tx := other.Begin()
			must(t, tx.Exec("UPDATE snowflake_shards SET shards = shards").Error, "the records")
			time.AfterFunc(time.Second, func() { tx.Rollback() })
		})
		holds.Budget = time.Minute
		_, err := holds.Split(t.Context(), p.router, shardOne, 2)
		must(t, err, "Split")
		p.finds(orders, "afterwards")
	})
}

// A model may name its tables with the schema that the connection has anyway. GORM's own look for a table does
// not find it then on MySQL, so the router must not rely on that: without its records it would go on with the
// map as it was at the first start.
func TestTablesThatNameTheirOwnSchemaAreSplitAndJoined(t *testing.T) {
	t.Parallel()
	servers := slices.Concat(dbtest.ServersOf("mysql"), dbtest.ServersOf("postgres"))
	dbtest.Run(t, dbtest.Chosen(t.Name(), servers), func(t *testing.T, target dbtest.Target) {
		target = mayMakeTriggers(target.Shared(t))
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		var space string
		must(t, db.Raw("SELECT "+map[string]string{"postgres": "current_schema()", "mysql": "DATABASE()"}[db.Name()]).
			Scan(&space).Error, "the schema")
		named := func() *gorm.DB {
			return target.OpenDSN(t, dsn, &gorm.Config{NamingStrategy: schema.NamingStrategy{TablePrefix: space + "."}})
		}
		p := startRouter(t, named())
		orders := p.create(100)
		must(t, db.Exec("ALTER TABLE split_items_01 ADD CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES split_orders_01 (id)").
			Error, "a foreign key")
		keys := func() string {
			var all []string
			must(t, db.Raw(map[string]string{
				"mysql": "SELECT CONCAT(TABLE_NAME, ' -> ', REFERENCED_TABLE_NAME) FROM information_schema.KEY_COLUMN_USAGE " +
					"WHERE TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME IS NOT NULL ORDER BY 1",
				"postgres": "SELECT conrelid::regclass || ' -> ' || confrelid::regclass FROM pg_constraint WHERE contype = 'f' " +
					"AND connamespace = current_schema()::regnamespace ORDER BY 1",
			}[db.Name()]).Scan(&all).Error, "the foreign keys")
			return strings.Join(all, ", ")
		}
		finds := func(p *program) {
			t.Helper()
			var found []splitOrder
			must(t, p.router.Latest(t.Context(), &found, 1000), "Latest")
			same(t, "rows", len(found), len(orders))
			must(t, p.router.Check(t.Context()), "Check")
		}
		_, err := resharding.Split(t.Context(), p.router, shardOne, 2)
		must(t, err, "Split")
		finds(p)
		must(t, resharding.Clean(t.Context(), p.router), "Clean")
		same(t, "foreign keys", keys(), "split_items_01_g1 -> split_orders_01_g1, split_items_05_g1 -> split_orders_05_g1")
		finds(openRouter(t, named()))
		_, err = resharding.Join(t.Context(), p.router, shardOne, 0)
		must(t, err, "Join")
		must(t, resharding.Clean(t.Context(), p.router), "Clean")
		same(t, "foreign keys", keys(), "split_items_01_g2 -> split_orders_01_g2")
		finds(openRouter(t, named()))
	})
}

func TestRowsAreCopiedNoFasterThanTheSettingsAllow(t *testing.T) {
	t.Parallel()
	p := startRouter(t, dbtest.Named("sqlite").Open(t, nil))
	orders := p.create(80)
	const perSecond = 100
	var began time.Time
	copied := map[string]int64{} // by table
	slow := resharding.Settings{Chunk: 5, RowsPerSecond: perSecond, Progress: func(r resharding.Progress) {
		if r.Step != "copy" {
			return
		}
		if began.IsZero() {
			began = time.Now()
		}
		// The first chunk came before the first report.
		total := int64(0)
		copied[r.Table] = r.Rows
		for _, rows := range copied {
			total += rows
		}
		if allowed := perSecond*time.Since(began).Seconds() + float64(5*(1+len(copied))); float64(total) > allowed {
			t.Errorf("%d rows are copied after %v, and %d a second are allowed", total, time.Since(began), perSecond)
		}
	}}
	_, err := slow.Split(t.Context(), p.router, shardOne, 2)
	must(t, err, "Split")
	p.finds(orders, "after the split")

	ctx, cancel := context.WithCancel(t.Context())
	slow.RowsPerSecond, slow.Progress = 1, func(resharding.Progress) { cancel() }
	_, err = slow.Split(ctx, p.router, resharding.Class{Residue: 2, Modulus: splitFrom}, 2)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a split that waits for its rows: %v", err)
	}
	must(t, resharding.Resume(t.Context(), p.router), "Resume")
	p.finds(orders, "after Resume")
}
