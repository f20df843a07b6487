package gameworld

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// rowsPerCommit keeps transactions to a length that every database undoes with ease.
const rowsPerCommit = 100_000

// loader writes rows of one table: many in a statement, many statements in a transaction.
type loader struct {
	ctx context.Context
	// endless is for transactions. With a context that ends, one would be undone behind the loader's
	// back, perhaps only after the connection has gone on to something else.
	endless context.Context
	conn    *sql.Conn
	kind    Kind
	table   table
	names   []string

	tx      *sql.Tx
	full    *sql.Stmt // of the transaction: an INSERT of batch rows
	batch   int
	values  []any // of the rows that wait for it
	pending int   // rows in the transaction
	written int64
}

func newLoader(ctx context.Context, conn *sql.Conn, kind Kind, t table) *loader {
	l := &loader{ctx: ctx, endless: context.WithoutCancel(ctx), conn: conn, kind: kind, table: t}
	for _, c := range t.columns {
		if c.form == formAuto {
			continue // the database has it
		}
		l.names = append(l.names, c.name)
	}
	l.batch = kind.rowsPerStatement(len(l.names))
	l.values = make([]any, 0, l.batch*len(l.names))
	return l
}

// add writes a row, sooner or later.
func (l *loader) add(row ...any) error {
	l.values = append(l.values, row...)
	l.written++
	if len(l.values) < l.batch*len(l.names) {
		return nil
	}
	return l.flush()
}

// flush sends the rows that wait.
func (l *loader) flush() (err error) {
	rows := len(l.values) / len(l.names)
	if rows == 0 {
		return nil
	}
	if l.tx == nil {
		if l.tx, err = l.conn.BeginTx(l.endless, nil); err != nil {
			return l.failed(err)
		}
	}
	if rows == l.batch {
		if l.full == nil {
			insert := l.kind.insert(l.table.name, l.names, rows)
			if l.full, err = l.tx.PrepareContext(l.ctx, insert); err != nil {
				return l.failed(err)
			}
		}
		_, err = l.full.ExecContext(l.ctx, l.values...)
	} else {
		_, err = l.tx.ExecContext(l.ctx, l.kind.insert(l.table.name, l.names, rows), l.values...)
	}
	if err != nil {
		return l.failed(err)
	}
	l.values = l.values[:0]
	if l.pending += rows; l.pending >= rowsPerCommit {
		return l.commit()
	}
	return nil
}

func (l *loader) commit() error {
	if l.tx == nil {
		return nil
	}
	err := l.tx.Commit() // which closes its statements
	l.tx, l.full, l.pending = nil, nil, 0
	if err != nil {
		return l.failed(err)
	}
	return nil
}

// end writes what is left, unless the rows could not all be made.
func (l *loader) end(err error) error {
	if err == nil {
		err = l.flush()
	}
	if err == nil {
		err = l.commit()
	}
	if l.tx != nil {
		err = errors.Join(err, l.tx.Rollback())
	}
	return err
}

func (l *loader) failed(err error) error {
	return fmt.Errorf("%w: rows of %s could not be written: %w", ErrDatabase, l.table.name, err)
}
