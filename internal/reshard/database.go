package reshard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// journalTable is in every database that has new tables. It has one row for each move into them, and in the
// database of the first entry one for the job.
const journalTable = "snowflake_copies"

// database is one of the databases of a job. Its statements go to the pool itself and past GORM, so no
// callback, no replica and no prepared statement comes in between.
type database struct {
	dialect.Dialect
	engine
	traits
	db      *gorm.DB
	pool    *sql.DB
	journal string // the quoted name of the journal
	apart   bool   // another database of the job is beside it
}

func openDatabase(db *gorm.DB) (*database, error) {
	d := &database{db: db, journal: db.Statement.Quote(db.NamingStrategy.TableName(journalTable))}
	d.Dialect, _ = dialect.Of(db.Name())
	switch d.Kind {
	case dialect.PostgreSQL:
		d.engine, d.traits = postgres{usual{d}}, postgresTraits()
	case dialect.MySQL:
		d.engine, d.traits = mysql{usual{d}}, mysqlTraits()
	case dialect.SQLite:
		d.engine, d.traits = sqlite{usual{d}}, sqliteTraits()
	}
	var err error
	if d.pool, err = db.DB(); err != nil || d.engine == nil {
		return nil, fmt.Errorf("%w: a resharding needs a *sql.DB of PostgreSQL, MySQL, MariaDB or SQLite behind "+
			"the *gorm.DB, and there is none: %w", errs.ErrSharding, err)
	}
	return d, nil
}

// handle returns a handle of GORM whose statements go to a connection or transaction.
func (d *database) handle(ctx context.Context, q gorm.ConnPool) *gorm.DB {
	tx := d.db.Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
	tx.Statement.ConnPool = q
	return tx
}

// onConnection calls do with one connection. Between two databases, values go as texts, whose form must not
// depend on the settings of a session: a time without its zone would be another one, and a letter that the
// character set lacks a question mark. A limit on the rows of a SELECT would leave rows out. So the sessions
// are set alike.
func (d *database) onConnection(ctx context.Context, do func(c *sql.Conn) error) (err error) {
	c, err := d.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if d.set == "" {
		return do(c)
	}
	if err := run(ctx, c, d.set); err != nil {
		return err
	}
	defer func() {
		if e := run(context.WithoutCancel(ctx), c, d.reset); e != nil {
			// The pool must not give out a connection that checks nothing.
			_ = c.Raw(func(any) error { return driver.ErrBadConn })
		}
	}()
	return do(c)
}

// transaction runs a transaction on a connection of its own.
func (d *database) transaction(ctx context.Context, do func(q gorm.ConnPool) error) error {
	return d.onConnection(ctx, func(c *sql.Conn) error { return d.begun(ctx, c, do) })
}

func (d *database) begun(ctx context.Context, c *sql.Conn, do func(q gorm.ConnPool) error) error {
	return dialect.Transact(ctx, c, &sql.TxOptions{Isolation: d.isolation}, func(tx *sql.Tx) (err error) {
		if d.apart {
			err = run(ctx, tx, d.begin...)
		}
		if err == nil {
			err = do(tx)
		}
		return err
	})
}

// make makes a table unless it is there. Of several transactions of PostgreSQL that make one at the same
// time, all but one fail, and then it is there.
func (d *database) make(ctx context.Context, statement string) error {
	err := run(ctx, d.pool, statement)
	if err != nil {
		err = run(ctx, d.pool, statement)
	}
	return err
}

func run(ctx context.Context, q gorm.ConnPool, statements ...string) error {
	for _, statement := range statements {
		if _, err := q.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, q gorm.ConnPool, s *dialect.SQL) error {
	_, err := q.ExecContext(ctx, s.String(), s.Args...)
	return err
}

// number reads one number. NULL is 0.
func number(ctx context.Context, q gorm.ConnPool, query string, args ...any) (int64, error) {
	var n sql.NullInt64
	err := q.QueryRowContext(ctx, query, args...).Scan(&n)
	return n.Int64, err
}

func numbers(ctx context.Context, q gorm.ConnPool, query string) (list []int64, err error) {
	_, rows, err := dialect.Query[[]int64](ctx, q, query)
	for _, row := range rows {
		list = append(list, row[0])
	}
	return list, err
}

// beside returns the name of another table in the schema of a table.
func beside(table, name string) string {
	if space, _ := dialect.Split(table); space != "" {
		return space + "." + name
	}
	return name
}

// bare returns the name of a table without its schema.
func bare(table string) string {
	_, name := dialect.Split(table)
	return name
}

// shorten puts an end behind a name.
func shorten(name, end string) string {
	return dialect.Abridged(name, name, dialect.MaxName-len(end)) + end
}

func list(keys []int64) string {
	var b strings.Builder
	for i, key := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(key, 10))
	}
	return b.String()
}

// A job copies the columns that the table has, which is not what the model may read and write. So rows are
// read and written by SQL of its own, in a form that no driver rounds or converts.

// column is a column that can be written to.
type column struct {
	name string
	kind string // the type, as the catalog names it
}

// columnsOf reads the columns of a table from the catalog, without those that the database computes.
func (d *database) columnsOf(
	ctx context.Context, q gorm.ConnPool, table string,
) (columns []column, err error) {
	rows, err := d.Ask(ctx, q, table, d.columns)
	for _, row := range rows {
		columns = append(columns, column{row[0], strings.ToLower(row[1])})
	}
	if err == nil && columns == nil {
		err = fmt.Errorf("%w: the table %s is not there", errs.ErrSharding, table)
	}
	return columns, err
}

