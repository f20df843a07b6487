package routing_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

type startOrder struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string             `gorm:"index:idx_start_name;size:100"`
	Lines  []startLine        `gorm:"foreignKey:OrderID"`
	Labels []startLabel       `gorm:"many2many:start_order_labels"`
}

type startLine struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
	OrderID snowflakeplugin.ID `gorm:"index"`
}

// startLabel is the same in every database.
type startLabel struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name string             `gorm:"index;size:20"`
}

// startRouter makes a router as a program does at its start, whose pools are its own.
func startRouter(t *testing.T, target dbtest.Target, dsns []string) *snowflakeplugin.Router {
	t.Helper()
	r, err := tryRouter(t, target, 4, dsns[0], dsns)
	must(t, err, "NewRouter")
	return r
}

// tryRouter is startRouter for a program that leases from the database home.
func tryRouter(
	t *testing.T, target dbtest.Target, shards int, home string, dsns []string, models ...any,
) (*snowflakeplugin.Router, error) {
	t.Helper()
	at := target.OpenDSN(t, home, nil)
	leased(t, at)
	var dbs []*gorm.DB
	for _, dsn := range dsns {
		db := at
		if dsn != home {
			db = target.OpenDSN(t, dsn, nil)
			must(t, db.Use(at.Plugins["snowflake"]), "Use")
		}
		dbs = append(dbs, db)
	}
	if models == nil {
		models = []any{&startOrder{}, &startLine{}, snowflakeplugin.Broadcast(&startLabel{})}
	}
	return snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: shards, Databases: dbs}, models...)
}

// A router of other databases, or of the same ones in another order, would store rows where nobody looks for them,
// and find none of those that are there.
func TestARouterOfOtherDatabasesThanBeforeIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		first, second, fresh := target.DSN(t), target.DSN(t), target.DSN(t)
		before := startRouter(t, target, []string{first, second})
		must(t, before.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, before.Create(t.Context(), []startOrder{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}), "Create")
		for name, c := range map[string]struct {
			shards int
			dsns   []string
			says   string
		}{
			"another order":             {4, []string{second, first}, "correct the order and number of Databases"},
			"one less":                  {4, []string{first}, "correct the order and number of Databases"},
			"one more":                  {4, []string{first, second, fresh}, "correct the order and number of Databases"},
			"another one, that is new":  {4, []string{first, fresh}, "another database than before"},
			"another number of shards":  {8, []string{first, second}, "had 4 shards at the first start"},
			"another number of both":    {2, []string{first}, "had 4 shards at the first start"},
			"both of them, one renewed": {4, []string{fresh, second}, "another database than before"},
		} {
			_, err := tryRouter(t, target, c.shards, first, c.dsns)
			wantErr(t, err, snowflakeplugin.ErrSharding, name)
			says(t, err, c.says)
		}
		again := startRouter(t, target, []string{first, second})
		must(t, again.AutoMigrate(t.Context()), "AutoMigrate again")
		n, err := again.Count(t.Context(), &startOrder{})
		must(t, err, "Count")
		same(t, "the orders", n, 4)
	})
}

// The replicas of a deployment start at the same time, and each makes the tables that are missing.
func TestProgramsThatStartAtOnceMakeTheTablesTogether(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		target = target.Shared(t)
		for round := range nightly.Pick(3, 10) {
			t.Run(fmt.Sprint(round), func(t *testing.T) { startAtOnce(t, target) })
		}
	})
}

func startAtOnce(t *testing.T, target dbtest.Target) {
	t.Helper()
	dsns := []string{target.DSN(t), target.DSN(t)}
	startTogether(t, "a start", 3, func() *snowflakeplugin.Router { return startRouter(t, target, dsns) })
}

