package gormlease_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mysqldriver "gorm.io/driver/mysql"
	pgdriver "gorm.io/driver/postgres"
	sqlitedriver "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/storetest"
)

// A renewal is one small request on a connection of the store's own. On a pool that is shared the
// store cannot know how the application has left a connection, so there are some more.
func TestEveryRequestIsAsFewStatementsAsItCanBe(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		around := map[string]string{
			"sqlite":   "BEGIN IMMEDIATE; %s; COMMIT",
			"mysql":    "SET TRANSACTION; START TRANSACTION; %s; COMMIT",
			"postgres": "SELECT set_config; SELECT CASE; %s",
		}[target.Dialect]
		t.Run("shared", func(t *testing.T) {
			seen := &statements{}
			pool := sql.OpenDB(counting{poolOf(t, target.Open(t, nil)), seen})
			t.Cleanup(func() { must(t, pool.Close()) })
			db, err := gorm.Open(dialectorOn(target, pool), &gorm.Config{Logger: logger.Discard})
			must(t, err)
			countStatements(t, newStore(t, db), seen, around)
		})
		if target.Dialect == "sqlite" {
			return // which reads the file anew for each request, whoever opened it
		}
		t.Run("its own", func(t *testing.T) {
			db, seen := watchedHandle(t, target, target.DSN(t))
			countStatements(t, newStore(t, db), seen, "%s")
		})
	})
}

// watchedHandle opens a handle whose connections, and those that a store opens like it, say what they are sent.
func watchedHandle(t *testing.T, target dbtest.Target, dsn string) (*gorm.DB, *statements) {
	t.Helper()
	seen := &statements{}
	base := map[string]string{"sqlite": "sqlite3", "mysql": "mysql", "postgres": "pgx"}[target.Dialect]
	name := base + "-" + rand.Text()
	sql.Register(name, countingDriver{base, seen})
	var d gorm.Dialector
	switch target.Dialect {
	case "sqlite":
		d = sqlitedriver.New(sqlitedriver.Config{DriverName: name, DSN: dsn})
	case "mysql":
		d = mysqldriver.New(mysqldriver.Config{DriverName: name, DSN: dsn})
	case "postgres":
		d = pgdriver.New(pgdriver.Config{DriverName: name, DSN: dsn})
	}
	db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard})
	must(t, err)
	application := poolOf(t, db)
	t.Cleanup(func() { must(t, application.Close()) })
	return db, seen
}