// engine is what a kind of database does in its own way. There are three: postgres, mysql and sqlite.
type engine interface {
	// exactly returns an expression for the exact value of a column, and whether that is text.
	exactly(c column, table string) (read string, isText bool)
	// same is the condition that all columns of two rows are the same, byte for byte, and NULL is a value.
	same(mv *move, this, that string) string
	// unlessTaken returns how an INSERT begins and ends that leaves out rows whose unique values are taken.
	unlessTaken(mv *move) (begin, end string)

	// checkRight refuses servers on which no cutover is safe, and a login that may not make triggers.
	checkRight(ctx context.Context, s *side) error
	// triggers returns the triggers of a table that list the keys of the rows that are written.
	triggers(t *table) []trigger
	// makeTrigger makes one of them, for which the database waits until all transactions have ended that have
	// written to the table, prepared ones too.
	makeTrigger(ctx context.Context, t *table, made trigger) error
	// dropTriggers returns the statements that remove them.
	dropTriggers(t *table) []string
	// strike returns the statement that removes entries from a list of keys. It must not read the whole list
	// for that, which would wait for transactions that have added to it and have not ended.
	strike(keys string, numbers []int64) string

	// alter changes a table that is in use. It gives up if it has to wait.
	alter(ctx context.Context, t *table, statements []string) error
	// lock locks tables, and calls do. It gives up if it has to wait. Where a transaction has the lock, it is
	// committed after do.
	lock(ctx context.Context, c *sql.Conn, tables []string, do func(q gorm.ConnPool) error) error
	// underLock runs a transaction on a connection that lock has given.
	underLock(ctx context.Context, q gorm.ConnPool, do func() error) error
	// inTheWay says whose transactions are open, as far as the login may know it.
	inTheWay(ctx context.Context, s *side) string
	// rename returns the statements that give a table another name.
	rename(quoted, name string) []string

	// facts describes the columns, the indexes and the constraints of a table, without the rule of its shard,
	// and without foreign keys that come late.
	facts(ctx context.Context, q gorm.ConnPool, t *table) ([]string, error)
	// foreignKeys returns the foreign keys of a table, sorted by their names.
	foreignKeys(ctx context.Context, q gorm.ConnPool, t *table) ([]foreignKey, error)
	// counters returns the columns of a table that the database counts, and how far it has come.
	counters(ctx context.Context, q gorm.ConnPool, t *table) ([][]string, error)
	// count lets a column be counted from a number on.
	count(ctx context.Context, q gorm.ConnPool, quoted, column string, number int64) error
}

// usual is what most engines do. Each of them embeds it, and has methods of its own for what it does in
// another way.
type usual struct{ *database }

// checkRight refuses nobody: the owner may make triggers, and it is an obstacle if the login is not.
func (usual) checkRight(context.Context, *side) error { return nil }

func (usual) makeTrigger(ctx context.Context, t *table, made trigger) error {
	return alter(ctx, t, made.create)
}

func (usual) dropTriggers(t *table) (drops []string) {
	for _, one := range t.side.d.triggers(t) {
		drops = append(drops, "DROP TRIGGER IF EXISTS "+t.side.d.Quoted(beside(t.Name, one.name)))
	}
	return drops
}

func (usual) strike(keys string, numbers []int64) string {
	return "DELETE FROM " + keys + " WHERE n IN (" + list(numbers) + ")"
}

func (usual) underLock(_ context.Context, _ gorm.ConnPool, do func() error) error { return do() }

func (u usual) rename(quoted, name string) []string {
	return []string{"ALTER TABLE " + quoted + " RENAME TO " + u.Quote(bare(name))}
}

// traits are what differs in words. The queries ask the catalog about one table, as by [dialect.Kind.Ask].
type traits struct {
	set, reset string             // statements for a session, and to undo them
	isolation  sql.IsolationLevel // of transactions
	begin      []string           // statements of a transaction whose values go to another database
	counted    string             // the type of the number of an entry in the list of keys
	product    string             // a query for a number that tells apart what describes tables in other words
	// transactional means that a transaction takes back what it has done to tables and names.
	transactional bool
	// confined means that a connection which has locked tables may use no others.
	confined bool
	// lateKeys means that the new tables get their foreign keys at the cutover, not validated. Elsewhere they
	// have them from the beginning, and a session does not check them.
	lateKeys bool

	triggerList string // asks for the names of the triggers that are not switched off, and when they run
	columns     string // asks for the columns that the database does not compute, and their types
	extras      string // makes the statements that give another table the owner, rights and options of this one
	validKeys   string // asks for the names of the foreign keys that are valid, if lateKeys
	// obstacles are what a table may not have, or nobody may have on it. Each is what to do about it, and a
	// query for what it is, for the name of a trigger, and for the table beside this one with a foreign key.
	obstacles [][2]string
}

// What to do about an obstacle.
const (
	dropFirst = "it would stay with the old table: drop it first, and make it again on the new table of %s"
	notTaken  = "the new table would not have it: remove it from %s first"
	cascades  = "what it does to rows runs no trigger, so these changes would be lost: drop it first, or " +
		"make it RESTRICT"
	notOwned = "only he may rename it: run the resharding as a member of that role"
)
