package resharding_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// doubledOrder and doubledItem have columns of every kind that a copy could get wrong.
type doubledOrder struct {
	ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name      string             `gorm:"index:idx_doubled_name"`
	Note      *string
	Paid      bool
	Total     float64
	Raw       []byte
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt gorm.DeletedAt
	Items     []doubledItem `gorm:"foreignKey:OrderID"`
}

type doubledItem struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
	OrderID snowflakeplugin.ID
	Amount  int64
}

const doubledFrom = 2

// doubled holds a router and its rows.
type doubled struct {
	*testing.T
	dbs    []*gorm.DB
	router *snowflakeplugin.Router
	made   []doubledOrder
	live   []snowflakeplugin.ID // the rows that are not deleted
}

func newDoubled(t *testing.T, orders int, dbs ...*gorm.DB) *doubled {
	t.Helper()
	d := &doubled{T: t, dbs: dbs}
	leased(t, dbs[0])
	for _, db := range dbs[1:] {
		must(t, db.Use(dbs[0].Plugins["snowflake"]), "Use")
	}
	d.router = d.open(doubledFrom)
	must(t, d.router.AutoMigrate(t.Context()), "AutoMigrate")
	shortLease(t, dbs[0])
	d.add(d.router, orders)
	return d
}

func (d *doubled) open(shards int) *snowflakeplugin.Router {
	d.Helper()
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: shards, Databases: d.dbs[:1]},
		&doubledOrder{}, &doubledItem{})
	must(d.T, err, "NewRouter")
	return r
}

// add creates orders with two items each.
func (d *doubled) add(r *snowflakeplugin.Router, n int) {
	d.Helper()
	orders := make([]doubledOrder, n)
	note := "nöte"
	for i := range orders {
		orders[i] = doubledOrder{
			Name: fmt.Sprintf("order %d", i), Paid: i%3 == 0, Total: float64(i) / 4, Raw: []byte{0, byte(i), 255},
			Items: []doubledItem{{Amount: int64(i)}, {Amount: -1}},
		}
		if i%2 == 0 {
			orders[i].Note = &note
		}
	}
	d.store(r, orders)
}

// store creates orders and keeps the IDs that they already have.
func (d *doubled) store(r *snowflakeplugin.Router, orders []doubledOrder) {
	d.Helper()
	must(d.T, r.Create(d.Context(), orders), "Create")
	d.made = append(d.made, orders...)
	// Some orders are deleted softly and must be moved, too.
	deleted := min(3, len(orders))
	for _, order := range orders[deleted:] {
		d.live = append(d.live, order.ID)
	}
	for _, order := range orders[:deleted] {
		db, err := r.DB(d.Context(), &doubledOrder{}, order.ID)
		must(d.T, err, "DB")
		must(d.T, db.Delete(&doubledOrder{}, order.ID).Error, "Delete")
	}
}

// dump lists all rows of a router by table.
func (d *doubled) dump() string {
	d.Helper()
	const shards = 2 * doubledFrom
	var b strings.Builder
	for shard := range shards {
		for i, db := range d.dbs {
			table := fmt.Sprintf("doubled_orders_%02d", shard)
			if !db.Migrator().HasTable(table) {
				continue
			}
			var orders []doubledOrder
			must(d.T, db.Table(table).Unscoped().Order("id").Find(&orders).Error, table)
			var items []doubledItem
			must(d.T, db.Table(fmt.Sprintf("doubled_items_%02d", shard)).Order("id").Find(&items).Error, "items")
			for _, o := range orders {
				note := "-"
				if o.Note != nil {
					note = *o.Note
				}
				fmt.Fprintln(&b, shard, i, o.ID, o.Name, note, o.Paid, o.Total, fmt.Sprintf("%x", o.Raw),
					o.CreatedAt.UnixMilli(), o.UpdatedAt.UnixMilli(), o.DeletedAt.Valid)
			}
			fmt.Fprintln(&b, shard, i, items)
		}
	}
	return b.String()
}

// check fails unless the router finds all rows in every way of reading.
func (d *doubled) check(r *snowflakeplugin.Router, when string) {
	d.Helper()
	live := d.live
	var found []doubledOrder
	if err := r.Find(d.Context(), &found, live); err != nil {
		d.Fatalf("%s: %v", when, err)
	}
	orders, err := r.Count(d.Context(), &doubledOrder{})
	must(d.T, err, when)
	items, err := r.Count(d.Context(), &doubledItem{})
	must(d.T, err, when)
	if orders != int64(len(live)) || items != 2*int64(len(d.made)) {
		d.Fatalf("%s: %d orders and %d items, want %d and %d", when, orders, items, len(live), 2*len(d.made))
	}
	var newest []doubledOrder
	must(d.T, r.Latest(d.Context(), &newest, 10), when)
	for i, order := range newest {
		if want := live[len(live)-1-i]; order.ID != want {
			d.Fatalf("%s: number %d of the newest is %d, want %d", when, i, order.ID, want)
		}
	}
	db, err := r.DB(d.Context(), &doubledOrder{}, live[0])
	must(d.T, err, when)
	var order doubledOrder
	must(d.T, db.Preload("Items").First(&order, live[0]).Error, when)
	if len(order.Items) != 2 {
		d.Fatalf("%s: an order has %d items", when, len(order.Items))
	}
}