// startTogether lets programs call AutoMigrate at the same time.
func startTogether(t *testing.T, when string, programs int, start func() *snowflakeplugin.Router) {
	t.Helper()
	var routers []*snowflakeplugin.Router
	for range programs {
		routers = append(routers, start())
	}
	gate, errs := make(chan struct{}), make([]error, programs)
	var all sync.WaitGroup
	for i, r := range routers {
		all.Go(func() {
			<-gate
			errs[i] = r.AutoMigrate(t.Context())
		})
	}
	close(gate)
	all.Wait()
	for i, r := range routers {
		must(t, errs[i], fmt.Sprintf("%s: AutoMigrate of program %d", when, i))
		must(t, r.Check(t.Context()), when+": Check")
	}
}

// addedOrder and addedLabel are startOrder and startLabel of a later version.
type addedOrder struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name   string             `gorm:"index:idx_start_name;size:100"`
	State  string             `gorm:"size:20;default:open;index"`
	Code   string             `gorm:"size:20;index:idx_added_code"`
	Paid   int64              `gorm:"not null;default:7"`
	Lines  []startLine        `gorm:"foreignKey:OrderID"`
	Labels []addedLabel       `gorm:"many2many:start_order_labels;joinForeignKey:start_order_id;joinReferences:start_label_id"`
}

func (addedOrder) TableName() string { return "start_orders" }

type addedLabel struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string             `gorm:"index;size:20"`
	Color string             `gorm:"size:20;index"`
	Size  int64
}

func (addedLabel) TableName() string { return "start_labels" }

// The replicas of a deployment start at the same time, with columns and indexes that the tables do not have.
func TestProgramsThatStartAtOnceAddColumnsTogether(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		target = target.Shared(t)
		for round := range nightly.Pick(1, 3) {
			dsns := []string{target.DSN(t), target.DSN(t)}
			before := startRouter(t, target, dsns)
			must(t, before.AutoMigrate(t.Context()), "AutoMigrate of the first version")
			must(t, before.Create(t.Context(), []startOrder{{Name: "a"}, {Name: "b"}}), "Create")
			startTogether(t, fmt.Sprint("round ", round), nightly.Pick(3, 6), func() *snowflakeplugin.Router {
				r, err := tryRouter(t, target, 4, dsns[0], dsns, &addedOrder{}, &startLine{},
					snowflakeplugin.Broadcast(&addedLabel{}))
				must(t, err, "NewRouter")
				return r
			})
		}
	})
}

type hiddenOrder struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Secret string             `gorm:"size:20"`
}

// SELECT * does not find such a column, nor one that another program has added a moment ago.
func TestAColumnThatIsInvisibleStaysAndIsListed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		table := "CREATE TABLE hidden_orders_00 (id bigint PRIMARY KEY, secret varchar(20) INVISIBLE)"
		must(t, db.Exec(table).Error, table)
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 1, Databases: []*gorm.DB{db}}, &hiddenOrder{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, r.Check(t.Context()), "Check")
		columns, err := db.Migrator().ColumnTypes("hidden_orders_00")
		must(t, err, "ColumnTypes")
		same(t, "columns", len(columns), 2)
	})
}

type repeatedOrder struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Number int64              `gorm:"uniqueIndex:pg_number"`
}

// Its name must not be taken for that of an index of the catalog, which programs of PostgreSQL meet in at once.
func TestAutoMigrateFailsForAUniqueIndexThatCannotBeAdded(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 1, Databases: []*gorm.DB{db}}, &repeatedOrder{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, db.Migrator().DropIndex("repeated_orders_00", "pg_number_00"), "DropIndex")
		must(t, r.Create(t.Context(), []repeatedOrder{{Number: 7}, {Number: 7}}), "Create")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err = r.AutoMigrate(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("AutoMigrate: %v, and the context: %v", err, ctx.Err())
		}
	})
}

// A server may refuse updates that do not go by a key.
func TestAutoMigrateUpdatesByKeysOnly(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		for _, models := range [][]any{{&startOrder{}, snowflakeplugin.Broadcast(&startLabel{})},
			{&startLine{}, &startOrder{}, snowflakeplugin.Broadcast(&startLabel{})}} {
			db := target.OpenDSN(t, dsn, nil, dbtest.DSNParam("sql_safe_updates", "1"))
			leased(t, db)
			r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, models...)
			must(t, err, "NewRouter")
			must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		}
	})
}

