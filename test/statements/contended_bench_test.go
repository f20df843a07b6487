package statements_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// BenchmarkContendedUpserts lets eight connections upsert pairs of rows that meet the same 50 keys, under
// the two usual isolations, by SQL of our own and by the plugin. InnoDB ends deadlocks with an error that
// the application repeats.
//
//	deadlocks/1000  of 1,000 statements
//	statements/s    those that were committed
func BenchmarkContendedUpserts(b *testing.B) {
	for _, name := range []string{"mysql", "mariadb"} {
		for level, says := range map[sql.IsolationLevel]string{
			sql.LevelRepeatableRead: "repeatable-read", sql.LevelReadCommitted: "read-committed",
		} {
			for _, way := range []string{"sql", "plugin"} {
				b.Run(name+"/"+says+"/"+way, func(b *testing.B) {
					benchmarkContended(b, dbtest.Named(name), level, way == "plugin")
				})
			}
		}
	}
}

func benchmarkContended(b *testing.B, target dbtest.Target, level sql.IsolationLevel, plugin bool) {
	b.Helper()
	db := target.Open(b, nil, dbtest.MaxOpenConns(stormWorkers))
	generator := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	if err := errors.Join(db.Use(generator), db.AutoMigrate(&memberByID{})); err != nil {
		b.Fatal(err)
	}
	isolation := &sql.TxOptions{Isolation: level}
	upsert := func(pair []memberByID) error {
		return db.Transaction(func(tx *gorm.DB) error {
			return tx.Clauses(onEmail()).Create(&pair).Error
		}, isolation)
	}
	if !plugin {
		upsert = func(pair []memberByID) error {
			return upsertByHand(b.Context(), db, generator, isolation, pair)
		}
	}
	var deadlocks, committed atomic.Int64
	for b.Loop() {
		if err := db.Exec("DELETE FROM member_by_ids").Error; err != nil {
			b.Fatal(err)
		}
		var all sync.WaitGroup
		for range stormWorkers {
			all.Go(func() {
				for _, key := range rand.Perm(stormKeys) {
					for {
						err := upsert([]memberByID{{Email: fmt.Sprint(key)}, {Email: fmt.Sprint((key + 1) % stormKeys)}})
						var refused *mysql.MySQLError
						if !errors.As(err, &refused) || refused.Number != 1213 {
							committed.Add(1)
							if err != nil {
								b.Error(err)
							}
							break
						}
						deadlocks.Add(1)
					}
				}
			})
		}
		all.Wait()
	}
	tried := deadlocks.Load() + committed.Load()
	b.ReportMetric(1000*float64(deadlocks.Load())/float64(tried), "deadlocks/1000")
	b.ReportMetric(float64(committed.Load())/b.Elapsed().Seconds(), "statements/s")
	b.ReportMetric(0, "ns/op")
}

// upsertByHand is what a program without GORM does.
func upsertByHand(
	ctx context.Context, db *gorm.DB, generator *snowflakeplugin.Plugin, isolation *sql.TxOptions,
	pair []memberByID,
) (err error) {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	tx, err := pool.BeginTx(ctx, isolation)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	ids := make([]snowflakeplugin.ID, len(pair))
	if err := generator.NextIDs(ctx, ids); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO member_by_ids (id, email, name) VALUES (?, ?, ?), (?, ?, ?) "+
		"ON DUPLICATE KEY UPDATE name = VALUES(name)", ids[0], pair[0].Email, "", ids[1], pair[1].Email, "")
	if err != nil {
		return err
	}
	return tx.Commit()
}