// A parcel gets its key from the plugin.
type parcel struct {
	ID   int64 `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
	Name string
}

// Those that begin and end transactions are counted, and those of GORM as well, which sends three for a create.
// The first process makes the tables. On PostgreSQL a first create asks where the table of the rows lies.
func TestAProcessSendsFewStatementsWhenItStartsAndNoneOfItsOwnInACreate(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		counts := map[string][]int{
			"sqlite": {61, 44, 3, 3}, "postgres": {33, 15, 4, 3}, "mysql": {52, 26, 3, 3},
		}[target.Dialect]
		dsn := target.DSN(t)
		must(t, target.OpenDSN(t, dsn, nil).AutoMigrate(&parcel{}))
		for i, which := range []string{"the first process", "a later process"} {
			db, seen := watchedHandle(t, target, dsn)
			plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)),
				snowflakeplugin.WithLease(nil, lease.WithSpan(time.Hour)))
			t.Cleanup(func() { must(t, plugin.Close(context.Background())) })
			for _, step := range []struct {
				what string
				do   func() error
				most int
			}{
				{"db.Use", func() error { return db.Use(plugin) }, counts[i]},
				{"a first create", func() error { return db.Create(&parcel{Name: "a"}).Error }, counts[2]},
				{"a later create", func() error { return db.Create(&parcel{Name: "b"}).Error }, counts[3]},
			} {
				seen.reset()
				must(t, step.do())
				if all := seen.all(); len(all) > step.most {
					t.Errorf("%s of %s took %d statements, and not %d: %q", step.what, which, len(all), step.most, all)
				}
			}
		}
	})
}

// countStatements compares the statements that the requests of a store send with those it wants: the
// request itself, in the place of %s, and what surrounds it. Of each its first words are given.
func countStatements(t *testing.T, store *gormlease.Store, seen *statements, around string) {
	t.Helper()
	r := storetest.First(1)
	earliest, latest := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, c := range []struct {
		verb, around string
		call         func() (bool, error)
	}{
		{"SELECT", "%s", func() (bool, error) { _, err := store.Now(t.Context()); return true, err }},
		{"SELECT", strings.Replace(around, " IMMEDIATE", "", 1), func() (bool, error) {
			_, err := store.List(t.Context())
			return true, err
		}},
		{"INSERT", around, func() (bool, error) { return store.Swap(t.Context(), lease.Record{}, r) }},
		{"UPDATE", around, func() (bool, error) { return store.Swap(t.Context(), r, storetest.Renew(r)) }},
		{"UPDATE", around, func() (bool, error) {
			next := storetest.Renew(r)
			return store.SwapWithin(t.Context(), next, storetest.Renew(next), earliest, latest)
		}},
		{"INSERT", around, func() (bool, error) {
			return store.SwapWithin(t.Context(), lease.Record{}, storetest.First(2), earliest, latest)
		}},
	} {
		seen.reset()
		ok, err := c.call()
		if err != nil || !ok {
			t.Errorf("%s: %t, %v", c.verb, ok, err)
		}
		want, all := strings.Split(strings.Replace(c.around, "%s", c.verb, 1), "; "), seen.all()
		if !slices.EqualFunc(all, want, strings.HasPrefix) {
			t.Errorf("the statements were %q, want %q", all, want)
		}
	}
}

// countingDriver opens connections of another driver.
type countingDriver struct {
	base string
	seen *statements
}

func (d countingDriver) Open(dsn string) (driver.Conn, error) {
	pool, err := sql.Open(d.base, dsn)
	if err != nil {
		return nil, err
	}
	pool.SetMaxIdleConns(0)
	return counting{pool, d.seen}.Connect(context.Background())
}

// Where the table is, New makes none and writes nothing.
func TestATableThatIsThereIsOnlyLookedAt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		seen := &statements{}
		pool := sql.OpenDB(counting{poolOf(t, target.Open(t, nil)), seen})
		t.Cleanup(func() { must(t, pool.Close()) })
		db, err := gorm.Open(dialectorOn(target, pool), &gorm.Config{Logger: logger.Discard})
		must(t, err)
		newStore(t, db)
		if !slices.ContainsFunc(seen.all(), isCreate) {
			t.Fatalf("the table was not made by %q", seen.all())
		}
		seen.reset()
		newStore(t, db, gormlease.WithTable("snowflake_nodes"))
		asked := slices.DeleteFunc(seen.all(), isFrame)
		if slices.ContainsFunc(asked, isCreate) || len(asked) > 8 {
			t.Errorf("a table that is there took %d statements: %q", len(asked), asked)
		}
	})
}

func isCreate(statement string) bool { return strings.HasPrefix(statement, "CREATE") }

// isFrame tells the statements that begin and end a transaction, or look whether it is still the same one.
func isFrame(statement string) bool {
	verb := strings.Fields(statement)[0]
	return strings.Contains(statement, "snowflakeplugin.transaction") ||
		slices.Contains([]string{"SET", "START", "BEGIN", "COMMIT"}, verb)
}

// statements are those that a database was sent.
type statements struct {
	hidden string // a table that is not found by what reads

	mu   sync.Mutex
	sent []string // guarded by mu
}

func (s *statements) add(statement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, statement)
}

func (s *statements) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = nil
}

func (s *statements) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// counting is a driver on top of a pool, each of whose connections is one of that.
type counting struct {
	pool *sql.DB
	seen *statements
}

func (c counting) Driver() driver.Driver { return nil }

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.seen}, nil
}

type countingConn struct {
	conn *sql.Conn
	seen *statements
}

func (c countingConn) Close() error { return c.conn.Close() }

func (c countingConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("the store prepares nothing")
}

func (c countingConn) Begin() (driver.Tx, error) {
	c.seen.add("BEGIN")
	tx, err := c.conn.BeginTx(context.Background(), nil)
	return countingTx{tx, c.seen}, err
}

type countingTx struct {
	*sql.Tx
	seen *statements
}

func (tx countingTx) Commit() error {
	tx.seen.add("COMMIT")
	return tx.Tx.Commit()
}

func (c countingConn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	c.seen.add(query)
	return c.conn.ExecContext(ctx, query, values(args)...)
}

func values(args []driver.NamedValue) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		all[i] = arg.Value
	}
	return all
}

func (c countingConn) QueryContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Rows, error) {
	c.seen.add(query)
	if c.seen.hidden != "" {
		query = strings.ReplaceAll(query, c.seen.hidden, "elsewhere")
	}
	rows, err := c.conn.QueryContext(ctx, query, values(args)...) //nolint:rowserrcheck // countingRows.Next checks it
	if err != nil {
		return nil, err
	}
	return countingRows{rows}, nil
}

type countingRows struct{ rows *sql.Rows }

func (r countingRows) Columns() []string {
	names, err := r.rows.Columns()
	if err != nil {
		return nil
	}
	return names
}

func (r countingRows) Close() error { return r.rows.Close() }

func (r countingRows) Next(dest []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	values, to := make([]any, len(dest)), make([]any, len(dest))
	for i := range values {
		to[i] = &values[i]
	}
	err := r.rows.Scan(to...)
	for i, value := range values {
		dest[i] = value
	}
	return err
}
