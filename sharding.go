package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// ShardingConfig says how rows are spread over shards. See [NewRouter].
type ShardingConfig struct {
	// Layout is the layout of the IDs. It must be the layout of the plugin that the databases use. The
	// zero Layout stands for that.
	Layout generator.Layout
	// Shards is the number of shards at the first start, from 1 to the size of the layout's sequence. It must
	// divide the number that the plugin spreads its IDs over evenly. With the default layout, every power of
	// two up to 256 does. For another number, pass [WithShards] to the plugin. It stays the same when package
	// resharding splits shards: from then on the records of the databases say where the shards are.
	Shards int
	// Databases are the databases of the shards, at least one. They may be of different kinds. All of them
	// must use the same plugin.
	Databases []*gorm.DB
	// Place returns the index of the database of a shard. The default is the shard modulo the number of
	// databases. NewRouter calls it once for each shard. Each database records which shards it has, and
	// NewRouter refuses a configuration that would look for them elsewhere.
	Place func(shard int) int
}

// Router spreads the rows of some models over tables and databases. The shard of a row is
//
//	(id & MaxSequence) % Shards
//
// For a power of two that is id % Shards, in SQL too. The table of shard 7 is orders_07. Package resharding
// splits, joins and moves single shards, whose tables then have other names, such as orders_07_g1. The same
// number decides on the table and on the database, so the rows spread over all combinations that exist.
//
// The models of a router share their shards. A row whose key is tagged
//
//	ID ID `gorm:"primaryKey" snowflake:"like:OrderID"`
//
// is colocated with the row that OrderID refers to: both are on the same shard. So joins, preloads,
// associations and transactions work within a shard as they do without a router. The router does not
// parse SQL. Its handles are ordinary *gorm.DB values that use other tables for the models. A statement on
// a sharded model that does not come from the router is refused with [ErrNotRouted].
//
// The methods are safe for concurrent use. If a method fails on some shards, it returns a [*PartialError]
// and no result of the others. The zero Router is not usable.
type Router struct{ r *router.Router }

// NewRouter returns a router for the models. Each is given as a pointer to a struct, such as &Order{}, or
// by [Broadcast]. The databases must already use the plugin, all the same one. NewRouter installs a
// callback on them that routes statements. It asks each database once for the number of shards and the
// places that are recorded there, and refuses other ones. In a database without records it looks at both
// ends of the tables that are there, and refuses rows of other shards. [Router.AutoMigrate] makes the tables.
//
// Like db.Use, it belongs in the start-up of a program. The error wraps [ErrSharding]. It lists all faults
// of the models at once.
func NewRouter(cfg ShardingConfig, models ...any) (*Router, error) {
	r, err := router.NewRouter(shardmap.Config{
		Layout: cfg.Layout, Shards: cfg.Shards, Databases: cfg.Databases, Place: cfg.Place, EngineOf: engineOf,
	}, models...)
	if err != nil {
		return nil, err
	}
	return &Router{r}, nil
}

// Broadcast marks a model for [NewRouter] that has the same rows in every database of the router, such as
// countries or prices, so that rows of every shard can be joined with them. Its table keeps its name.
// [Router.Create] and [Router.Each] write to all databases. A write to one of them alone is refused. Reads
// may use any.
func Broadcast(model any) any { return shardmap.Broadcast(model) }

// maxTries is how often something is done at the most that a cutover overtakes.
const maxTries = 8

// route calls do with the router of the shard map that is valid now. If a cutover comes in between, so
// that nothing was done, it calls do again.
func (r *Router) route(ctx context.Context, do func(current *router.Router) error) error {
	return repeat(ctx, r.r.At, do)
}

// repeat is route for a router that is had otherwise.
func repeat(
	ctx context.Context, get func(context.Context) (*router.Router, error),
	do func(current *router.Router) error,
) error {
	for try := 1; ; try++ {
		current, err := get(ctx)
		if err != nil {
			return err
		}
		if err = do(current); err == nil || try == maxTries {
			return publicError(err)
		}
		again, failed := current.Missed(ctx, err, try == 1)
		switch {
		case failed != nil:
			return errors.Join(publicError(err), failed)
		case !again && !errors.Is(err, errs.ErrShardMap):
			return publicError(err)
		}
	}
}