// The tables of an earlier version were made by somebody else, and there is nothing to change.
func TestAutoMigrateNeedsNoRightToMakeATableThatEarlierVersionsDidNotHave(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite has no rights")
		}
		target = target.Privileged()
		dsn := target.DSN(t)
		must(t, startRouter(t, target, []string{dsn}).AutoMigrate(t.Context()), "AutoMigrate")
		admin := target.OpenDSN(t, dsn, nil)
		must(t, admin.Migrator().DropTable("snowflake_models"), "DropTable")
		user, _, login := target.Login(t, admin, dsn)
		on := admin.Migrator().CurrentDatabase() + ".*"
		if target.Dialect == "postgres" {
			on = "ALL TABLES IN SCHEMA public"
			must(t, admin.Exec("REVOKE CREATE ON SCHEMA public FROM public").Error, "REVOKE")
		}
		must(t, admin.Exec("GRANT SELECT, INSERT, UPDATE, DELETE ON "+on+" TO "+user).Error, "GRANT")
		r := startRouter(t, target, []string{login})
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate without rights")
		must(t, r.Create(t.Context(), []startOrder{{Name: "a"}, {Name: "b"}}), "Create")
	})
}

// Tools have made the tables, and this program uses some of them.
func TestARouterNeedsNoRightToReadATableThatItDoesNotUse(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		target = target.Privileged()
		dsn := target.DSN(t)
		admin := target.OpenDSN(t, dsn, nil)
		leased(t, admin)
		user, _, login := target.Login(t, admin, dsn)
		for _, statement := range []string{
			"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO " + user,
			"CREATE TABLE start_lines_01 (id bigint PRIMARY KEY)",
			"CREATE TABLE start_orders_01 (id bigint PRIMARY KEY)", "INSERT INTO start_orders_01 VALUES (2)",
		} {
			must(t, admin.Exec(statement).Error, statement)
		}
		startRouter(t, target, []string{login})
		must(t, admin.Exec("GRANT SELECT ON start_orders_01 TO "+user).Error, "GRANT")
		_, err := tryRouter(t, target, 4, login, []string{login})
		wantErr(t, err, snowflakeplugin.ErrSharding, "NewRouter for rows of another tool")
	})
}

// Another program was stopped while it has the lock. A start that makes nothing does not ask for it, and any other
// waits for it once, and not once for each table.
func TestAStartWaitsForTheLockOfTheMapOnceAndOnlyToMakeTables(t *testing.T) {
	t.Parallel()
	servers := slices.DeleteFunc(dbtest.Servers(), func(target dbtest.Target) bool { return target.Name == "sqlite" })
	dbtest.Run(t, servers, func(t *testing.T, target dbtest.Target) {
		dsns := []string{target.Shared(t).DSN(t)}
		r, db := startRouter(t, target, dsns), target.OpenDSN(t, dsns[0], nil)
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		take, release := dialect.Kind(db.Name()).Exclusive("snowflake_shards", true)
		tx, taken, holder := db.Begin(), 0, 0
		must(t, tx.Raw(take[0]).Scan(&taken).Error, "the lock")
		own := map[string]string{"mysql": "SELECT CONNECTION_ID()", "postgres": "SELECT pg_backend_pid()"}
		must(t, tx.Raw(own[db.Name()]).Scan(&holder).Error, "the connection")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		must(t, r.AutoMigrate(ctx), "AutoMigrate while somebody has the lock")
		if nightly.Enabled() {
			for _, table := range []string{"start_orders_00", "start_lines_01", "start_lines_02", "start_lines_03"} {
				must(t, db.Migrator().DropTable(table), "DropTable")
			}
			since := time.Now()
			err := r.AutoMigrate(t.Context())
			wantErr(t, err, snowflakeplugin.ErrSharding, "AutoMigrate with tables missing")
			says(t, err, "4 of 4 shards failed", "the lock of the shard map", fmt.Sprintf("on connection %d", holder))
			if took := time.Since(since); took > 15*time.Second {
				t.Errorf("it has waited for %v", took)
			}
		}
		if release != "" {
			must(t, tx.Exec(release).Error, "the lock is given back")
		}
		must(t, tx.Rollback().Error, "the transaction")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate afterwards")
		must(t, r.Check(t.Context()), "Check")
	})
}

