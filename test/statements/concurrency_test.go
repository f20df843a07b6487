package statements_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// concurrencyBehaviors are most useful with the race detector.
func concurrencyBehaviors() []behavior {
	return []behavior{
		{Name: "the first use of fresh handles by many goroutines is safe", Run: concurrentFirstUse},
		{Name: "the first look at a schema by many goroutines is safe", Run: concurrentFirstLook},
		{Name: "concurrent upserts of the same keys end with the stored IDs", Run: concurrentUpserts},
		{Name: "concurrent creates of trees that share rows end with the stored IDs",
			Run: concurrentTrees},
	}
}

// The size of the storms.
const (
	stormWorkers = 8
	stormKeys    = 50
	stormHandles = 5
)

// eachWorker runs fn on many goroutines at once and waits for them.
func eachWorker(fn func(worker int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for worker := range stormWorkers {
		wg.Go(func() {
			<-start
			fn(worker)
		})
	}
	close(start)
	wg.Wait()
}

// concurrentFirstUse lets goroutines meet handles, schemas and plans that nobody used before.
// Integer keys are left unprepared, so that their schemas are changed on the way.
func concurrentFirstUse(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	setup := target.OpenDSN(t, dsn, nil)
	models := []any{&firm{}, &skill{}, &clerk{}, &desk{}, &task{}, &step{}, &memberByInt{}, &memberByID{}}
	if err := setup.AutoMigrate(models...); err != nil {
		t.Fatal(err)
	}
	zero := func() snowflakeplugin.ID { return 0 }
	for handle := range stormHandles {
		db := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(stormWorkers))
		// Two generators that run at once must not share a number.
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(int64(handle)))
		if err := db.Use(plugin); err != nil {
			t.Fatal(err)
		}
		members := make([]memberByInt, stormWorkers)
		trees := make([]clerk, stormWorkers)
		eachWorker(func(worker int) {
			name := fmt.Sprint(handle, "-", worker)
			members[worker] = memberByInt{Email: name}
			trees[worker] = tree(name, zero)
			persist(t, func() error {
				return db.Clauses(doNothing()).Create(&members[worker]).Error
			})
			persist(t, func() error { return db.Create(&trees[worker]).Error })
			persist(t, func() error { return plugin.Prepare(db, models...) })
			persist(t, func() error {
				return db.Model(&memberByID{}).Create([]map[string]any{{"email": name}}).Error
			})
		})
		for worker, m := range members {
			wantStored(t, setup, m.ID, "SELECT id FROM member_by_ints WHERE email = ?", m.Email)
			c := trees[worker]
			wantStored(t, setup, c.Firm.ID, "SELECT firm_id FROM clerks WHERE id = ?", c.ID)
			for _, task := range c.Tasks {
				wantStored(t, setup, c.ID, "SELECT clerk_id FROM tasks WHERE id = ?", task.ID)
			}
		}
	}
	const all = stormHandles * stormWorkers
	wantInt(t, "the number of steps", plainOne[int64](t, setup, "SELECT count(*) FROM steps"), 3*all)
	wantInt(t, "the number of rows from maps", plainOne[int64](t, setup,
		"SELECT count(*) FROM member_by_ids WHERE id > 0"), all)
}

// concurrentFirstLook does the same without a database, so the goroutines stay close together. They
// only build statements on a model whose schema the first goroutine changes.
func concurrentFirstLook(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	for range nightly.Pick(2, 20) * stormHandles {
		db, err := gorm.Open(target.Dialector(dsn), &gorm.Config{
			DryRun: true, SkipDefaultTransaction: true, Logger: logger.Discard,
		})
		must(t, err, "Open")
		must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
		must(t, db.Statement.Parse(&memberByInt{}), "Parse")
		keys := make([]int64, stormWorkers)
		eachWorker(func(worker int) {
			m := memberByInt{Email: "alice"}
			if err := db.Clauses(onEmail()).Create(&m).Error; err != nil {
				t.Error(err)
			}
			keys[worker] = m.ID
		})
		pool, err := db.DB()
		must(t, err, "the pool")
		must(t, pool.Close(), "Close")
		slices.Sort(keys)
		if keys[0] == 0 || len(slices.Compact(keys)) != stormWorkers {
			t.Fatalf("the IDs are %d, want different ones", keys)
		}
	}
}

