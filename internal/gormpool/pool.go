// Package gormpool finds the connection that a store of the plugin works on beside GORM: one of its own where
// that is possible, and otherwise the pool of the application.
package gormpool

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqltable"
)

// Config says for whom a connection is.
type Config struct {
	Package string // the package of the store, for messages
	Option  string // what the application passes a store of its own to
	Purpose string // one word for the name of the connection
	// ErrDatabase is the sentinel for a handle that no store can work on.
	ErrDatabase error
}

// Option changes one property of the table of a store. It hides the option of the table, because some of
// those are about the connection.
type Option func() sqltable.Option

// WithTable names the table.
func WithTable(name string) Option {
	return func() sqltable.Option { return sqltable.WithTable(name) }
}

// unwrap returns the options of the table, which reports those that are nil.
func unwrap(opts []Option) []sqltable.Option {
	all := make([]sqltable.Option, len(opts), len(opts)+1)
	for i, opt := range opts {
		if opt != nil {
			all[i] = opt()
		}
	}
	return all
}

// DDL returns the statement that a function makes for the dialect of db and the options. The error wraps
// wrong for a handle that is none.
func DDL[D ~string](
	db *gorm.DB, wrong error, opts []Option, statement func(D, ...sqltable.Option) (string, error),
) (string, error) {
	if err := check(db, wrong); err != nil {
		return "", err
	}
	return statement(D(db.Name()), unwrap(opts)...)
}

func check(db *gorm.DB, wrong error) error {
	if db == nil || db.Config == nil || db.Dialector == nil {
		return fmt.Errorf("%w: the *gorm.DB is nil, or does not come from gorm.Open", wrong)
	}
	return nil
}

// Open opens a store on the database of db. The function gets the pool that the store works on; if that is
// the store's own, and the function fails, the pool is closed. Open also returns the pool, and whether it is
// the store's own.
func Open[S any, D ~string](
	db *gorm.DB, c Config, opts []Option,
	begin func(context.Context, *sql.DB, D, ...sqltable.Option) (S, error),
) (store S, pool *sql.DB, own bool, err error) {
	if err := check(db, c.ErrDatabase); err != nil {
		return store, nil, false, err
	}
	application, err := poolOf(db, c)
	if err != nil {
		return store, nil, false, err
	}
	open := func(ctx context.Context, pool *sql.DB, own bool) (S, error) {
		all := unwrap(opts)
		if own {
			all = append(all, sqltable.WithDedicatedPool())
		}
		return begin(ctx, pool, D(db.Name()), all...)
	}
	ctx := context.Background()
	if db.Statement != nil && db.Statement.Context != nil {
		ctx = db.Statement.Context
	}
	if dialect.Kind(db.Name()).Embedded() {
		return openEmbedded(ctx, db, application, open)
	}
	name := func(driver, dsn string) string { return named(db.Name(), driver, dsn, c.Purpose) }
	if pool := reopen(db.Dialector, name); pool != nil {
		store, err = dedicated(sqltable.WithApplication(ctx, application), pool, open)
		return store, pool, true, err
	}
	store, err = open(ctx, application, false)
	return store, application, false, err
}

// dedicated opens the store on a pool of its own. It closes the pool if there is an error.
func dedicated[S any](
	ctx context.Context, pool *sql.DB, open func(ctx context.Context, pool *sql.DB, own bool) (S, error),
) (S, error) {
	store, err := open(ctx, pool, true)
	if err != nil {
		_ = pool.Close() // which has nothing to add to that error
	}
	return store, err
}

// poolOf returns the pool that gorm.Open made or was given.
func poolOf(db *gorm.DB, c Config) (*sql.DB, error) {
	// Without a statement, the handle is not in a transaction and on no replica.
	pool, err := (&gorm.DB{Config: db.Config}).DB()
	if err != nil {
		pool, err = db.DB()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: there is no *sql.DB behind the *gorm.DB, but a single connection or "+
			"something of the application's; open another *gorm.DB for the store, pass it to %s.New, and "+
			"the store to %s: %w", c.ErrDatabase, c.Package, c.Option, err)
	}
	return pool, nil
}