// Inner returns what the package resharding works on. It is of no use outside of this module.
func (r *Router) Inner() *router.Router { return r.r }

// Shards returns the number of shards, as this process has seen it last. Package resharding changes it.
func (r *Router) Shards() int { return r.r.Known().ShardCount }

// Scopes returns a router whose reads over several shards also go through fns, as with db.Scopes, so that
// they page, count or add up only some of the rows.
//
//	open := router.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("state = ?", "open") })
//	err := open.Latest(ctx, &orders, 50)
//
// Functions that set Group, Having, Distinct, Order, Limit, Offset, Raw or the name of a table are refused
// with gorm.ErrInvalidValue, because each shard would answer for itself, and so are those that leave out the
// key of the rows to read by Select or Omit. Handles of [Router.DB] are not affected.
func (r *Router) Scopes(fns ...func(*gorm.DB) *gorm.DB) *Router {
	return &Router{r.r.Scopes(fns...)}
}

// Shard returns the number of the shard where the row with that ID is, or would be. The error wraps
// [ErrInvalidID] for an ID that is zero or negative, that has more bits than the layout, or that was made
// so far in the future that it must come from another layout.
func (r *Router) Shard(id ID) (int, error) { return r.r.Known().Shard(int64(id)) }

// Table returns the name of the table where the model's row with that ID is, such as orders_07. The number
// has at least two digits. After a split, a join or a move the name is another one. A model marked by
// [Broadcast] has one table with its own name. The errors are those of [Router.Shard], and one wrapping
// [ErrNotSharded] for a model that the router does not know.
func (r *Router) Table(model any, id ID) (string, error) {
	return r.r.Known().TableOf(model, int64(id))
}

// DB returns a handle that is bound to the model, on the shard where the row with that ID is:
//
//	db, err := router.DB(ctx, &Order{}, id)
//	...
//	err = db.Preload("Items").First(&order, id).Error
//
// It is an ordinary handle for any number of statements. Rows that it creates without an ID get one on
// this shard. A key of another shard is an error that wraps [ErrCrossShard] wherever GORM holds it as a
// value: in a row, a struct, a map or a clause. So is a relation that may lead to other shards, in Preload,
// Joins, Association and nested rows. Other conditions, and conditions written as text, see only the rows of
// this shard. Your own SQL, by Raw and Exec, goes unchanged to the right database; [Router.Table] returns the
// name of the table, whose constraints refuse rows of other shards.
//
// The errors are those of [Router.Table]. If ctx belongs to a transaction of [Router.Transaction] on
// another shard, the error wraps ErrCrossShard.
func (r *Router) DB(ctx context.Context, model any, id ID) (*gorm.DB, error) {
	current, err := r.r.At(ctx)
	if err != nil {
		return nil, err
	}
	return current.Handle(ctx, model, int64(id))
}

// Create stores rows on their shards. It takes a pointer to a struct, a slice of structs or of pointers,
// or a pointer to such a slice. Rows without an ID get one. A single reservation serves all rows, so they
// are spread evenly. If the tag of the key says snowflake:"like:Field", the row goes to the shard of the
// row that the field refers to. Associations are created too, on the same shard.
//
// The rows of each database are stored in one transaction, and all transactions are committed when all
// are complete. An error before that means that nothing was stored. If a database does not confirm its
// commit, the error is a [*PartialError]. Its OK shards have their rows; the rows of its Failed shards may be
// stored or not, because the answer may be lost after the commit. The rows keep their IDs in every case, so
// look for those by [Router.Find] and create the missing ones again. One database comes after the other, in
// the order of ShardingConfig.Databases, so that two creates never wait for each other: list the databases in
// the same order in every program.
//
// For a row that belongs to no shard the error wraps [ErrNotSharded], [ErrInvalidID], [ErrCrossShard] or
// [ErrNoParent]. Otherwise it is the error of the generator or of a database.
func (r *Router) Create(ctx context.Context, rows any) error {
	// A commit that was not confirmed is a *PartialError of drivers, never of the shard map, so only what
	// was rolled back everywhere is done again.
	return r.route(ctx, func(current *router.Router) error { return current.Create(ctx, rows) })
}

