package ecosystem_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/plugin/dbresolver"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// cart is spread over shards, and its lines lie beside it.
type cart struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string             `gorm:"size:40"`
	Lines []cartLine
}

type cartLine struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:CartID"`
	CartID snowflakeplugin.ID
	Amount int64
}

const cartShards = 4

// shardedCluster is a router over a source that has a replica. The replica never learns anything:
// what is read from it is recognized by its absence.
type shardedCluster struct {
	router         *snowflakeplugin.Router
	source, behind *gorm.DB
}

// eachShardedCluster runs fn with dbresolver used before the router and after it, with and without
// prepared statements. The servers meet both choices in tier one, but not every pair of them.
func eachShardedCluster(t *testing.T, fn func(t *testing.T, c shardedCluster)) {
	t.Helper()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		// The tables are made once, and emptied in between.
		source, replica := target.DSN(t), target.DSN(t)
		c := shardedCluster{source: target.OpenDSN(t, source, nil), behind: target.OpenDSN(t, replica, nil)}
		for _, db := range []*gorm.DB{c.source, c.behind} {
			must(t, cartRouter(t, db).AutoMigrate(t.Context()), "AutoMigrate")
		}
		for _, first := range []bool{true, false} {
			for _, prepare := range []bool{true, false} {
				if first != prepare && target.Dialect != "sqlite" && !nightly.Enabled() {
					continue
				}
				t.Run(fmt.Sprintf("resolver first %t, prepared %t", first, prepare), func(t *testing.T) {
					for shard := range cartShards {
						for _, db := range []*gorm.DB{c.source, c.behind} {
							empty(t, db, fmt.Sprintf("cart_lines_%02d", shard), fmt.Sprintf("carts_%02d", shard))
						}
					}
					c := c
					c.router = openShardedCluster(t, target, [2]string{source, replica}, first, prepare)
					fn(t, c)
				})
			}
		}
	})
}

// openShardedCluster returns a router on a source with a replica.
func openShardedCluster(
	t *testing.T, target dbtest.Target, dsns [2]string, first, prepare bool,
) (router *snowflakeplugin.Router) {
	t.Helper()
	db := target.OpenDSN(t, dsns[0], &gorm.Config{PrepareStmt: prepare})
	resolver := dbresolver.Register(dbresolver.Config{Replicas: []gorm.Dialector{target.Dialector(dsns[1])}})
	if first {
		must(t, db.Use(resolver), "Use of dbresolver")
	}
	router = cartRouter(t, db)
	if !first {
		must(t, db.Use(resolver), "Use of dbresolver")
	}
	own, err := db.DB()
	must(t, err, "the pool")
	t.Cleanup(func() {
		err := resolver.Call(func(pool gorm.ConnPool) error {
			if prepared, ok := pool.(*gorm.PreparedStmtDB); ok {
				pool = prepared.ConnPool
			}
			if closer, ok := pool.(io.Closer); ok && pool != gorm.ConnPool(own) {
				return closer.Close()
			}
			return nil
		})
		must(t, err, "close the pools of dbresolver")
	})
	return router
}

// cartRouter returns a router of carts.
func cartRouter(t *testing.T, db *gorm.DB) *snowflakeplugin.Router {
	t.Helper()
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: cartShards, Databases: []*gorm.DB{db}}, &cart{}, &cartLine{})
	must(t, err, "NewRouter")
	return r
}

// carts stores carts with two lines each.
func (c shardedCluster) carts(t *testing.T, n int) []cart {
	t.Helper()
	made := make([]cart, n)
	for i := range made {
		made[i] = cart{Name: fmt.Sprint(i), Lines: []cartLine{{Amount: 1}, {Amount: 2}}}
	}
	must(t, c.router.Create(t.Context(), made), "Create")
	return made
}

// rows counts the rows of all shards in one database.
func rows(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	for shard := range cartShards {
		var some int64
		must(t, db.Table(fmt.Sprintf("%s_%02d", table, shard)).Count(&some).Error, "count")
		n += some
	}
	return n
}

func (c shardedCluster) want(t *testing.T, carts, lines int64) {
	t.Helper()
	if got := rows(t, c.source, "carts"); got != carts {
		t.Errorf("the source has %d carts, want %d", got, carts)
	}
	if got := rows(t, c.source, "cart_lines"); got != lines {
		t.Errorf("the source has %d lines, want %d", got, lines)
	}
	if n := rows(t, c.behind, "carts") + rows(t, c.behind, "cart_lines"); n != 0 {
		t.Errorf("%d rows were written to the replica", n)
	}
}

