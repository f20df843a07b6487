//go:build unix

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

type crashOrder struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Version int
	Items   []crashItem `gorm:"foreignKey:OrderID"`
}

type crashItem struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
	OrderID snowflakeplugin.ID
}

// A server that crashes ends a resharding at any of its steps, and the statements of all programs with it. What
// MySQL and MariaDB do to tables is in no transaction with what is written about it.
func TestAReshardingWhoseServerCrashesLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "a server is crashed and started again for a minute; the package reshard breaks off each step every day")
	eachPrivateServer(t, func(t *testing.T, f flavor) {
		const shards, length = 4, time.Minute
		s := newServer(t, f)
		dsns, programs := []string{s.database("one"), s.database("two")}, int64(0)
		open := func() *snowflakeplugin.Router {
			var dbs []*gorm.DB
			programs++
			plugin := snowflakeplugin.New(snowflakeplugin.WithNode(programs))
			for _, dsn := range dsns {
				db := f.target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(12))
				if err := db.Use(plugin); err != nil {
					t.Fatal(err)
				}
				dbs = append(dbs, db)
			}
			r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
				Shards: shards, Databases: dbs, Place: func(shard int) int { return shard % 2 },
			}, &crashOrder{}, &crashItem{})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		mover, users := open(), []*snowflakeplugin.Router{open(), open()}
		if err := mover.AutoMigrate(t.Context()); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		writers := make([]*crashWriter, 6)
		for i := range writers {
			writers[i] = &crashWriter{t: t, router: users[i%len(users)], orders: map[snowflakeplugin.ID]map[int]bool{}}
			all.Go(func() { writers[i].run(ctx) })
		}
		var changes, broken int
		all.Go(func() {
			for ctx.Err() == nil {
				switch err := change(ctx, mover, shards); {
				case err == nil:
					changes++
				case errors.Is(err, snowflakeplugin.ErrSharding): // The shard is not what the change is for.
				default:
					if strings.Contains(err.Error(), ": reshard ") { // A job had begun.
						broken++
					}
					time.Sleep(20 * time.Millisecond) // The server is away.
				}
			}
		})
		crashes := 0
		for began := time.Now(); time.Since(began) < length && !t.Failed(); crashes++ {
			time.Sleep(time.Duration(500+rand.IntN(6000)) * time.Millisecond)
			s.Kill()
			s.start()
		}
		cancel()
		all.Wait()

		last := open()
		if err := errors.Join(resharding.Resume(t.Context(), last), resharding.Clean(t.Context(), last),
			last.Check(t.Context())); err != nil {
			t.Fatal(err)
		}
		found, items := map[snowflakeplugin.ID][]int{}, map[snowflakeplugin.ID]int{}
		var mu sync.Mutex
		err := last.Each(t.Context(), &crashOrder{}, func(shard int, tx *gorm.DB) error {
			var rows []crashOrder
			err := tx.Find(&rows).Error
			mu.Lock()
			defer mu.Unlock()
			for _, row := range rows {
				found[row.ID] = append(found[row.ID], row.Version)
				if its, err := last.Shard(row.ID); err != nil || its != shard {
					t.Errorf("the order %d is on shard %d, want %d: %v", row.ID, shard, its, err)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = last.Each(t.Context(), &crashItem{}, func(_ int, tx *gorm.DB) error {
			var rows []crashItem
			err := tx.Find(&rows).Error
			mu.Lock()
			defer mu.Unlock()
			for _, row := range rows {
				items[row.OrderID]++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		acknowledged := 0
		for _, w := range writers {
			acknowledged += w.acknowledged
			for id, may := range w.orders {
				version := absent
				if len(found[id]) > 0 {
					version = found[id][0]
				}
				if len(found[id]) > 1 || !may[version] {
					t.Errorf("the order %d is there with the versions %v, want one of %v", id, found[id], may)
				}
				if want := 2 * len(found[id]); items[id] != want {
					t.Errorf("the order %d has %d items, want %d", id, items[id], want)
				}
				delete(found, id)
			}
		}
		for id := range found {
			t.Errorf("nobody has written the order %d", id)
		}
		t.Logf("%d crashes, %d changes of shards, %d broken off, %d acknowledged writes", crashes, changes,
			broken, acknowledged)
		if broken == 0 {
			t.Error("the crashes met no resharding")
		}
	})
}

// A backup of MySQL lets LOCK TABLES through, but no trigger be made. Programs must not wait behind that.
func TestABackupThatHoldsAReshardingUpHoldsNoWriter(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "a MySQL server of its own is started for one backup")
	s := newServer(t, privateServer("mysql"))
	db := s.target.OpenDSN(t, s.database("one"), nil, dbtest.MaxOpenConns(12))
	check(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))))
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards: 2, Databases: []*gorm.DB{db}, Place: func(int) int { return 0 },
	}, &crashOrder{}, &crashItem{})
	check(t, err)
	check(t, r.AutoMigrate(t.Context()))

	const first, second = "INSERT INTO crash_orders_01 VALUES (1, 1)", "INSERT INTO crash_orders_01 VALUES (%d, 1)"
	inTheWay := db.Begin()
	check(t, inTheWay.Exec(first).Error)
	done := make(chan error, 1)
	go func() {
		settings := resharding.Settings{Budget: time.Minute}
		_, err := settings.Split(t.Context(), r, resharding.Class{Residue: 1, Modulus: 2}, 2)
		done <- err
	}()
	eventually(t, "the resharding does not wait for the transaction", func() bool {
		var waiting int
		check(t, s.row("SELECT count(*) FROM information_schema.PROCESSLIST WHERE STATE = 'Waiting for table metadata lock'", &waiting))
		return waiting > 0
	}, s)
	check(t, db.Connection(func(backup *gorm.DB) error {
		check(t, backup.Exec("LOCK INSTANCE FOR BACKUP").Error)
		check(t, inTheWay.Commit().Error)
		for began, n := time.Now(), 1; time.Since(began) < 3*time.Second; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if err := db.WithContext(ctx).Exec(fmt.Sprintf(second, 1+2*n)).Error; err != nil {
				t.Errorf("a write during the backup: %v", err)
			}
			cancel()
		}
		return backup.Exec("UNLOCK INSTANCE").Error
	}))
	check(t, <-done)
}

