package gameworld

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
)

// Create makes the database of a server on db, which has none of its tables yet, and says what it
// has. It works on one connection of db, and leaves it as it was.
//
// It returns an error wrapping [ErrConfig], which has changed nothing, [ErrDatabase], or that of
// ctx. After the latter two, drop what was made.
func Create(ctx context.Context, db *sql.DB, kind Kind, cfg Config) (Summary, error) {
	if err := errors.Join(kind.validate(), cfg.validate()); err != nil {
		return Summary{}, err
	}
	m, err := newMint(ctx, cfg.Server)
	if err != nil {
		return Summary{}, err
	}
	b, err := newBuilder(cfg, m)
	if err != nil {
		return Summary{}, err
	}
	if err := b.create(ctx, db, kind); err != nil {
		return Summary{}, fmt.Errorf("gameworld: server %d: %w", cfg.Server, err)
	}
	return *b.summary, nil
}

// create makes the tables and their rows. No order of the tables suits a cycle of foreign keys, so
// nothing looks at them while rows are written: PostgreSQL gets them afterwards, and the others have
// a switch, which belongs to the connection.
func (b *builder) create(ctx context.Context, db *sql.DB, kind Kind) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: no connection: %w", ErrDatabase, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	restore, err := unchecked(ctx, conn, kind)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()

	d := b.ddl(kind)
	before, after := d.tables, slices.Concat(d.indexes, d.references)
	if kind == MySQL {
		before, after = slices.Concat(before, after), nil
	}
	if err := run(ctx, conn, before); err != nil {
		return err
	}
	for _, t := range b.tables() {
		l := newLoader(ctx, conn, kind, t)
		if err := l.end(b.fill(t.name, l.add)); err != nil {
			return err
		}
		b.summary.Rows[t.name] = l.written
	}
	return run(ctx, conn, after)
}

// run executes statements that make the schema.
func run(ctx context.Context, conn *sql.Conn, statements []string) error {
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%w: the database has to be without these tables: %.60q: %w", ErrDatabase, s, err)
		}
	}
	return nil
}

// unchecked switches off that the connection looks at foreign keys, and returns what puts that back.
func unchecked(ctx context.Context, conn *sql.Conn, kind Kind) (restore func() error, err error) {
	var read, set string
	switch kind {
	case SQLite:
		read, set = "PRAGMA foreign_keys", "PRAGMA foreign_keys = "
	case MySQL:
		read, set = "SELECT @@SESSION.foreign_key_checks", "SET SESSION foreign_key_checks = "
	default:
		return func() error { return nil }, nil
	}
	var before int
	if err := conn.QueryRowContext(ctx, read).Scan(&before); err != nil {
		return nil, fmt.Errorf("%w: whether it looks at foreign keys: %w", ErrDatabase, err)
	}
	if _, err := conn.ExecContext(ctx, set+"0"); err != nil {
		return nil, fmt.Errorf("%w: looking at foreign keys could not be switched off: %w", ErrDatabase, err)
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), set+string(rune('0'+before)))
		if err == nil {
			return nil
		}
		// Nobody should get this connection again.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return fmt.Errorf("%w: looking at foreign keys could not be switched on again: %w", ErrDatabase, err)
	}, nil
}