func TestDBResolverShardsAreWrittenToTheSource(t *testing.T) {
	t.Parallel()
	eachShardedCluster(t, func(t *testing.T, c shardedCluster) {
		made := c.carts(t, 8)
		c.want(t, 8, 16)
		db, err := c.router.DB(t.Context(), &cart{}, made[0].ID)
		must(t, err, "DB")
		one := cart{Name: "one", Lines: []cartLine{{Amount: 3}}}
		must(t, db.Create(&one).Error, "Create by a handle")
		must(t, db.Where("name = ?", "one").Update("name", "changed").Error, "Update")
		c.want(t, 9, 17)
		must(t, db.Where("name = ?", "changed").Delete(&cart{}).Error, "Delete")
		must(t, c.router.Each(t.Context(), &cartLine{}, func(_ int, tx *gorm.DB) error {
			return tx.Where("amount = ?", 2).Delete(&cartLine{}).Error
		}), "Each")
		c.want(t, 8, 9)
	})
}

func TestDBResolverShardsAreReadFromReplicas(t *testing.T) {
	t.Parallel()
	eachShardedCluster(t, func(t *testing.T, c shardedCluster) {
		made, ctx := c.carts(t, 8), t.Context()
		db, err := c.router.DB(ctx, &cart{}, made[0].ID)
		must(t, err, "DB")
		// The replica has nothing, so whatever is found came from the source.
		var found []cart
		must(t, db.Find(&found).Error, "Find")
		if len(found) != 0 {
			t.Errorf("a handle read %d carts from the source", len(found))
		}
		must(t, db.Clauses(dbresolver.Write).Preload("Lines").Find(&found).Error, "Find in the source")
		if len(found) != 2 || len(found[0].Lines) != 2 {
			t.Errorf("the source gave %+v", found)
		}
		source := c.router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Clauses(dbresolver.Write) })
		missing := c.router.Find(ctx, &found, []snowflakeplugin.ID{made[0].ID, made[1].ID})
		if !errors.Is(missing, gorm.ErrRecordNotFound) {
			t.Errorf("Find: %v, want %v", missing, gorm.ErrRecordNotFound)
		}
		must(t, source.Find(ctx, &found, []snowflakeplugin.ID{made[1].ID, made[0].ID}), "Find in the source")
		n, err := c.router.Count(ctx, &cart{})
		must(t, err, "Count")
		must(t, c.router.Latest(ctx, &found, 3), "Latest")
		if n != 0 || len(found) != 0 {
			t.Errorf("%d carts are counted, a page has %d: they came from the source", n, len(found))
		}
		if n, err = source.Count(ctx, &cart{}); err != nil || n != 8 {
			t.Errorf("Count in the source: %d, %v, want 8", n, err)
		}
		if err := source.Latest(ctx, &found, 3); err != nil || len(found) != 3 {
			t.Errorf("Latest in the source: %d carts, %v, want 3", len(found), err)
		}
	})
}

func TestDBResolverShardTransactionsStayOnTheSource(t *testing.T) {
	t.Parallel()
	undone := errors.New("undone")
	eachShardedCluster(t, func(t *testing.T, c shardedCluster) {
		made := c.carts(t, 4)
		work := func(tx *snowflakeplugin.ShardTx) error {
			must(t, tx.Create(&cart{Name: "in it", Lines: []cartLine{{Amount: 1}}}), "Create")
			var found []cart
			must(t, tx.Gorm().Preload("Lines").Find(&found).Error, "Find")
			if len(found) != 2 || len(found[1].Lines) != 1 {
				t.Errorf("the transaction sees %+v", found)
			}
			return undone
		}
		if err := c.router.Transaction(t.Context(), made[0].ID, work); !errors.Is(err, undone) {
			t.Fatalf("Transaction: %v", err)
		}
		c.want(t, 4, 8)
		must(t, c.router.Transaction(t.Context(), made[0].ID, func(tx *snowflakeplugin.ShardTx) error {
			if err := work(tx); !errors.Is(err, undone) {
				return err
			}
			return nil
		}), "Transaction")
		c.want(t, 5, 9)
	})
}

