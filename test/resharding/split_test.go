package resharding_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type splitOrder struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string             `gorm:"index:idx_split_name;size:100"`
	Items []splitItem        `gorm:"foreignKey:OrderID"`
	Tags  []splitTag         `gorm:"many2many:split_order_tags"`
}

// splitTag is the same in every database.
type splitTag struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"size:20"`
}

type splitItem struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
	OrderID snowflakeplugin.ID
	Amount  int64
}

// splitFrom is the number of shards at the first start.
const splitFrom = 4

// program is a program with a router on the databases of a test.
type program struct {
	*testing.T
	router *snowflakeplugin.Router
}

func startRouter(t *testing.T, dbs ...*gorm.DB) *program {
	t.Helper()
	p := openRouter(t, dbs...)
	must(t, p.router.AutoMigrate(t.Context()), "AutoMigrate")
	return p
}

// openRouter is startRouter for a program that makes no tables.
func openRouter(t *testing.T, dbs ...*gorm.DB) *program {
	t.Helper()
	leased(t, dbs[0])
	for _, db := range dbs[1:] {
		must(t, db.Use(dbs[0].Plugins["snowflake"]), "Use")
	}
	return routerOn(t, dbs...)
}

// routerOn makes the router of a program whose databases have the plugin.
func routerOn(t *testing.T, dbs ...*gorm.DB) *program {
	t.Helper()
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards: splitFrom, Databases: dbs, Place: func(int) int { return 0 },
	}, &splitOrder{}, &splitItem{}, snowflakeplugin.Broadcast(&splitTag{}))
	must(t, err, "NewRouter")
	return &program{t, r}
}

// create stores orders with two items each.
func (p *program) create(n int) []splitOrder {
	p.Helper()
	orders := make([]splitOrder, n)
	for i := range orders {
		orders[i] = splitOrder{Name: fmt.Sprintf("order %d", i), Items: []splitItem{{Amount: 1}, {Amount: 2}}}
	}
	must(p.T, p.router.Create(p.Context(), orders), "Create")
	return orders
}

// handle returns a handle for a model on the shard of an ID.
func (p *program) handle(model any, id snowflakeplugin.ID) *gorm.DB {
	p.Helper()
	db, err := p.router.DB(p.Context(), model, id)
	must(p.T, err, "DB")
	return db
}

// splitAndJoin splits a shard and joins it again, while another program uses it.
func splitAndJoin(t *testing.T, mover, late *program, orders []splitOrder) {
	t.Helper()
	_, err := resharding.Split(t.Context(), mover.router, shardOne, 2)
	must(t, err, "Split")
	late.finds(orders, "after the split")
	must(t, resharding.Clean(t.Context(), mover.router), "Clean")
	_, err = resharding.Join(t.Context(), mover.router, shardOne, 0)
	must(t, err, "Join")
	must(t, resharding.Clean(t.Context(), mover.router), "Clean")
	late.finds(orders, "after the join")
}

// finds fails unless each way of reading has the orders, and no others.
func (p *program) finds(orders []splitOrder, when string) {
	p.Helper()
	var ids []snowflakeplugin.ID
	for _, o := range orders {
		ids = append(ids, o.ID)
	}
	var found []splitOrder
	must(p.T, p.router.Find(p.Context(), &found, ids), when+": Find")
	same(p.T, when+": rows of Find", len(found), len(orders))
	must(p.T, p.router.Latest(p.Context(), &found, 10*len(orders)), when+": Latest")
	slices.Reverse(found)
	for i := range found {
		same(p.T, when+": a row of Latest", found[i].ID, orders[i].ID)
	}
	same(p.T, when+": rows of Latest", len(found), len(orders))
	n, err := p.router.Count(p.Context(), &splitItem{})
	must(p.T, err, when+": Count")
	same(p.T, when+": items", n, int64(2*len(orders)))
	must(p.T, p.router.Check(p.Context()), when+": Check")
	for _, o := range orders[:8] {
		var one splitOrder
		must(p.T, p.handle(&splitOrder{}, o.ID).Preload("Items").First(&one, o.ID).Error, when+": First")
		same(p.T, when+": items of a row", len(one.Items), 2)
	}
}

// onOne returns the first order of the shard 1.
func (p *program) onOne(orders []splitOrder) splitOrder {
	p.Helper()
	for _, o := range orders {
		if at, err := p.router.Shard(o.ID); err == nil && at == 1 {
			return o
		}
	}
	p.Fatal("no order is on shard 1")
	return splitOrder{}
}

func TestAShardIsSplitAndJoinedWhileOtherProcessesUseIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		late := startRouter(t, target.OpenDSN(t, dsn, nil))
		orders := mover.create(200)
		one := late.onOne(orders)
		tag := splitTag{Name: "new"}
		must(t, mover.router.Create(t.Context(), &tag), "Create a tag")
		must(t, late.handle(&splitOrder{}, one.ID).Exec("INSERT INTO split_order_tags_01 (split_order_id, split_tag_id) "+
			"VALUES (?, ?)", one.ID, tag.ID).Error, "INSERT into the join table")
		tags := func(db *gorm.DB) int {
			var found splitOrder
			must(t, db.Preload("Tags").First(&found, one.ID).Error, "Preload of tags")
			return len(found.Tags)
		}
		same(t, "tags before", tags(late.handle(&splitOrder{}, one.ID)), 1)
		late.finds(orders, "before")
		before := late.handle(&splitOrder{}, one.ID)
		items := late.handle(&splitItem{}, one.ID)
		var ofAll *gorm.DB
		must(t, late.router.Each(t.Context(), &splitOrder{}, func(shard int, tx *gorm.DB) error {
			if shard == 1 {
				ofAll = tx
			}
			return nil
		}), "Each")

		_, err := resharding.Split(t.Context(), mover.router, resharding.Class{Residue: 1, Modulus: splitFrom}, 2)
		must(t, err, "Split")
		same(t, "shards", mover.router.Shards(), splitFrom+1)
		mover.finds(orders, "after the split")

		// The other process has not heard of it. What it begins is repeated.
		same(t, "tags of an old handle", tags(before), 1)
		must(t, before.Save(&splitOrder{ID: one.ID, Name: "saved", Items: []splitItem{{OrderID: one.ID, Amount: 3}}}).Error,
			"Save by an old handle")
		must(t, items.Where("order_id = ? AND amount = ?", one.ID, 3).Delete(&splitItem{}).Error, "Delete by an old handle")
		must(t, items.Create(&splitItem{OrderID: one.ID, Amount: 3}).Error, "Create by an old handle")
		must(t, before.Where("id = ?", one.ID).Update("name", "changed").Error, "Update by an old handle")
		var found splitOrder
		must(t, before.Preload("Items").First(&found, one.ID).Error, "First by an old handle")
		same(t, "the name", found.Name, "changed")
		same(t, "items", len(found.Items), 3)
		must(t, items.Where("order_id = ? AND amount = ?", one.ID, 3).Delete(&splitItem{}).Error, "Delete")
		late.finds(orders, "in the other process")
		same(t, "tags", tags(late.handle(&splitOrder{}, one.ID)), 1)
		if err := ofAll.Find(&[]splitOrder{}).Error; !errors.Is(err, snowflakeplugin.ErrShardMap) {
			t.Errorf("a handle for the whole of a shard that is split: %v", err)
		}

		must(t, resharding.Clean(t.Context(), mover.router), "Clean")
		_, err = resharding.Join(t.Context(), mover.router, resharding.Class{Residue: 1, Modulus: splitFrom}, 0)
		must(t, err, "Join")
		late.finds(orders, "after the join")
		must(t, resharding.Clean(t.Context(), mover.router), "Clean")
		late.finds(orders, "after cleaning")
		startRouter(t, target.OpenDSN(t, dsn, nil)).finds(orders, "in a new process")
	})
}

func TestAStatementIsNotRepeatedWithoutWhatACallbackWroteBeforeIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		db := target.OpenDSN(t, dsn, nil)
		must(t, db.Exec("CREATE TABLE split_log (text VARCHAR(20))").Error, "CREATE TABLE")
		late := startRouter(t, db)
		one := late.onOne(mover.create(100))
		must(t, db.Callback().Create().Before("gorm:create").Register("log", func(tx *gorm.DB) {
			if _, ok := tx.Statement.Dest.(*splitItem); ok {
				_ = tx.AddError(tx.Session(&gorm.Session{NewDB: true}).Exec("INSERT INTO split_log VALUES ('item')").Error)
			}
		}), "Register")
		items := late.handle(&splitItem{}, one.ID)
		_, err := resharding.Split(t.Context(), mover.router, shardOne, 2)
		must(t, err, "Split")
		item := splitItem{OrderID: one.ID, Amount: 3}
		for range 2 {
			var logged, stored int64
			if err = items.Create(&item).Error; err != nil {
				suite.WantErr(t, err, snowflakeplugin.ErrShardMap, "Create")
				items = late.handle(&splitItem{}, one.ID)
			}
			must(t, db.Table("split_log").Count(&logged).Error, "Count of the log")
			must(t, mover.handle(&splitItem{}, one.ID).Where("amount = ?", 3).Count(&stored).Error, "Count")
			same(t, "rows of the callback beside the row", logged, stored)
		}
		must(t, err, "the second Create")
	})
}

// writer is a goroutine of a program that writes to its own orders, and remembers what was acknowledged.
type writer struct {
	*program
	amounts map[snowflakeplugin.ID]int64 // of the item of each order
	refused int                          // transactions that the map has overtaken
}

// write does one thing of each kind.
func (w *writer) write(round int) error {
	ctx := w.Context()
	order := splitOrder{Name: "busy"}
	if err := w.router.Create(ctx, &order); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	items, err := w.router.DB(ctx, &splitItem{}, order.ID)
	if err != nil {
		return fmt.Errorf("DB: %w", err)
	}
	item := splitItem{OrderID: order.ID, Amount: int64(round)}
	if err := items.Create(&item).Error; err != nil {
		return fmt.Errorf("create by a handle: %w", err)
	}
	w.amounts[item.ID] = item.Amount
	for id, amount := range w.amounts {
		db, err := w.router.DB(ctx, &splitItem{}, id)
		if err != nil {
			return fmt.Errorf("DB: %w", err)
		}
		changed := db.Where("id = ?", id).Update("amount", amount+1)
		if changed.Error != nil || changed.RowsAffected != 1 {
			return fmt.Errorf("update of %d rows: %w", changed.RowsAffected, changed.Error)
		}
		w.amounts[id] = amount + 1
		var found splitItem
		if err := db.First(&found, id).Error; err != nil || found.Amount != amount+1 {
			return fmt.Errorf("%d was read, and %d was written: %w", found.Amount, amount+1, err)
		}
		break
	}
	err = w.router.Transaction(ctx, item.ID, func(tx *snowflakeplugin.ShardTx) error {
		db, err := tx.DB(&splitItem{}, item.ID)
		if err != nil {
			return err
		}
		return db.Where("id = ?", item.ID).Update("amount", gorm.Expr("amount + 10")).Error
	})
	switch {
	case errors.Is(err, snowflakeplugin.ErrShardMap):
		w.refused++
	case err != nil:
		return fmt.Errorf("transaction: %w", err)
	default:
		w.amounts[item.ID] += 10
	}
	var page []splitOrder
	if err := w.router.Latest(ctx, &page, 5); err != nil {
		return fmt.Errorf("latest: %w", err)
	}
	return nil
}

func TestNoAcknowledgedWriteIsLostWhileShardsAreSplitAndJoined(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		mover.create(100)
		var writers []*writer
		var busy sync.WaitGroup
		over := make(chan struct{})
		for range 2 {
			late := startRouter(t, target.OpenDSN(t, dsn, nil))
			for range 2 {
				w := &writer{program: late, amounts: map[snowflakeplugin.ID]int64{}}
				writers = append(writers, w)
				busy.Go(func() {
					for round := 0; ; round++ {
						select {
						case <-over:
							return
						default:
						}
						if err := w.write(round); err != nil {
							t.Errorf("round %d: %v", round, err)
							return
						}
					}
				})
			}
		}
		for _, modulus := range []int{2 * splitFrom, splitFrom} {
			stopped, err := resharding.Resize(t.Context(), mover.router, modulus)
			if err != nil {
				t.Errorf("Resize to %d: %v", modulus, err)
			}
			t.Logf("to %d: stopped for %v", modulus, stopped)
		}
		close(over)
		busy.Wait()
		rounds, refused := 0, 0
		for _, w := range writers {
			rounds, refused = rounds+len(w.amounts), refused+w.refused
			for id, amount := range w.amounts {
				var found splitItem
				must(t, mover.handle(&splitItem{}, id).First(&found, id).Error, "First")
				same(t, "amount", found.Amount, amount)
			}
		}
		n, err := mover.router.Count(t.Context(), &splitItem{})
		must(t, err, "Count")
		same(t, "items", n, int64(200+rounds))
		t.Logf("%d rounds, %d transactions refused", rounds, refused)
		must(t, resharding.Clean(t.Context(), mover.router), "Clean")
		must(t, mover.router.Check(t.Context()), "Check")
	})
}

// MariaDB reads 61 tables in one statement at most, and a cutover locks more than that here.
func TestAShardIsSplitIntoManyParts(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, []dbtest.Target{dbtest.Named("mariadb")}, func(t *testing.T, target dbtest.Target) {
		p := startRouter(t, target.Open(t, nil))
		orders := p.create(100)
		_, err := resharding.Split(t.Context(), p.router, shardOne, 32)
		must(t, err, "Split")
		p.finds(orders, "afterwards")
	})
}

func TestAShardMovesToAnotherDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsns := []string{target.DSN(t), target.DSN(t)}
		open := func() *program {
			return startRouter(t, target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil))
		}
		mover, late := open(), open()
		orders := mover.create(200)
		one := late.onOne(orders)
		before := late.handle(&splitOrder{}, one.ID)
		_, err := resharding.Move(t.Context(), mover.router, resharding.Class{Residue: 1, Modulus: splitFrom}, 1)
		must(t, err, "Move")
		if err := before.First(&splitOrder{}, one.ID).Error; !errors.Is(err, snowflakeplugin.ErrShardMap) {
			t.Errorf("a handle for the other database: %v", err)
		}
		late.finds(orders, "after the move")
		_, err = resharding.Split(t.Context(), mover.router, resharding.Class{Residue: 1, Modulus: splitFrom}, 2, 1, 0)
		must(t, err, "Split")
		late.finds(orders, "after a split over two databases")
		_, err = resharding.Join(t.Context(), mover.router, resharding.Class{Residue: 1, Modulus: splitFrom}, 0)
		must(t, err, "Join")
		late.finds(orders, "after the way back")
		must(t, resharding.Clean(t.Context(), mover.router), "Clean")
		open().finds(orders, "in a new process")
	})
}

// The records of several databases are read one after the other. A shard that moves in between is in none of those that
// have been read.
func TestAShardThatMovesWhileItsRecordsAreReadIsNotMissed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsns := []string{target.DSN(t), target.DSN(t)}
		class := resharding.Class{Residue: 1, Modulus: splitFrom}
		mover := startRouter(t, target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil))
		orders := mover.create(50)
		move := func(database int) {
			t.Helper()
			_, err := resharding.Move(t.Context(), mover.router, class, database)
			must(t, errors.Join(err, resharding.Clean(t.Context(), mover.router)), "Move")
		}
		move(1)
		first, second := target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil)
		moves := 0
		between := func(db *gorm.DB) {
			if moves > 0 && strings.Contains(db.Statement.Table, "snowflake_shards") {
				moves--
				move(0)
			}
		}
		must(t, second.Callback().Query().Before("*").Register("test:between", between), "Register")
		moves = 1
		late := openRouter(t, first, second)
		late.finds(orders, "as the router was made")
		move(1)
		moves = 1
		late.finds(orders, "as the map was read again")
		same(t, "moves that were not made", moves, 0)
	})
}

func TestAReshardingKnowsTheOrderOfItsDatabases(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dsns := []string{target.DSN(t), target.DSN(t)}
		open := func(first int) *program {
			dbs := []*gorm.DB{target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil)}
			must(t, dbs[1].Use(leased(t, dbs[0])), "Use")
			p := routerOn(t, dbs[first], dbs[1-first])
			must(t, p.router.AutoMigrate(t.Context()), "AutoMigrate")
			return p
		}
		mover, otherwise := open(0), func() *program { return open(1) }
		orders := mover.create(100)
		// After the first resharding, the records say where the shards are.
		_, err := resharding.Move(t.Context(), mover.router, resharding.Class{Residue: 2, Modulus: splitFrom}, 1)
		must(t, errors.Join(err, resharding.Clean(t.Context(), mover.router)), "the first Move")
		_, err = once("copy", func() {
			suite.WantErr(t, resharding.Resume(t.Context(), otherwise().router), snowflakeplugin.ErrSharding, "Resume")
		}).Move(t.Context(), mover.router, shardOne, 1)
		must(t, err, "Move")
		otherwise().finds(orders, "with the databases in another order")
		suite.WantErr(t, resharding.Clean(t.Context(), otherwise().router), snowflakeplugin.ErrSharding, "Clean")
		must(t, resharding.Clean(t.Context(), mover.router), "Clean")
		otherwise().finds(orders, "in another order after cleaning")
	})
}

// besideMore returns a program with one database, and a program with that one and a second one. starts is what one
// says that starts with the first one only.
func besideMore(t *testing.T, target dbtest.Target) (small, large *program, starts func() error) {
	t.Helper()
	dsn := target.DSN(t)
	db := target.OpenDSN(t, dsn, nil)
	small = startRouter(t, db)
	plugin := db.Plugins["snowflake"]
	both := []*gorm.DB{target.OpenDSN(t, dsn, nil), target.Open(t, nil)}
	for _, other := range both {
		must(t, other.Use(plugin), "Use")
	}
	large = routerOn(t, both...)
	must(t, large.router.AutoMigrate(t.Context()), "AutoMigrate")
	return small, large, func() error {
		late := target.OpenDSN(t, dsn, nil)
		must(t, late.Use(plugin), "Use")
		_, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: []*gorm.DB{late}},
			&splitOrder{}, &splitItem{}, snowflakeplugin.Broadcast(&splitTag{}))
		return err
	}
}

// A program that does not know the database of a shard would store its rows elsewhere.
func TestAProgramWithoutTheDatabaseOfAShardIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		small, mover, starts := besideMore(t, target)
		orders := small.create(40)
		_, err := resharding.Split(t.Context(), mover.router, shardOne, 2, 0, 1)
		must(t, err, "Split")
		mover.finds(orders, "after the split")

		err = starts()
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a program that starts")
		suite.Says(t, err, "add those to Databases")
	})
}

// After a move, no record of the databases that are left tells of a resharding. A program must not be told to record
// the shard there: AutoMigrate would make its tables anew, and without rows.
func TestAProgramWithoutTheDatabaseOfAMovedShardIsToldToAddIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		small, mover, starts := besideMore(t, target)
		orders := small.create(40)
		_, err := resharding.Move(t.Context(), mover.router, shardOne, 1)
		must(t, err, "Move")
		mover.finds(orders, "after the move")

		began, found := time.Now(), []splitOrder(nil)
		err = small.router.Find(t.Context(), &found, []snowflakeplugin.ID{small.onOne(orders).ID})
		suite.WantErr(t, err, snowflakeplugin.ErrShardMap, "a program that runs")
		suite.Says(t, err, "start it again with the new Databases")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it has said so after %v", took)
		}
		err = starts()
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "a program that starts")
		suite.Says(t, err, "shard 1 of 4", "add the database that has it to Databases")
		if strings.Contains(err.Error(), "held =") {
			t.Errorf("the error says to record the shard where it is not: %v", err)
		}
	})
}
