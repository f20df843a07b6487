package resharding_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

// With the mode ORACLE, MariaDB has no operator for the remainder of a division. Earlier versions have written it
// into the CHECK constraints of tables, and these are known by their names.
func TestShardsAreSplitAndJoinedInTheModeOracle(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		if target.IsTiDB(t) {
			t.Skip("TiDB has no triggers, so nothing is split there")
		}
		target = mayMakeTriggers(target)
		for _, checks := range []string{"MOD", "%"} {
			t.Run("with "+checks, func(t *testing.T) {
				t.Parallel()
				splitsInTheModeOracle(t, target, checks == "%")
			})
		}
	})
}

// PgBouncer gives each transaction another session, so nothing may be kept in one.
func TestShardsAreSplitAndJoinedThroughPgBouncer(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		dsn := dbtest.PgBouncer(t, target.DSN(t), "transaction") + "&default_query_exec_mode=exec"
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		late := startRouter(t, target.OpenDSN(t, dsn, nil))
		orders := mover.create(100)
		late.finds(orders, "before")
		splitAndJoin(t, mover, late, orders)
		startRouter(t, target.OpenDSN(t, dsn, nil)).finds(orders, "in a new process")
	})
}

func splitsInTheModeOracle(t *testing.T, target dbtest.Target, operator bool) {
	t.Helper()
	dsn := target.DSN(t)
	plain := target.OpenDSN(t, dsn, nil)
	if operator {
		startRouter(t, target.OpenDSN(t, dsn, nil))
		writeChecksWithTheOperator(t, plain)
	}
	open := func() *gorm.DB {
		if target.IsMySQL(t) {
			return target.OpenDSN(t, dsn, nil) // It has no such mode.
		}
		db := target.OpenDSN(t, dsn, nil, dbtest.DSNParam("sql_mode", "'ORACLE'"))
		if mode := suite.PlainOne[string](t, db, "SELECT @@sql_mode"); !strings.Contains(mode, "ORACLE") {
			t.Fatalf("the mode is %s", mode)
		}
		return db
	}
	mover := startRouter(t, open())
	late := startRouter(t, open())
	orders := mover.create(100)
	late.finds(orders, "before")
	same(t, "CHECK constraints", suite.PlainOne[int64](t, plain, "SELECT count(*) FROM "+
		"information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = DATABASE() AND CONSTRAINT_NAME LIKE "+
		"'%_shard_%_of_4'"), 4*splitFrom)
	wantConstraint := func(doing string) {
		t.Helper()
		err := late.handle(&splitOrder{}, late.onOne(orders).ID).Exec("UPDATE split_orders_00 SET id = id + 1").Error
		if err == nil || !strings.Contains(err.Error(), "split_orders_00_id_shard_0_of_4") {
			t.Errorf("%s, a key of another shard: %v", doing, err)
		}
	}
	wantConstraint("before")
	splitAndJoin(t, mover, late, orders)
	startRouter(t, open()).finds(orders, "in a new process")
	wantConstraint("after the join")
}

// writeChecksWithTheOperator gives the tables the constraints that earlier versions have made.
func writeChecksWithTheOperator(t *testing.T, db *gorm.DB) {
	t.Helper()
	for shard := range splitFrom {
		for _, c := range []struct{ table, column, or string }{
			{"split_orders", "id", ""}, {"split_order_tags", "split_order_id", ""},
			{"split_items", "id", ""}, {"split_items", "order_id", " OR order_id = 0"},
		} {
			table := fmt.Sprintf("%s_%02d", c.table, shard)
			name := fmt.Sprintf("%s_%s_shard_%d_of_%d", table, c.column, shard, splitFrom)
			suite.PlainExec(t, db, "ALTER TABLE "+table+" DROP CONSTRAINT "+name,
				fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s > 0 AND %[3]s %% %d = %d%s)", table, name, c.column,
					splitFrom, shard, c.or))
		}
	}
}

// A server may order transactions as if they ran one after the other, and end those that do not fit, reads too. They
// succeed when they are done again.
func TestAServerThatOrdersTransactionsHoldsUpNeitherAReshardingNorWhoFollowsIt(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		name := suite.PlainOne[string](t, db, "SELECT current_database()")
		suite.PlainExec(t, db, fmt.Sprintf("ALTER DATABASE %q SET default_transaction_isolation = serializable", name))
		db = target.OpenDSN(t, dsn, nil)
		dsn += "&default_query_exec_mode=exec" // It begins no transaction before that of the statement, to prepare it.
		mover := startRouter(t, target.OpenDSN(t, dsn, nil))
		late := startRouter(t, target.OpenDSN(t, dsn, nil))
		one := late.onOne(mover.create(50))
		handle := late.handle(&splitOrder{}, one.ID)

		// Whoever begins to read the table now comes before the writer, and that before the other one, which has ended.
		disturb := func(table, column string) {
			writer := db.Begin()
			for _, statement := range []string{"SELECT name FROM split_tags", fmt.Sprintf("UPDATE %s SET %s = %[2]s", table, column),
				"LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"} {
				must(t, writer.Exec(statement).Error, statement)
			}
			must(t, db.Exec("INSERT INTO split_tags VALUES (?, '')", time.Now().UnixNano()).Error, "INSERT")
			time.AfterFunc(300*time.Millisecond, func() { _ = writer.Commit() })
		}
		settings := once("drain", func() { disturb("split_orders_01", "name") })
		settings.Budget = 10 * time.Second
		_, err := settings.Split(t.Context(), mover.router, shardOne, 2)
		must(t, err, "Split")

		disturb("snowflake_shards", "shards")
		must(t, handle.First(&splitOrder{}, one.ID).Error, "a statement by the map of before")
	})
}

// Where a session does not commit by itself, each connection of a pool goes on to read what it has read first: rows, and
// the shard map.
func TestARouterOnSessionsThatDoNotCommitIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		dsns := []string{target.DSN(t), target.DSN(t)}
		newRouter := func(variable, value string) error {
			dbs := []*gorm.DB{
				target.OpenDSN(t, dsns[0], nil), target.OpenDSN(t, dsns[1], nil, dbtest.DSNParam(variable, value)),
			}
			leased(t, dbs[0])
			must(t, dbs[1].Use(dbs[0].Plugins["snowflake"]), "Use")
			_, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: dbs}, &splitOrder{},
				snowflakeplugin.Broadcast(&splitTag{}))
			return err
		}
		for variable, value := range map[string]string{"autocommit": "0", "completion_type": "1"} {
			err := newRouter(variable, value)
			suite.WantErr(t, err, snowflakeplugin.ErrSharding, "NewRouter")
			suite.Says(t, err, "database 1", variable)
		}
		must(t, newRouter("autocommit", "1"), "NewRouter")
	})
}

func TestARouterOnADatabaseThatIsAwayNamesIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		dbs := []*gorm.DB{target.Open(t, nil), target.Open(t, nil)}
		leased(t, dbs[0])
		must(t, dbs[1].Use(dbs[0].Plugins["snowflake"]), "Use")
		pool, err := dbs[1].DB()
		must(t, err, "DB")
		must(t, pool.Close(), "Close")
		_, err = snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: splitFrom, Databases: dbs}, &splitOrder{})
		suite.WantErr(t, err, snowflakeplugin.ErrSharding, "NewRouter")
		suite.Says(t, err, "database 1", "is closed")
	})
}