func (d *doubled) reshard(cfg snowflakeplugin.ReshardConfig) *snowflakeplugin.Resharding {
	d.Helper()
	resharding, err := d.router.Reshard(d.Context(), cfg)
	must(d.T, err, "Reshard")
	return resharding
}

func TestReshardingMovesEveryRowAndReadsStayRight(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, 120, target.Open(t, nil))
		now := d.router
		told := func(p snowflakeplugin.ReshardProgress) {
			if now != nil {
				d.check(now, "after a chunk of "+p.Step)
			}
		}
		resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: 17, Progress: told})
		plan, err := resharding.Plan(t.Context())
		must(t, err, "Plan")
		moving := int64(0)
		for _, move := range plan {
			moving += move.Rows
		}
		if len(plan) != 2*doubledFrom || moving < 120 || moving > 240 {
			t.Errorf("%d rows in %d tables are to be moved: %+v", moving, len(plan), plan)
		}
		must(t, resharding.Copy(t.Context()), "Copy")
		must(t, resharding.Verify(t.Context()), "Verify")
		before, err := d.router.DB(t.Context(), &doubledOrder{}, d.live[0])
		must(t, err, "DB")
		now = nil // The shard map is closed while copies are verified.
		r, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		now = r
		if r.Shards() != 2*doubledFrom {
			t.Errorf("%d shards", r.Shards())
		}
		d.check(r, "before it is cleaned")
		d.add(r, 40)
		must(t, resharding.Clean(t.Context()), "Clean")
		d.onShards()
		must(t, resharding.Clean(t.Context()), "Clean again")

		// The router of before follows. A handle and a program with the old number are refused.
		d.check(d.router, "the router of before")
		wantErr(t, before.First(&doubledOrder{}).Error, snowflakeplugin.ErrShardMap, "a handle of before")
		_, err = snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: doubledFrom, Databases: d.dbs},
			&doubledOrder{}, &doubledItem{})
		wantErr(t, err, snowflakeplugin.ErrSharding, "the old number")
	})
}

// A resharding is interrupted after every single chunk and continued as by another process. The
// result equals that of one run.
func TestAnInterruptedReshardingContinues(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, nightly.Pick(30, 60), target.Open(t, nil))
		twin := newDoubled(t, 0, target.Open(t, nil))
		twin.store(twin.router, d.made)
		calls, chunk := 0, nightly.Pick(15, 7)
		for done := false; !done; calls++ {
			ctx, cancel := context.WithCancel(t.Context())
			told := func(snowflakeplugin.ReshardProgress) { cancel() }
			resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: chunk, Progress: told})
			err := resharding.Copy(ctx)
			cancel()
			if done = err == nil; !done && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if calls > 1000 {
				t.Fatal("it does not end")
			}
		}
		if calls < 4 {
			t.Errorf("it was broken off %d times", calls-1)
		}
		once := twin.reshard(snowflakeplugin.ReshardConfig{Chunk: chunk})
		must(t, once.Copy(t.Context()), "Copy")
		same := func(when string) {
			t.Helper()
			if broken, whole := d.dump(), twin.dump(); broken != whole {
				t.Errorf("%s, broken off:\n%s\nin one run:\n%s", when, broken, whole)
			}
		}
		same("after Copy")
		resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: chunk})
		for _, each := range []*snowflakeplugin.Resharding{resharding, once} {
			_, err := each.Cutover(t.Context())
			must(t, err, "Cutover")
			must(t, each.Clean(t.Context()), "Clean")
		}
		same("after Clean")
		d.onShards()
	})
}

func TestRowsWrittenDuringTheCopyAreNotLost(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, 100, target.Open(t, nil))
		resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: 9})
		must(t, resharding.Copy(t.Context()), "Copy")
		for i, id := range d.live {
			db, err := d.router.DB(t.Context(), &doubledOrder{}, id)
			must(t, err, "DB")
			switch i % 3 {
			case 0:
				must(t, db.Where("id = ?", id).Update("name", "changed").Error, "Update")
			case 1:
				must(t, db.Unscoped().Delete(&doubledOrder{}, id).Error, "Delete")
			}
		}
		fresh := make([]doubledOrder, 20)
		must(t, d.router.Create(t.Context(), fresh), "Create")

		err := resharding.Verify(t.Context())
		var different *snowflakeplugin.DifferenceError
		if !errors.As(err, &different) || different.Rows == 0 {
			t.Fatalf("Verify says %v", err)
		}
		r, err := resharding.Cutover(t.Context())
		must(t, err, "Cutover")
		changed, err := r.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("name = ?", "changed") }).
			Count(t.Context(), &doubledOrder{})
		must(t, err, "Count")
		all, err := r.Count(t.Context(), &doubledOrder{})
		must(t, err, "Count")
		if changed != 33 || all != 97-32+20 {
			t.Errorf("%d are changed and %d there, want 33 and 85", changed, all)
		}
	})
}

func TestAReshardingToAnotherDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		first, second := target.Open(t, nil), target.Open(t, nil)
		d := newDoubled(t, 120, first, second)
		resharding := d.reshard(snowflakeplugin.ReshardConfig{
			Databases: d.dbs, Place: func(int) int { return 1 }, Chunk: 25,
		})
		r, err := resharding.Cutover(t.Context()) // which copies, too
		must(t, err, "Cutover")
		d.check(r, "on two databases")
		must(t, resharding.Clean(t.Context()), "Clean")
		d.onShards()
		d.check(r, "after Clean")
		if second.Migrator().HasTable("doubled_orders_00") || !second.Migrator().HasTable("doubled_orders_03") {
			t.Error("the new shards are not in the second database")
		}
	})
}

// Databases of another kind keep times less exactly, so a change within a second would go unnoticed.
func TestAReshardingAcrossKindsOfDatabasesIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		other := named("sqlite")
		if target.Name == other.Name {
			other = named("postgres")
		}
		d := newDoubled(t, 4, target.Open(t, nil), other.Open(t, nil))
		_, err := d.router.Reshard(t.Context(), snowflakeplugin.ReshardConfig{
			Databases: d.dbs, Place: func(int) int { return 1 },
		})
		wantErr(t, err, snowflakeplugin.ErrSharding, "resharding to another kind of database")
		says(t, err, "of one kind")
		if d.dbs[0].Migrator().HasTable("doubled_orders_03") || d.dbs[1].Migrator().HasTable("doubled_orders_03") {
			t.Error("a table was made before it was refused")
		}
	})
}

func TestAProcessThatStartsAfterTheSwitchCanClean(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		d := newDoubled(t, 80, target.OpenDSN(t, dsn, nil))
		if c, err := d.router.PendingCleanup(); c != nil || err != nil {
			t.Errorf("a router that was never doubled has the pending %v, %v", c, err)
		}
		_, err := d.reshard(snowflakeplugin.ReshardConfig{}).Cutover(t.Context())
		must(t, err, "Cutover")

		d.dbs = []*gorm.DB{target.OpenDSN(t, dsn, nil)}
		leased(t, d.dbs[0])
		r := d.open(2 * doubledFrom)
		d.check(r, "after a restart")
		_, err = r.Reshard(t.Context(), snowflakeplugin.ReshardConfig{})
		wantErr(t, err, snowflakeplugin.ErrSharding, "resharding what is not cleaned")
		pending, err := r.PendingCleanup()
		must(t, err, "Cleaner")

		// A process that missed the whole resharding writes to an old table.
		late := doubledOrder{ID: d.live[len(d.live)-1] + 1<<30, Name: "late"}
		table := fmt.Sprintf("doubled_orders_%02d", int64(late.ID)%doubledFrom)
		must(t, d.dbs[0].Table(table).Create(&late).Error, "a late row")
		if int64(late.ID)%(2*doubledFrom) >= doubledFrom {
			if err := pending.Clean(t.Context()); err == nil || !strings.Contains(err.Error(), "after the cutover") {
				t.Errorf("Clean with a late row: %v", err)
			}
		}
		must(t, d.dbs[0].Table(table).Unscoped().Delete(&late).Error, "the late row")
		must(t, pending.Clean(t.Context()), "Clean")
		d.onShards()
		d.dbs = []*gorm.DB{target.OpenDSN(t, dsn, nil)}
		leased(t, d.dbs[0])
		if c, err := d.open(2 * doubledFrom).PendingCleanup(); c != nil || err != nil {
			t.Errorf("after Clean there is the pending %v, %v", c, err)
		}
	})
}

// Reads continue during a cutover. No answer is ever incomplete, and no statement runs without a
// route.
func TestReadersDuringASwitchHaveAllOrAnError(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		d := newDoubled(t, 60, target.Open(t, nil))
		var current atomic.Pointer[snowflakeplugin.Router]
		var reading sync.RWMutex
		current.Store(d.router)
		resharding := d.reshard(snowflakeplugin.ReshardConfig{Chunk: 50})
		must(t, resharding.Copy(t.Context()), "Copy")
		var readers sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					reading.RLock()
					r := current.Load()
					n, err := r.Count(t.Context(), &doubledOrder{})
					reading.RUnlock()
					if err != nil || n != int64(len(d.live)) {
						t.Errorf("%d orders of %d, %v", n, len(d.live), err)
					}
					err = d.dbs[0].First(&doubledOrder{}).Error
					if !errors.Is(err, snowflakeplugin.ErrNotRouted) {
						t.Errorf("a statement that nobody routed: %v", err)
					}
				}
			})
		}
		r, err := resharding.Cutover(t.Context())
		if err == nil {
			reading.Lock() // until what the router of before has begun is over
			current.Store(r)
			reading.Unlock()
			err = resharding.Clean(t.Context())
		}
		close(stop)
		readers.Wait()
		must(t, err, "Switch and Clean")
		d.check(r, "afterwards")
	})
}
