package gormlease

import (
	"database/sql"
	"fmt"
	"reflect"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// connectionLifetime makes sure that a store comes to the right server after one of them has become
// another's replica or got another address.
const connectionLifetime = 5 * time.Minute

// connect finds the pool to work on.
func (s *Store) connect(db *gorm.DB) error {
	app, err := poolOf(db)
	if err != nil {
		return err
	}
	if !s.dialect.embedded {
		if own := reopen(db.Dialector); own != nil {
			// Requests are short and few, so one connection is enough; it is kept, because it is
			// needed when there are no more to be had.
			own.SetMaxOpenConns(1)
			own.SetMaxIdleConns(1)
			own.SetConnMaxLifetime(connectionLifetime)
			s.pool, s.own = own, true
			return nil
		}
	}
	s.pool = app
	if s.dialect.embedded || app.Stats().MaxOpenConnections == 1 {
		s.span = spanOfOneWriter
	}
	return nil
}

// poolOf returns the pool that gorm.Open made or was given.
func poolOf(db *gorm.DB) (*sql.DB, error) {
	// Without a statement, the handle is not in a transaction and on no replica.
	pool, err := (&gorm.DB{Config: db.Config}).DB()
	if err != nil {
		pool, err = db.DB()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: there is no *sql.DB behind the *gorm.DB, but a single connection or "+
			"something of the application's; open another *gorm.DB for the store, pass it to gormlease.New, and "+
			"the store to WithLease: %w", ErrDatabase, err)
	}
	return pool, nil
}

// reopen opens another pool on the database of a dialector, without connecting yet, or returns nil
// if that cannot be done: the dialector was made from a pool, or is of an unknown kind.
func reopen(d gorm.Dialector) *sql.DB {
	d = pristine(d)
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
func pristine(d gorm.Dialector) gorm.Dialector {
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
	if pointer {
		v = v.Addr()
	}
	d, _ = v.Interface().(gorm.Dialector)
	return d
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