// Find reads the rows with these IDs into dest, a pointer to a slice of structs or of pointers to structs.
// The rows are in the order of the IDs, and an ID that is passed twice has its row twice. Each database is
// asked once for every 5,000 of its IDs or, if [Router.Scopes] preload or have a subquery, each shard.
//
// If rows are missing, dest has the rows that were found, and the error is a [*MissingError]. If a shard
// fails, dest is empty, and the error is a [*PartialError]. For an invalid ID the error is that of
// [Router.Shard].
func (r *Router) Find(ctx context.Context, dest any, ids []ID) error {
	e := &MissingError{}
	err := r.route(ctx, func(current *router.Router) error {
		m, missing, err := current.Find(ctx, dest, numbersOf(ids))
		for _, id := range missing {
			e.Model, e.IDs = m.Base.Name, append(e.IDs, ID(id))
		}
		return err
	})
	if err == nil && len(e.IDs) > 0 {
		return e
	}
	return err
}

// Latest reads the newest rows of all shards into dest, a pointer to a slice, newest first. Of two rows
// the one with the greater ID is newer, so this needs no time column, and no index except the primary key.
//
// Each shard is asked for about twice its even part of the page, and those that have more of it once again.
// Rows that are written in between are in the page or not, as if each shard had been asked at a time of its
// own.
//
// The error wraps [ErrNotSharded], or gorm.ErrInvalidValue for a limit below 1 or another kind of dest. If
// a shard fails, dest is empty, and the error is a [*PartialError].
func (r *Router) Latest(ctx context.Context, dest any, limit int) error {
	return r.page(ctx, dest, router.Page{Descending: true, Limit: limit})
}

func (r *Router) page(ctx context.Context, dest any, p router.Page) error {
	return r.route(ctx, func(current *router.Router) error { return current.Page(ctx, dest, p) })
}

// Before is [Router.Latest] for rows that are older than the cursor. To read the next page, pass the ID of
// the last row of a page. Rows that are added meanwhile do not shift the pages, so no row is read twice or
// left out. The cursor need not be the ID of a row.
func (r *Router) Before(ctx context.Context, dest any, cursor ID, limit int) error {
	if cursor <= 0 {
		return fmt.Errorf("%w: the cursor %d: use Latest for the first page", ErrInvalidID, cursor)
	}
	return r.page(ctx, dest, router.Page{Descending: true, Limit: limit, Below: (*int64)(&cursor)})
}

// After is [Router.Latest] for rows that are newer than the cursor, oldest first. A cursor of 0 starts at
// the beginning. A row of an open transaction may appear later, when the cursor is already past it. To
// read every row exactly once, keep the cursor behind the present by at least your longest transaction.
func (r *Router) After(ctx context.Context, dest any, cursor ID, limit int) error {
	if cursor < 0 {
		return fmt.Errorf("%w: the cursor %d is negative", ErrInvalidID, cursor)
	}
	return r.page(ctx, dest, router.Page{Limit: limit, Above: (*int64)(&cursor)})
}

// Between reads all rows whose IDs were made at the earliest time or later, and before the limit, oldest
// first, however many there are. The errors are those of [Router.Latest] and of [generator.Layout.Range].
func (r *Router) Between(ctx context.Context, dest any, earliest, limit time.Time) error {
	first, end, err := r.r.Layout.Range(earliest, limit)
	if err != nil {
		return fmt.Errorf("snowflakeplugin: rows between %s and %s: %w", earliest.Format(time.RFC3339Nano),
			limit.Format(time.RFC3339Nano), err)
	}
	before := first - 1
	return r.page(ctx, dest, router.Page{Unlimited: true, Above: &before, Below: &end})
}

// Count returns the number of the model's rows on all shards. Different databases are not counted at the
// same instant. The error wraps [ErrNotSharded], or is a [*PartialError].
func (r *Router) Count(ctx context.Context, model any) (n int64, err error) {
	err = r.route(ctx, func(current *router.Router) (err error) {
		n, err = current.Count(ctx, model)
		return err
	})
	return n, err
}

