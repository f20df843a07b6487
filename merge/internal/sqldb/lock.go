package sqldb

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// ignore drops the error of cleaning up after a failure that is reported itself.
func ignore(error) error { return nil }

// Lock makes sure that no other run works on this database, and returns the function that releases the lock.
// The lock belongs to a connection of its own, so the database releases it when the process dies. If another
// run holds it, the error is [ErrLocked].
func Lock(ctx context.Context, d *DB) (func() error, error) {
	conn, err := d.pool.Conn(ctx)
	if err != nil {
		return nil, d.failed(err)
	}
	l := &DB{Name: d.Name, Kind: d.Kind, conn: conn, pool: d.pool}
	sum := sha256.Sum256([]byte("merge " + d.Catalog))
	free := func() error { return nil }
	switch d.Kind {
	case PostgreSQL:
		key := int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any bits will do
		free, err = lockBy(ctx, l, NewStatement(d.Kind, "SELECT pg_try_advisory_lock(").Bind(key).Add(")::int"),
			NewStatement(d.Kind, "SELECT pg_advisory_unlock(").Bind(key).Add(")"))
	case MySQL:
		name := fmt.Sprintf("merge_%x", sum[:16])
		// The connection of a run that was killed may end a little later.
		free, err = lockBy(ctx, l, NewStatement(d.Kind, "SELECT COALESCE(GET_LOCK(").Bind(name).Add(", 5), 0)"),
			NewStatement(d.Kind, "DO RELEASE_LOCK(").Bind(name).Add(")"))
	case SQLite:
		free, err = lockFile(ctx, l)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error { return errors.Join(free(), conn.Close()) }, nil
}

// lockBy takes a lock of the server.
func lockBy(ctx context.Context, d *DB, take, release *Statement) (func() error, error) {
	n, err := d.Number(ctx, take)
	if err != nil {
		return nil, err
	}
	if n != 1 {
		return nil, ErrLocked
	}
	return func() error {
		return d.Exec(context.WithoutCancel(ctx), release.String(), release.Args...)
	}, nil
}

// lockFile holds a transaction open in a file beside the database; its lock ends with the process. The file
// is never removed, because another process may hold its lock by then.
func lockFile(ctx context.Context, d *DB) (func() error, error) {
	var path string
	if err := d.Row(ctx, NewStatement(SQLite,
		"SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'"),
		&path); err != nil {
		return nil, err
	}
	if path == "" { // no other process can open a database in memory
		return func() error { return nil }, nil
	}
	attach := NewStatement(SQLite, "ATTACH DATABASE ").Bind(path + "-merge-lock").Add(" AS merge_lock")
	if _, err := d.Run(ctx, attach); err != nil {
		return nil, err
	}
	release := func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(d.Exec(ctx, "ROLLBACK"), d.Exec(ctx, "DETACH DATABASE merge_lock"))
	}
	for _, text := range []string{
		"PRAGMA busy_timeout = 0", "BEGIN", "CREATE TABLE IF NOT EXISTS merge_lock.held (by INTEGER)",
		"INSERT INTO merge_lock.held VALUES (1)",
	} {
		if err := d.Exec(ctx, text); err != nil {
			if text != "PRAGMA busy_timeout = 0" && text != "BEGIN" && strings.Contains(err.Error(), "locked") {
				err = ErrLocked
			}
			return nil, errors.Join(err, ignore(release()))
		}
	}
	return release, nil
}