// change ends what a crash has left, and then changes one shard.
func change(ctx context.Context, r *snowflakeplugin.Router, shards int) error {
	settings := resharding.Settings{Chunk: 200, Budget: 5 * time.Second}
	if err := settings.Resume(ctx, r); err != nil {
		return err
	}
	if err := resharding.Clean(ctx, r); err != nil {
		return err
	}
	of, err := resharding.Class{Residue: rand.IntN(shards), Modulus: shards}, error(nil)
	switch rand.IntN(3) {
	case 0:
		_, err = settings.Split(ctx, r, of, 2, rand.IntN(2), rand.IntN(2))
	case 1:
		_, err = settings.Join(ctx, r, of, rand.IntN(2))
	default:
		_, err = settings.Move(ctx, r, of, rand.IntN(2))
	}
	return err
}

// absent is the version of an order that is not there.
const absent = -1

// crashWriter knows for each of its orders which versions it may have. After an error it may have been written or not.
type crashWriter struct {
	t            *testing.T
	router       *snowflakeplugin.Router
	orders       map[snowflakeplugin.ID]map[int]bool
	acknowledged int
}

func (w *crashWriter) run(ctx context.Context) {
	for version := 1; ctx.Err() == nil; version++ {
		o := crashOrder{Version: version, Items: make([]crashItem, 2)}
		err := w.router.Create(ctx, &o)
		if o.ID == 0 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if w.orders[o.ID] = map[int]bool{version: true}; err != nil {
			w.orders[o.ID][absent] = true
		} else {
			w.acknowledged++
		}
		n := 0
		for id, may := range w.orders { // in no order
			if n++; n > 3 {
				break
			}
			version++ // MySQL does not count rows that stay as they are.
			w.write(ctx, id, may, version, rand.IntN(8) == 0)
		}
	}
}

// write changes an order, or deletes it with its items.
func (w *crashWriter) write(ctx context.Context, id snowflakeplugin.ID, may map[int]bool, version int, remove bool) {
	var rows int64
	err := w.router.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
		db, err := tx.DB(&crashOrder{}, id)
		if err != nil {
			return err
		}
		if !remove {
			done := db.Where("id = ?", id).Update("version", version)
			rows = done.RowsAffected
			return done.Error
		}
		items, err := tx.DB(&crashItem{}, id)
		if err != nil {
			return err
		}
		if err := items.Where("order_id = ?", id).Delete(&crashItem{}).Error; err != nil {
			return err
		}
		done := db.Where("id = ?", id).Delete(&crashOrder{})
		rows = done.RowsAffected
		return done.Error
	})
	if remove {
		version = absent
	}
	switch {
	case err != nil:
		may[version] = true
		time.Sleep(10 * time.Millisecond)
		return
	case rows == 0 && !may[absent]:
		w.t.Errorf("a write has not found the order %d, which has one of the versions %v", id, may)
	case rows == 0:
		version = absent
	}
	clear(may)
	may[version] = true
	w.acknowledged++
}