// reopen opens another pool on the database of a dialector, without connecting yet, or returns nil
// if that cannot be done: the dialector was made from a pool, or is of an unknown kind.
// The function changes the DSN.
func reopen(d gorm.Dialector, change func(driver, dsn string) string) *sql.DB {
	d = pristine(d, change)
	if d == nil {
		return nil
	}
	db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard, DisableAutomaticPing: true})
	if err != nil {
		// It would tell the DSN. The application's pool was opened with that, so let it speak.
		return nil
	}
	pool, err := db.DB()
	if err != nil {
		return nil
	}
	return pool
}

// pristine returns a copy of a dialector that opens pools from a DSN. The drivers of GORM write into
// their dialectors when they are initialized, which must not change the application's, least of all
// while that is in use. Nothing is known of the types but the fields that all of them have.
func pristine(d gorm.Dialector, change func(driver, dsn string) string) gorm.Dialector {
	for { // the plugin puts a dialector of its own around the driver's
		around, ok := d.(interface{ Unwrap() gorm.Dialector })
		if !ok {
			break
		}
		d = around.Unwrap()
	}
	v := reflect.ValueOf(d)
	pointer := v.Kind() == reflect.Pointer
	if pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	v = duplicate(v)
	dsn, conn := field(v, "DSN"), field(v, "Conn")
	if dsn.Kind() != reflect.String || dsn.Len() == 0 || conn.Kind() != reflect.Interface || !conn.IsNil() {
		return nil
	}
	// MySQL's asks the server for its version without a context. Nobody needs it here.
	if skip := field(v, "SkipInitializeWithVersion"); skip.Kind() == reflect.Bool && skip.CanSet() {
		skip.SetBool(true)
	}
	driver := ""
	if name := field(v, "DriverName"); name.Kind() == reflect.String {
		driver = name.String()
	}
	if dsn.CanSet() {
		dsn.SetString(change(driver, dsn.String()))
	}
	if pointer {
		v = v.Addr()
	}
	d, _ = v.Interface().(gorm.Dialector)
	return d
}

// named adds the name of the connection to a DSN of the MySQL driver. An application that sets the
// attributes of its connections itself has chosen a name already, or wants none. On PostgreSQL the
// store gives the name to the connection when it is open.
// A driver of another name may read another kind of DSN.
func named(kind, driver, dsn, purpose string) string {
	if kind != dialect.MySQL || driver != "" && driver != "mysql" {
		return dsn
	}
	const attributes = "connectionAttributes="
	// A question mark before the last slash belongs to a password.
	_, params, found := strings.Cut(dsn[strings.LastIndexByte(dsn, '/')+1:], "?")
	if strings.Contains("&"+params, "&"+attributes) {
		return dsn
	}
	separator := "?"
	if found {
		separator = "&"
	}
	return dsn + separator + attributes + url.QueryEscape("program_name:"+sqltable.ConnectionName(purpose))
}

// duplicate copies a struct, with the structs that are embedded in it, so that no assignment to a
// field or append to a slice of the copy reaches the original.
func duplicate(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	for i := range c.NumField() {
		f := c.Field(i)
		embedded := c.Type().Field(i).Anonymous
		switch {
		case !f.CanSet():
		case f.Kind() == reflect.Slice:
			f.Set(f.Slice3(0, f.Len(), f.Len()))
		case embedded && f.Kind() == reflect.Struct:
			f.Set(duplicate(f))
		case embedded && f.Kind() == reflect.Pointer && f.Elem().Kind() == reflect.Struct:
			f.Set(duplicate(f.Elem()).Addr())
		}
	}
	return c
}

// field returns a field of a struct, or of one that is embedded in it, or the zero Value.
func field(v reflect.Value, name string) reflect.Value {
	f, ok := v.Type().FieldByName(name)
	if !ok {
		return reflect.Value{}
	}
	value, err := v.FieldByIndexErr(f.Index)
	if err != nil {
		return reflect.Value{}
	}
	return value
}