// Aggregate computes a function of a column over all rows of the model: "sum", "min" or "max". It stores the
// value in dest, and returns false and leaves dest unchanged if there is none, because there are no rows or
// all of them have NULL. The column is named as in the model or in the table.
//
//	var gold int64
//	found, err := router.Aggregate(ctx, &Player{}, "sum", "Gold", &gold)
//
// A sum is stored in a *big.Rat, which is exact for whole and decimal numbers, a *int64, or a *float64; the
// least or greatest value in a pointer to a number, a string, a []byte or a time.Time. Strings of different
// shards are compared byte by byte. SQLite has no type for times and compares their texts within a shard, as
// its ORDER BY does.
//
// The errors are those of [Router.Count]. The error wraps gorm.ErrInvalidField for a column that the model
// does not have, and gorm.ErrInvalidValue for another function, if dest has another type, or if an int64
// cannot hold the sum.
func (r *Router) Aggregate(
	ctx context.Context, model any, function, column string, dest any,
) (found bool, err error) {
	err = r.route(ctx, func(current *router.Router) (err error) {
		found, err = current.Aggregate(ctx, model, function, column, dest)
		return err
	})
	return found, err
}

// Each calls fn for every shard with a handle that is bound to the model there. For a model marked by
// [Broadcast] it calls fn for every database instead, and shard is the index of the database. Up to eight
// calls run at the same time, so fn must be safe for that. If a call fails, the others still run. A call that
// panics or ends its goroutine has failed.
//
// The error wraps [ErrNotSharded], or is a [*PartialError]. When ctx ends, the shards whose calls had not
// begun are among the failed ones.
func (r *Router) Each(ctx context.Context, model any, fn func(shard int, tx *gorm.DB) error) error {
	current, err := r.r.At(ctx)
	if err != nil {
		return err
	}
	return publicError(current.Each(ctx, model, fn))
}

// AutoMigrate makes the tables of all models on all shards, or updates them, as db.AutoMigrate does for
// one table. Names that a model gives to indexes and checks get the number of the shard appended, because
// they must differ within a database. The tables of shards have no foreign keys: GORM derives those from
// models, not from shards, and one that led to another shard would refuse every row. It warns of tags such as
// constraint:OnDelete:CASCADE, which do nothing without one.
//
// It records the number of shards in the table snowflake_shards of each database, so that no router with
// another number can use these tables, and, before it makes them, in snowflake_models which tables
// belong together, so that no program that lacks one of them splits, joins or moves the others.
//
// It makes a table only while the map has its shard, nobody else makes one, and no cutover begins meanwhile:
// all of them take an advisory lock of PostgreSQL, or a lock of GET_LOCK on MySQL and MariaDB, which is an
// error wrapping [ErrSharding] if another process has had it for 10 s. So all replicas of a deployment may
// call it together. A call that finds all tables takes no lock. Nor does one that adds a column or an index
// to a table, because that may take long. If several programs do so, they look again for what another one has
// added.
//
// It may be called at every start. It first reads the shard map of every database, and makes nothing if one
// of them cannot be read: the error is that of the database. If shards fail later, it goes on with the others
// and returns a [*PartialError]. Models marked by [Broadcast] come first, and the first database that fails
// there ends the call.
func (r *Router) AutoMigrate(ctx context.Context) error {
	return repeat(ctx, r.r.Settled, func(current *router.Router) error { return current.AutoMigrate(ctx) })
}

// Check compares the tables of all shards with the models and with each other. It looks for missing
// tables, columns, indexes and constraints, and for columns whose types differ between tables of one kind
// of database. It changes nothing.
//
// If there are differences, the error wraps [ErrSharding] and names up to ten of them, with the table and
// what to do. It is a [*PartialError] if shards could not be examined, and that of a database whose shard map
// could not be read.
func (r *Router) Check(ctx context.Context) error {
	return repeat(ctx, r.r.Settled, func(current *router.Router) error { return current.CheckTables(ctx) })
}

// Distribution returns the number of rows of a model on each shard, in the order of their numbers. The errors
// are those of [Router.Count], and one wrapping [ErrNotSharded] for a model marked by [Broadcast].
func (r *Router) Distribution(ctx context.Context, model any) (rows []int64, err error) {
	err = r.route(ctx, func(current *router.Router) (err error) {
		rows, err = current.Distribution(ctx, model)
		return err
	})
	return rows, err
}

// ShardOf returns the shard to which the statement of a handle of the router goes, or -1 if it goes to
// several. It returns false for other handles. It is for callbacks and hooks of GORM that count, log or
// trace.
func (r *Router) ShardOf(tx *gorm.DB) (shard int, routed bool) {
	return r.r.Known().ShardOfStatement(tx)
}

