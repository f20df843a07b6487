package reshard

import (
	"context"
	"database/sql"

	"gorm.io/gorm"
)

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

// traits are what differs in words. The queries ask the catalog about one table, as by [dialect.Kind.About].
type traits struct {
	set, reset string             // statements for a session, and to undo them
	isolation  sql.IsolationLevel // of transactions
	begin      []string           // statements of a transaction whose values go to another database
	counted    string             // the type of the number of an entry in the list of keys
	ending     string             // of a query of the catalog
	product    string             // a query for a number that tells apart what describes tables in other words
	// transactional means that a transaction takes back what it has done to tables and names.
	transactional bool
	// confined means that a connection which has locked tables may use no others.
	confined bool
	// lateKeys means that the new tables get their foreign keys at the cutover, not validated. Elsewhere they
	// have them from the beginning, and a session does not check them.
	lateKeys bool

	triggerList string // asks for the names of the triggers, but for those that are switched off
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