// What waits for a lock of a table while a program has that of the map, such as one that asks for an old table, waits
// as long as the application has set in its session.
func TestTablesAreMadeWithTheLockTimeoutOfTheSession(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		dsn := target.Shared(t).DSN(t)
		db := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
		must(t, db.Exec("SET lock_timeout = '1234ms'").Error, "SET")
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}},
			&startOrder{}, &startLine{}, snowflakeplugin.Broadcast(&startLabel{}))
		must(t, err, "NewRouter")
		set := ""
		must(t, db.Callback().Raw().Before("gorm:raw").Register("ask", func(tx *gorm.DB) {
			if strings.HasPrefix(tx.Statement.SQL.String(), `CREATE TABLE "start_orders_`) {
				row := tx.Statement.ConnPool.QueryRowContext(t.Context(), "SELECT current_setting('lock_timeout')")
				must(t, row.Scan(&set), "current_setting")
			}
		}), "a callback")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		if set != "1234ms" {
			t.Errorf("lock_timeout was %s", set)
		}
	})
}

// A program of an earlier version writes the records without the lock, and so does any program on a server that has
// none.
func TestAProgramWithoutTheLockMayRecordTheShardsFirst(t *testing.T) {
	t.Parallel()
	// Nobody else writes to SQLite during a transaction.
	servers := slices.DeleteFunc(dbtest.Servers(), func(target dbtest.Target) bool { return target.Name == "sqlite" })
	dbtest.Run(t, servers, func(t *testing.T, target dbtest.Target) {
		dsn := target.Shared(t).DSN(t)
		db, other := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil)
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}},
			&startOrder{}, &startLine{}, snowflakeplugin.Broadcast(&startLabel{}))
		must(t, err, "NewRouter")
		overtaken := false
		must(t, db.Callback().Create().Before("gorm:create").Register("overtake", func(tx *gorm.DB) {
			if tx.Statement.Table == "snowflake_shards" && !overtaken {
				overtaken = true
				must(t, other.Exec("INSERT INTO snowflake_shards (name, shards, held, complete, stale_shards, next_shards) "+
					"VALUES ('start_orders', 4, '0-3', false, 0, 0)").Error, "the record of another program")
			}
		}), "a callback")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		same(t, "AutoMigrate was overtaken", overtaken, true)
		must(t, r.Check(t.Context()), "Check")
	})
}

// It is GORM that prints the statements of a dry run.
func TestADryRunPrintsTheTablesThatAreMissing(t *testing.T) { //nolint:paralleltest // it is about the output
	target := dbtest.Named("sqlite")
	db := target.Open(t, nil)
	leased(t, db)
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db.Session(&gorm.Session{DryRun: true})}},
		&startOrder{}, &startLine{}, snowflakeplugin.Broadcast(&startLabel{}))
	must(t, err, "NewRouter")
	printed, output := os.Stdout, filepath.Join(t.TempDir(), "output")
	os.Stdout, err = os.Create(output)
	must(t, err, "Create")
	err = r.AutoMigrate(t.Context())
	_ = os.Stdout.Close()
	os.Stdout = printed
	must(t, err, "AutoMigrate")
	text, err := os.ReadFile(output)
	must(t, err, "ReadFile")
	for _, table := range []string{"start_labels", "snowflake_shards", "start_orders_00", "start_lines_03"} {
		if !strings.Contains(string(text), "CREATE TABLE `"+table+"`") {
			t.Errorf("the dry run has not printed how it makes %s", table)
		}
		same(t, table+" is there", db.Migrator().HasTable(table), false)
	}
}