// A replica that is behind has the old shard map. Who took that for the present one would look for tables that are gone.
func TestDBResolverTheShardMapIsReadFromTheSource(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		target = target.Privileged()
		source, replica := target.DSN(t), target.DSN(t)
		plain := target.OpenDSN(t, source, nil)
		mover := cartRouter(t, plain)
		must(t, mover.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, cartRouter(t, target.OpenDSN(t, replica, nil)).AutoMigrate(t.Context()), "AutoMigrate of the replica")
		c := shardedCluster{source: plain}
		c.router = openShardedCluster(t, target, [2]string{source, replica}, true, false)
		made := c.carts(t, 8)
		_, err := resharding.Split(t.Context(), mover, resharding.Class{Residue: 1, Modulus: cartShards}, 2)
		must(t, err, "Split")
		more := c.carts(t, 8)
		for _, row := range append(made, more...) {
			db, err := c.router.DB(t.Context(), &cart{}, row.ID)
			must(t, err, "DB")
			changed := db.Where("id = ?", row.ID).Update("name", "changed")
			if changed.Error != nil || changed.RowsAffected != 1 {
				t.Errorf("an update of %d has changed %d rows: %v", row.ID, changed.RowsAffected, changed.Error)
			}
		}
		must(t, c.router.AutoMigrate(t.Context()), "AutoMigrate afterwards")
		if plain.Migrator().HasTable("carts_01") {
			t.Error("AutoMigrate has made a table of the old map")
		}
	})
}

// A handle's own database need not be the source. Who looked there whether there is a map would take that of the first
// start, and make the old tables anew, in which nobody finds a row.
func TestDBResolverTheShardMapIsThatOfASourceBesideTheHandle(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		target = target.Privileged()
		dsn := target.DSN(t)
		plain := target.OpenDSN(t, dsn, nil)
		mover := cartRouter(t, plain)
		must(t, mover.AutoMigrate(t.Context()), "AutoMigrate")
		_, err := resharding.Split(t.Context(), mover, resharding.Class{Residue: 1, Modulus: cartShards}, 2)
		must(t, err, "Split")
		must(t, resharding.Clean(t.Context(), mover), "Clean")

		db := target.Open(t, nil)
		resolver := dbresolver.Register(dbresolver.Config{Sources: []gorm.Dialector{target.Dialector(dsn)}})
		must(t, db.Use(resolver), "Use of dbresolver")
		t.Cleanup(func() {
			must(t, resolver.Call(func(pool gorm.ConnPool) error { return pool.(io.Closer).Close() }), "close the source")
		})
		router := cartRouter(t, db)
		must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
		for _, row := range (shardedCluster{router: mover}).carts(t, 8) {
			handle, err := router.DB(t.Context(), &cart{}, row.ID)
			must(t, err, "DB")
			changed := handle.Where("id = ?", row.ID).Update("name", "changed")
			if changed.Error != nil || changed.RowsAffected != 1 {
				t.Errorf("an update of %d has changed %d rows: %v", row.ID, changed.RowsAffected, changed.Error)
			}
		}
		if plain.Migrator().HasTable("carts_01") {
			t.Error("AutoMigrate has made a table of the old map")
		}
		// Transactions go to the handle's own database, whatever dbresolver has beside it.
		for what, err := range map[string]error{
			"Create": router.Create(t.Context(), &cart{}),
			"Transaction": router.Transaction(t.Context(), 2, func(tx *snowflakeplugin.ShardTx) error {
				return tx.Create(&cart{ID: 2})
			}),
		} {
			if !errors.Is(err, snowflakeplugin.ErrShardMap) || !strings.Contains(fmt.Sprint(err), "carts_0") ||
				!strings.Contains(fmt.Sprint(err), "give gorm.Open the DSN of the source") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// If it has replicas for some tables, dbresolver parses the model of every statement anew, which gives it the schema of no
// shard. The keys of its rows would be those of any shard.
func TestDBResolverForSomeTablesLeavesStatementsOnTheirShard(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		for name, first := range map[string]bool{"before the router": true, "after it": false} {
			t.Run(name, func(t *testing.T) {
				dsn := target.Privileged().DSN(t)
				db := target.OpenDSN(t, dsn, nil)
				resolver := dbresolver.Register(dbresolver.Config{}, "others")
				if first {
					must(t, db.Use(resolver), "Use of dbresolver")
				}
				router := cartRouter(t, db)
				if !first {
					must(t, db.Use(resolver), "Use of dbresolver")
				}
				must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
				made := (shardedCluster{router: router}).carts(t, 2*cartShards)
				var handles []*gorm.DB
				for i, row := range made {
					handle, err := router.DB(t.Context(), &cart{}, row.ID)
					must(t, err, "DB")
					handles = append(handles, handle)
					one := cart{Name: "one", Lines: []cartLine{{Amount: 3}}}
					must(t, handle.Create(&one).Error, "Create by a handle")
					if one.ID.Int64()%cartShards != row.ID.Int64()%cartShards {
						t.Errorf("%d was made for the shard of %d", one.ID, row.ID)
					}
					other := made[(i+1)%len(made)].ID
					if err := handle.Create(&cart{ID: other}).Error; other.Int64()%cartShards != row.ID.Int64()%cartShards &&
						!errors.Is(err, snowflakeplugin.ErrCrossShard) {
						t.Errorf("a row of another shard: %v, want ErrCrossShard", err)
					}
				}
				mover := cartRouter(t, target.OpenDSN(t, dsn, nil))
				_, err := resharding.Split(t.Context(), mover, resharding.Class{Residue: 1, Modulus: cartShards}, 2)
				must(t, err, "Split")
				for i, row := range made { // A handle from before follows.
					changed := handles[i].Where("id = ?", row.ID).Update("name", "changed")
					if changed.Error != nil || changed.RowsAffected != 1 {
						t.Errorf("an update of %d has changed %d rows: %v", row.ID, changed.RowsAffected, changed.Error)
					}
				}
			})
		}
	})
}

