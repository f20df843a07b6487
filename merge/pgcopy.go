package merge

import (
	"context"
	"errors"
	"io"
	"reflect"
)

// COPY is not part of database/sql. The driver pgx has it, one step below: its connection has a method
// Conn, whose result has a method PgConn, whose result has CopyFrom and CopyTo. They are found by name, so
// that a program that merges SQLite files needs no driver for PostgreSQL. Any other driver gets INSERTs.

// errNoCopy is returned where the driver has no COPY.
var errNoCopy = errors.New("merge: the driver has no COPY")

// copyFrom runs COPY FROM STDIN.
func (d *database) copyFrom(ctx context.Context, from io.Reader, text string) (int64, error) {
	return d.copy(ctx, "CopyFrom", from, text)
}

// copyTo runs COPY TO STDOUT.
func (d *database) copyTo(ctx context.Context, to io.Writer, text string) (int64, error) {
	return d.copy(ctx, "CopyTo", to, text)
}

func (d *database) copy(ctx context.Context, name string, stream any, text string) (n int64, err error) {
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
		// Handed back by the side: for an error of fn database/sql would ask whether the connection is bad.
		return nil
	})
	if raw != nil {
		return 0, d.failed(raw)
	}
	return n, failure
}

// canCopy tells whether the driver has COPY.
func (d *database) canCopy() (ok bool) {
	if d.kind != PostgreSQL {
		return false
	}
	err := d.conn.Raw(func(driver any) error {
		ok = copyMethod(driver, "CopyFrom").IsValid() && copyMethod(driver, "CopyTo").IsValid()
		return nil
	})
	return ok && err == nil
}

// copyMethod finds a method of the connection below; it is not valid if its form is another one.
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
