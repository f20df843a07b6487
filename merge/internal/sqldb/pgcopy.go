package sqldb

import (
	"context"
	"errors"
	"io"
	"reflect"
)

// COPY is not part of database/sql. The driver pgx offers it below: its connection has a method Conn, whose
// result has a method PgConn, whose result has CopyFrom and CopyTo. These methods are found by reflection, so
// that this package imports no driver. Other drivers insert rows by INSERT.

// errNoCopy says that the driver does not offer COPY.
var errNoCopy = errors.New("merge: the driver has no COPY")

// copyMethod finds a method of pgx's own connection. The result is not valid if there is none of that form.
func copyMethod(driver any, name string) reflect.Value {
	v := reflect.ValueOf(driver)
	for _, step := range []string{"Conn", "PgConn"} {
		method := v.MethodByName(step)
		if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
			return reflect.Value{}
		}
		v = method.Call(nil)[0]
	}
	method := v.MethodByName(name)
	if !method.IsValid() || method.Type().NumIn() != 3 || method.Type().NumOut() != 2 {
		return reflect.Value{}
	}
	stream := reflect.TypeFor[io.Reader]()
	if name == "CopyTo" {
		stream = reflect.TypeFor[io.Writer]()
	}
	if method.Type().In(0) != reflect.TypeFor[context.Context]() || method.Type().In(1) != stream ||
		method.Type().In(2) != reflect.TypeFor[string]() {
		return reflect.Value{}
	}
	return method
}

// CopyFrom runs COPY FROM STDIN.
func CopyFrom(ctx context.Context, d *DB, from io.Reader, text string) (int64, error) {
	return runCopy(ctx, d, "CopyFrom", from, text)
}

// CopyTo runs COPY TO STDOUT.
func CopyTo(ctx context.Context, d *DB, to io.Writer, text string) (int64, error) {
	return runCopy(ctx, d, "CopyTo", to, text)
}

func runCopy(ctx context.Context, d *DB, name string, stream any, text string) (n int64, err error) {
	var failure error
	raw := d.conn.Raw(func(driver any) error {
		method := copyMethod(driver, name)
		if !method.IsValid() {
			failure = errNoCopy
			return nil
		}
		out := method.Call([]reflect.Value{
			reflect.ValueOf(ctx), reflect.ValueOf(stream), reflect.ValueOf(text),
		})
		if tag, ok := out[0].Interface().(interface{ RowsAffected() int64 }); ok {
			n = tag.RowsAffected()
		}
		if err, ok := out[1].Interface().(error); ok {
			failure = d.failed(err)
		}
		// Errors are returned through failure: for one that Raw returned, database/sql would close the
		// connection if the driver calls it bad.
		return nil
	})
	if raw != nil {
		return 0, d.failed(raw)
	}
	return n, failure
}

// CanCopy reports whether the driver offers COPY.
func CanCopy(d *DB) (ok bool) {
	if d.Kind != PostgreSQL {
		return false
	}
	err := d.conn.Raw(func(driver any) error {
		ok = copyMethod(driver, "CopyFrom").IsValid() && copyMethod(driver, "CopyTo").IsValid()
		return nil
	})
	return ok && err == nil
}
