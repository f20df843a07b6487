package fill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Notes knows in which schemas of which databases it is noted where the IDs of their rows come from, and
// notes it in others before the first row gets an ID there. The handles of a configuration may lead to
// several databases: dbresolver sets the pool of each statement. Its methods are safe for concurrent use.
type Notes struct {
	write   func(context.Context, Destination) (schemas []string, err error)
	numbers NumbersNote
	mu      sync.RWMutex
	// schemas are those that are noted, and tables those whose schema is, or whose columns with numbers of
	// named sources are.
	schemas, tables map[inPool]struct{}
	// inTx and inConn are where a transaction and a connection of database/sql keep their pool; nil if they do
	// not.
	inTx, inConn []int
	asking       sync.Mutex // held while a transaction is asked where a table lies
}

// inPool is a schema or a table of a database.
type inPool struct {
	pool *sql.DB
	name string
	// numbered tells the columns with numbers of a table, and their sources; empty if it is about its schema.
	numbered string
}

// maxTables bounds how many tables are remembered: a program may make names without end.
const maxTables = 1 << 16

// Destination is where the rows of a statement go.
type Destination struct {
	Dialect string
	// Pool is nil for the database that gorm.Open was given.
	Pool *sql.DB
	// Schema is empty for the default one of the connections. On MySQL it is a database, and on SQLite one that
	// is attached.
	Schema string
	// Pinned means that the caller has a connection of the pool, perhaps in a transaction, until the note is
	// written or refused.
	Pinned bool
	// Conn is what the statement runs on.
	Conn gorm.ConnPool
}

// NumbersNote notes where the numbers of columns come from. lasts reports whether that is noted for good, and
// not only as long as a transaction is not rolled back.
type NumbersNote func(
	ctx context.Context, d Destination, table string, columns []Numbered,
) (lasts bool, err error)

// NewNotes returns notes of no database yet. The function write notes where keys come from, and may do so
// twice. It returns the schemas of the pool that have their notes now. It is nil if nothing is noted.
func NewNotes(
	write func(context.Context, Destination) (schemas []string, err error),
	numbers NumbersNote,
) *Notes {
	return &Notes{
		write: write, numbers: numbers,
		schemas: map[inPool]struct{}{}, tables: map[inPool]struct{}{},
		inTx: poolField(reflect.TypeFor[sql.Tx]()), inConn: poolField(reflect.TypeFor[sql.Conn]()),
	}
}

func poolField(owner reflect.Type) []int {
	if field, found := owner.FieldByName("db"); found && field.Type == reflect.TypeFor[*sql.DB]() {
		return field.Index
	}
	return nil
}

// Add says that schemas of a database have their notes.
func (n *Notes) Add(pool *sql.DB, schemas ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, schema := range schemas {
		n.schemas[inPool{pool: pool, name: schema}] = struct{}{}
	}
}

func (n *Notes) has(set map[inPool]struct{}, element inPool) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, is := set[element]
	return is
}

// ensure notes in the schema of the table of a statement where its IDs come from, and from which counters its
// columns get numbers, unless that is known to be noted.
func (n *Notes) ensure(db *gorm.DB, plan *Plan) error {
	stmt := db.Statement
	pool, pinned := n.poolOf(stmt.ConnPool)
	table := inPool{pool: pool, name: stmt.Table} // as the statement names it
	if stmt.TableExpr != nil {
		table.name = stmt.TableExpr.SQL
	}
	numbered := inPool{pool, table.name, plan.numbered}
	constant := stmt.TableExpr == nil || len(stmt.TableExpr.Vars) == 0
	keysKnown := n.write == nil || constant && n.has(n.tables, table)
	numbersKnown := plan.numbered == "" || constant && n.has(n.tables, numbered)
	if db.DryRun || keysKnown && numbersKnown {
		return nil
	}
	where, err := n.locate(db, pool)
	if err != nil {
		return err
	}
	d := Destination{db.Name(), pool, where.schema, pinned, stmt.ConnPool}
	if !keysKnown && !where.temporary && !n.has(n.schemas, inPool{pool: pool, name: where.schema}) {
		schemas, err := n.write(stmt.Context, d)
		if err != nil {
			return err
		}
		n.Add(pool, where.schema)
		n.Add(pool, schemas...)
	}
	if where.known {
		n.remember(table)
	}
	if numbersKnown || where.table == "" || !where.known {
		return nil
	}
	lasts := true
	if !where.temporary {
		lasts, err = n.numbers(stmt.Context, d, where.table, plan.numberedColumns())
	}
	if err == nil && lasts {
		n.remember(numbered)
	}
	return err
}

