package merge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// lock makes sure that nobody else works on the target, and returns what ends that. The lock belongs to a
// connection of its own, so that it ends with the process, however that ends.
func (m *Merge) lock(ctx context.Context) (func() error, error) {
	t := m.target
	conn, err := t.pool.Conn(ctx)
	if err != nil {
		return nil, t.failed(err)
	}
	l := &database{name: t.name, kind: t.kind, conn: conn, pool: t.pool}
	sum := sha256.Sum256([]byte("merge " + t.catalog))
	free := func() error { return nil }
	switch t.kind {
	case PostgreSQL:
		key := int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // any bits will do
		free, err = l.lockBy(ctx, newStatement(t.kind, "SELECT pg_try_advisory_lock(").bind(key).add(")::int"),
			newStatement(t.kind, "SELECT pg_advisory_unlock(").bind(key).add(")"))
	case MySQL:
		name := fmt.Sprintf("merge_%x", sum[:16])
		free, err = l.lockBy(ctx, newStatement(t.kind, "SELECT COALESCE(GET_LOCK(").bind(name).add(", 0), 0)"),
			newStatement(t.kind, "DO RELEASE_LOCK(").bind(name).add(")"))
	case SQLite:
		free, err = l.lockFile(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error { return errors.Join(free(), conn.Close()) }, nil
}

// lockBy asks the server for a lock.
func (d *database) lockBy(ctx context.Context, take, release *statement) (func() error, error) {
	n, err := d.number(ctx, take)
	if err != nil {
		return nil, err
	}
	if n != 1 {
		return nil, ErrLocked
	}
	return func() error {
		return d.exec(context.WithoutCancel(ctx), release.String(), release.args...)
	}, nil
}

// lockFile holds a transaction open in a file beside the database, whose lock ends with the process. The
// file itself stays: to remove it could mean to remove the lock of somebody else.
func (d *database) lockFile(ctx context.Context) (func() error, error) {
	var path string
	if err := d.row(ctx, newStatement(SQLite,
		"SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'"),
		&path); err != nil {
		return nil, err
	}
	if path == "" { // in memory, where no other process is
		return func() error { return nil }, nil
	}
	attach := newStatement(SQLite, "ATTACH DATABASE ").bind(path + "-merge-lock").add(" AS merge_lock")
	if _, err := d.run(ctx, attach); err != nil {
		return nil, err
	}
	release := func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(d.exec(ctx, "ROLLBACK"), d.exec(ctx, "DETACH DATABASE merge_lock"))
	}
	for _, text := range []string{
		"PRAGMA busy_timeout = 0", "BEGIN", "CREATE TABLE IF NOT EXISTS merge_lock.held (by INTEGER)",
		"INSERT INTO merge_lock.held VALUES (1)",
	} {
		if err := d.exec(ctx, text); err != nil {
			if text != "PRAGMA busy_timeout = 0" && text != "BEGIN" && strings.Contains(err.Error(), "locked") {
				err = ErrLocked
			}
			return nil, errors.Join(err, ignore(release()))
		}
	}
	return release, nil
}

// ignore is for what is done on the way out of a failure that has been reported.
func ignore(error) error { return nil }