// Explain says in a sentence where the row with an ID is: its shard, its database and the tables of the
// models there, and when and on which node the ID was made. The errors are those of [Router.Shard].
func (r *Router) Explain(id ID) (string, error) { return r.r.Known().Explain(int64(id)) }

// Transaction runs fn in a transaction on the shard where the row with that ID is. If fn returns nil, the
// transaction is committed. If fn returns an error or panics, it is rolled back. The transaction reaches
// all rows that are colocated by the tag snowflake:"like:Field". Any other row is an error that wraps
// [ErrCrossShard].
//
// The error is that of fn, of the database, or of [Router.Shard].
func (r *Router) Transaction(ctx context.Context, id ID, fn func(tx *ShardTx) error) error {
	current, err := r.r.At(ctx)
	if err != nil {
		return err
	}
	return current.Transaction(ctx, int64(id), func(tx *gorm.DB) error { return fn(&ShardTx{current, tx}) })
}

// ShardTx is a transaction on one shard. It is valid until the function that [Router.Transaction] has
// called returns, and must be used by one goroutine at a time.
type ShardTx struct {
	r  *router.Router
	tx *gorm.DB
}

// Shard returns the number of the transaction's shard.
func (t *ShardTx) Shard() int {
	shard, _ := t.r.ShardOfStatement(t.tx)
	return shard
}

// Context returns the context of the transaction. With this context, methods of the router refuse to use
// other shards. They still do not take part in the transaction.
func (t *ShardTx) Context() context.Context { return t.tx.Statement.Context }

// DB returns a handle of the transaction that is bound to the model. If the row with that ID is on another
// shard, the error wraps [ErrCrossShard].
func (t *ShardTx) DB(model any, id ID) (*gorm.DB, error) { return t.r.Bind(t.tx, model, int64(id)) }

// Gorm returns a handle of the transaction that is not bound to a model. Each statement goes to the table
// of its model on this shard.
func (t *ShardTx) Gorm() *gorm.DB { return t.tx.Session(&gorm.Session{}) }

// Create stores a row or a slice of rows. Rows without an ID get one on this shard. If the ID or the
// parent of a row is on another shard, the error wraps [ErrCrossShard].
func (t *ShardTx) Create(rows any) error {
	if _, err := t.r.ModelOf(rows); err != nil {
		return err
	}
	return t.Gorm().Create(rows).Error
}

// PartialError says on which shards a call succeeded and on which it failed. [errors.Is] and [errors.As]
// find the errors of the shards. For a model marked by [Broadcast], the numbers are those of databases.
type PartialError struct {
	// OK lists the shards that succeeded, in ascending order.
	OK []int
	// Failed has the error of each of the other shards.
	Failed map[int]error
}

// Error names the shards that failed. Shards with the same error are named together.
func (e *PartialError) Error() string { return (*shardmap.PartialError)(e).Error() }

// Is reports that the error lasts, whatever the shards say: some of them may have done what was asked, so
// [Retryable] is false.
func (e *PartialError) Is(target error) bool { return target == errs.ErrLasting }

// Unwrap returns the errors of the shards, in the order of their numbers.
func (e *PartialError) Unwrap() []error { return (*shardmap.PartialError)(e).Unwrap() }

// MissingError says which of the wanted rows do not exist. errors.Is(err, gorm.ErrRecordNotFound) holds
// for it.
type MissingError struct {
	// Model is the name of the model.
	Model string
	// IDs are those without a row, each once, in the order in which they were passed.
	IDs []ID
}

// Error names up to ten of the IDs.
func (e *MissingError) Error() string {
	return fmt.Sprintf("snowflakeplugin: rows are missing: %s with the ID %s", e.Model,
		errs.Listed(e.IDs, ", "))
}

// Unwrap returns gorm.ErrRecordNotFound.
func (e *MissingError) Unwrap() error { return gorm.ErrRecordNotFound }

// publicError converts the error of the internal package that is never wrapped there. What an error of the
// application wraps stays as it is.
func publicError(err error) error {
	if e, ok := err.(*shardmap.PartialError); ok { //nolint:errorlint // see above
		return (*PartialError)(e)
	}
	return err
}