func (n *Notes) remember(table inPool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.tables) >= maxTables {
		clear(n.tables)
	}
	n.tables[table] = struct{}{}
}

// location is where a table lies.
type location struct {
	table            string // without its schema; empty if nothing tells
	schema           string // empty for the default one of the connections
	temporary, known bool
}

// locate finds out where the table of a statement lies. On PostgreSQL it asks, and elsewhere the name tells
// it.
func (n *Notes) locate(db *gorm.DB, pool *sql.DB) (where location, err error) {
	stmt := db.Statement
	d, known := dialect.Of(db.Name())
	if !known {
		return location{known: true}, nil
	}
	named := &gorm.Statement{DB: db, Context: stmt.Context, Table: stmt.Table, TableExpr: stmt.TableExpr}
	named.WriteQuoted(clause.Table{Name: clause.CurrentTable})
	parts := d.Parts(named.SQL.String())
	if len(parts) == 0 { // no database inserts rows there
		return where, nil
	}
	where.table = parts[len(parts)-1]
	if len(parts) > 1 {
		where.schema = parts[len(parts)-2]
	}
	query, args := d.SchemaOf(d.QuoteParts(parts))
	if query == "" {
		where.known = true
		if d.Embedded() {
			where.schema, where.table = strings.ToLower(where.schema), strings.ToLower(where.table)
			where.temporary = where.schema == "temp"
			if where.schema == "main" {
				where.schema = ""
			}
		}
		return where, nil
	}
	ctx := orBackground(stmt.Context)
	// A transaction is asked last, because goroutines may share it, and its connection serves one of them at a
	// time. But it has the only connection of some pools, and alone knows what it has made and which search
	// path it has set.
	if pool != nil && InTransaction(stmt.ConnPool) {
		if s := pool.Stats(); s.MaxOpenConnections <= 0 || s.InUse < s.MaxOpenConnections {
			limited, cancel := context.WithTimeout(ctx, askTimeout)
			where, _ = ask(limited, pool, where, query, args) // If it fails, the transaction is asked.
			cancel()
		}
	}
	if !where.known {
		if InTransaction(stmt.ConnPool) {
			n.asking.Lock()
			defer n.asking.Unlock()
		}
		// It has as long as the INSERT, which comes next, and a question that is broken off would end a
		// transaction.
		where, err = ask(ctx, stmt.ConnPool, where, query, args)
	}
	if err != nil {
		return where, fmt.Errorf("finding the schema of the table %s: %w", stmt.Table, err)
	}
	return where, nil // If it is not known, the INSERT will say that there is no such table.
}

// ask asks a connection where a table lies.
func ask(
	ctx context.Context, pool gorm.ConnPool, where location, query string, args []any,
) (location, error) {
	var kind string
	switch err := pool.QueryRowContext(ctx, query, args...).Scan(&where.schema, &kind); {
	case errors.Is(err, sql.ErrNoRows):
		return where, nil
	case err != nil && ctx.Err() != nil:
		return where, errs.Ended(ctx)
	case err != nil:
		return where, err
	}
	where.known, where.temporary = true, kind == "t"
	return where, nil
}

// poolOf returns the pool of database/sql on which a statement runs, or nil if nothing tells it, and whether
// the statement has one of its connections already. A transaction belongs to a pool as well, but database/sql
// keeps it to itself.
func (n *Notes) poolOf(pool gorm.ConnPool) (found *sql.DB, pinned bool) {
	switch p := pool.(type) {
	case *sql.DB:
		return p, false
	case *gorm.PreparedStmtDB:
		return n.poolOf(p.ConnPool)
	case *gorm.PreparedStmtTX:
		return n.poolOf(p.Tx)
	case *sql.Tx:
		if p != nil && n.inTx != nil {
			return (*sql.DB)(reflect.ValueOf(p).Elem().FieldByIndex(n.inTx).UnsafePointer()), true
		}
	case *sql.Conn:
		if p != nil && n.inConn != nil {
			return (*sql.DB)(reflect.ValueOf(p).Elem().FieldByIndex(n.inConn).UnsafePointer()), true
		}
	case gorm.GetDBConnector:
		if db, err := p.GetDBConn(); err == nil {
			return db, InTransaction(pool)
		}
	}
	return nil, false
}