// persist retries a statement that the database aborted to end a deadlock, as applications must do.
// It may be called on any goroutine.
func persist(t *testing.T, do func() error) {
	t.Helper()
	const tries = 1000
	for range tries {
		err := do()
		var maria *mysql.MySQLError
		var postgres interface{ SQLState() string }
		if errors.As(err, &maria) && (maria.Number == 1213 || maria.Number == 1020 || isConflict(maria)) ||
			errors.As(err, &postgres) && postgres.SQLState() == "40P01" {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	t.Errorf("%d deadlocks in a row", tries)
}

// isConflict recognizes what TiDB says instead of a deadlock, when others have changed a row again and again
// before the statement could lock it. The number is that of unknown errors.
func isConflict(err *mysql.MySQLError) bool {
	return err.Number == 1105 && strings.Contains(err.Message, "pessimistic lock retry limit reached")
}

func concurrentUpserts(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByID{})
	for _, c := range []struct {
		name   string
		clause clause.OnConflict
	}{
		{"DoNothing", doNothing()},
		{"DoUpdates", onEmail()},
		{"UpdateAll", clause.OnConflict{Columns: onColumn("email"), UpdateAll: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plainExec(t, db, "DELETE FROM member_by_ids")
			var mu sync.Mutex
			var done []memberByID // guarded by mu
			eachWorker(func(worker int) {
				for _, key := range rand.Perm(stormKeys) {
					pair := []memberByID{
						{Email: fmt.Sprint(key)}, {Email: fmt.Sprint((key + 1) % stormKeys)},
					}
					if worker%2 == 0 {
						pair = pair[:1]
					}
					persist(t, func() error {
						err := db.Clauses(c.clause).Create(&pair).Error
						for _, m := range pair {
							if err != nil && m.ID != 0 {
								t.Errorf("%d is left after %v", m.ID, err)
							}
						}
						return err
					})
					mu.Lock()
					done = append(done, pair...)
					mu.Unlock()
				}
			})
			checkStorm(t, db, "SELECT id FROM member_by_ids WHERE email = ?", done)
			wantInt(t, "the number of rows",
				plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), stormKeys)
		})
	}
}

// checkStorm compares every struct of a storm with the final row of its key.
func checkStorm(t *testing.T, db *gorm.DB, query string, done []memberByID) {
	t.Helper()
	rows := map[string]int64{}
	for _, m := range done {
		if _, known := rows[m.Email]; !known {
			rows[m.Email] = plainOne[int64](t, db, query, m.Email)
		}
		wantInt(t, "the ID of "+m.Email, m.ID, rows[m.Email])
	}
}

// concurrentTrees creates many books that share a few languages and publishers.
func concurrentTrees(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &language{}, &publisher{}, &book{})
	codes := []string{"de", "en", "fr", "zh"}
	books := make([][]book, stormWorkers)
	eachWorker(func(worker int) {
		for i := range stormKeys / 5 {
			b := book{Title: fmt.Sprint(worker, "-", i), Publisher: &publisher{Name: codes[i%len(codes)]}}
			for _, n := range rand.Perm(len(codes))[:2] {
				b.Languages = append(b.Languages, language{Code: codes[n]})
			}
			persist(t, func() error { return db.Create(&b).Error })
			books[worker] = append(books[worker], b)
		}
	})
	for _, written := range books {
		for _, b := range written {
			checkLanguages(t, db, b)
			wantStored(t, db, b.Publisher.ID, "SELECT p.id FROM publishers p JOIN books b "+
				"ON b.publisher_id = p.id WHERE b.id = ? AND p.name = ?", b.ID, b.Publisher.Name)
		}
	}
	wantInt(t, "the number of publishers",
		plainOne[int64](t, db, "SELECT count(*) FROM publishers"), len(codes))
}