// A source of the tables alone has no shard map, so nobody splits them there.
func TestTablesOfShardsAreMadeInASourceWithoutRecordsOfTheMap(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db, other := target.OpenDSN(t, target.DSN(t), nil), target.OpenDSN(t, dsn, nil)
		var tables []any
		for shard := range cartShards {
			tables = append(tables, fmt.Sprintf("carts_%02d", shard))
		}
		resolver := dbresolver.Register(dbresolver.Config{Sources: []gorm.Dialector{target.Dialector(dsn)}}, tables...)
		must(t, db.Use(resolver), "Use of dbresolver")
		t.Cleanup(func() {
			must(t, resolver.Call(func(pool gorm.ConnPool) error { return pool.(io.Closer).Close() }), "close the pools")
		})
		router := cartRouter(t, db)
		must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, router.AutoMigrate(t.Context()), "AutoMigrate again")
		if n := rows(t, other, "carts"); n != 0 {
			t.Errorf("there are %d rows in the source", n)
		}
		handle, err := router.DB(t.Context(), &cart{}, 1)
		must(t, err, "DB")
		must(t, handle.Create(&cart{Name: "one"}).Error, "Create")
		if n := rows(t, other, "carts"); n != 1 {
			t.Errorf("there are %d rows in the source after a create", n)
		}
	})
}

// A transaction would go to the database of the handle, which does not have the table.
func TestTheShardMapIsRecordedInTheSourceOfItsTable(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db, other := target.OpenDSN(t, target.DSN(t), nil), target.OpenDSN(t, dsn, nil)
		resolver := dbresolver.Register(
			dbresolver.Config{Sources: []gorm.Dialector{target.Dialector(dsn)}}, "snowflake_shards")
		must(t, db.Use(resolver), "Use of dbresolver")
		t.Cleanup(func() {
			must(t, resolver.Call(func(pool gorm.ConnPool) error { return pool.(io.Closer).Close() }), "close the pools")
		})
		router := cartRouter(t, db)
		must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, router.Check(t.Context()), "Check")
		var n int64
		must(t, other.Table("snowflake_shards").Count(&n).Error, "Count")
		if n != 2 {
			t.Errorf("the source has %d records of 2 models", n)
		}
	})
}

// shout has an index that no transaction may make in the way that its option asks for.
type shout struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Text string             `gorm:"size:20;index:,option:CONCURRENTLY;comment:has an INDEX CONCURRENTLY made"`
}

func TestAutoMigrateMakesAnIndexThatIsMadeConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: 2, Databases: []*gorm.DB{db}}, &shout{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, r.Check(t.Context()), "Check")
		comment := ""
		must(t, db.Raw("SELECT col_description('shouts_01'::regclass, 2)").Scan(&comment).Error, "the comment")
		if comment != "has an INDEX CONCURRENTLY made" {
			t.Errorf("the comment is %q", comment)
		}
		must(t, db.Exec("DROP INDEX idx_shouts_01_text").Error, "DROP INDEX")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate again")
		must(t, r.Check(t.Context()), "Check again")
	})
}
