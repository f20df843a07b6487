// Package snowflakeplugin gives every row that GORM creates a unique, time-ordered 64-bit key,
// made in the program and set before the INSERT.
//
// A field asks for one by its tag, and the plugin is put to use once:
//
//	type Order struct {
//		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
//		Total int64
//	}
//
//	plugin := snowflakeplugin.New() // leases a node number from this very database
//	if err := db.Use(plugin); err != nil {
//		return err
//	}
//	defer plugin.Close(context.Background()) // gives it back
//
//	order := Order{Total: 990}
//	err := db.Create(&order).Error // order.ID is set
//
// An [ID] holds the time of its making, the number of the node that made it, and a sequence
// number; package generator says which bits are which, and makes IDs without GORM. Do not overlook
// the error of db.Use: after a failure every create that needs an ID is refused.
//
// # What is filled, and when
//
// A field is filled if its tag says snowflake:"true" (any true boolean will do), if it is a column
// that the INSERT writes, and if it is zero. A value that is set stays. The field need not be the
// key, and a model may have several. Its type is ID, int64, int, uint64, uint (where those have 64
// bits), string (of decimal digits) or []byte (of eight, big-endian), a type made of one of them,
// a pointer to one, or a wrapper such as sql.Null[ID]; a pointer to zero counts as set. Other
// types, and a declared size that is too small, are an error that names model and field.
//
// Filled are structs, slices and arrays of structs or pointers, and maps together with Model, by
// Create, CreateInBatches, Save, FirstOrCreate, the generics API and associations of every kind and
// depth. All rows of a statement share one reservation. Maps are filled under the key that they
// have for the column, or under the column's name.
//
// It happens before GORM begins the transaction and before BeforeSave and BeforeCreate run. Hooks
// see the ID and may replace it; one that a hook sets to zero is filled again. SkipHooks changes
// nothing. Select without the primary key sends the key all the same; a tagged column that is left
// out, by Omit, by Select or because it is read-only, gets no ID. Foreign keys, and join tables
// that GORM makes up, are left alone even if their fields carry the tag.
//
// Not filled is what has no model or runs no create callback: db.Exec, db.Table(name).Create of a
// map, COPY, other programs. Use [Plugin.NextID] there. DryRun and ToSQL use up an ID for each row.
//
// # Upserts
//
// With ON CONFLICT, the ID that was made may end up in no row. The plugin then asks the database
// which row each element has become, in the same transaction if there is one, and puts that row's
// ID into the struct or map. Where it cannot tell, because the conflict was with a unique key that
// the model does not declare, the field is zero: never an ID that is in no row. This costs a query
// where the answer of the INSERT leaves a doubt. On MySQL and MariaDB it always does, also for
// associations, which GORM writes that way; and where no other way is left it looks with FOR UPDATE,
// which can hold up inserts of others. Behind gorm.io/sharding nothing can be asked, so there the
// struct keeps what was generated.
//
// An update of all columns (UpdateAll, Save of a slice) does not write fresh IDs over stored ones
// in columns beside the key. DoUpdates does what it says. Save of one struct that has its key is an
// UPDATE, not a create: it writes every field, a zero ID in another column included. Tag such a
// column gorm:"<-:create".
//
// # Errors
//
// Nothing is written when an ID cannot be had, and the error says why: [ErrNoNode], [ErrOptions],
// [ErrInvalidField], [ErrNotInUse], [ErrSource], [ErrClosed], those of package generator, such as
// generator.ErrClockBehind when the clock was set back too far, and those of the context.
// gorm.ErrInvalidData means a map that cannot take an ID.
//
// After a failed create all IDs that it generated are zero again, in the whole tree of
// associations, so that the structs can be tried again. IDs stay in structs whose rows may be in
// the database: after a failed COMMIT, when the caller rolls a transaction of his own back, in
// earlier batches of CreateInBatches, and, without any transaction, in rows that were written
// before the one that failed.
//
// # Nodes
//
// By default the plugin leases its node number from the database that it is used on. The table
// snowflake_nodes, made on first use, has a record for every number; a number comes with a window
// of time that nobody else can have, which is extended in the background and given back by
// [Plugin.Close]. [WithLease] sets how long windows are, which numbers may be taken, or another
// store; package lease tells how it works and why no two processes can make equal IDs.
//
// While the database does not answer, IDs go on until the window ends: two thirds of a span at
// least, 10 s by default. Then creates fail, with an error that says since when, and go on by
// themselves when the database does. A process that was killed leaves its number taken for a span
// at most; with 1,024 numbers nobody notices.
//
// [WithNode] gives the number by hand instead. Together with WithLease(nil) exactly that number is
// leased, for game servers and others whose number has a meaning.
//
// # Shards
//
// The shard of a row is (id & MaxSequence) % N, for powers of two id % N. IDs are spread evenly over
// N = 256 shards of the default layout and every divisor, at any rate; other N are declared by
// [WithShards]. A key that is tagged
//
//	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:OrderID"`
//	OrderID snowflakeplugin.ID `gorm:"index"`
//
// lies on the shard of the ID in OrderID. A [Router] has a table for every shard, and routes creates,
// reads and pages to them.
//
// # What is guaranteed
//
// The IDs of one plugin are unique and strictly increasing in the order in which they are made,
// across goroutines, steps of the clock and changes of the node. Those of all processes that lease
// from one store are unique, whatever their clocks do, however long one is paused, and whichever
// are killed. This rests on the store's compare-and-swap and on nothing else; a store that loses
// what it has acknowledged can break it (see package lease).
//
// A number given by hand without a lease is a promise of yours: no two plugins that are in use, in
// one process or in many, may have the same. A process may be restarted at once with it, because a
// generator starts beyond all that an earlier one can have issued, unless the clock was set back
// between the two; then IDs can repeat. A primary key makes the database refuse the second row.
//
// While the process runs, a clock that is set back makes it go on for up to ten ticks of the layout
// (10 ms by default), then wait, and fail when the wait would be longer than a second, but never
// repeat an ID.
//
// # What is not guaranteed
//
// IDs have gaps. They are no secret: whoever sees one knows when and where it was made and can
// guess its neighbors. Between processes they are in order only as far as their clocks agree. They
// are in the order of making, not of committing: a row may become visible after one with a greater
// ID. The newest may be up to ten ticks ahead of the clock. A virtual machine that is cloned while
// it runs makes the same IDs twice, with a lease until its next extension, otherwise for good.
//
// # Migrating from auto-increment keys
//
// Rows that exist keep their keys. These are smaller than every new one, so the order holds.
//
// To keep keys of type int64 or uint64, tag them and call [Plugin.Prepare] before AutoMigrate:
//
//	if err := plugin.Prepare(db, &Account{}, &Entry{}); err != nil {
//		return err
//	}
//	return db.AutoMigrate(&Account{}, &Entry{})
//
// Or change the type to ID, foreign keys included; then JSON shows strings in place of numbers, and
// no Prepare is needed. In place of gorm.Model, whose key cannot be tagged, there is [Model]. But
// on MySQL and MariaDB the keys of gorm.Model are unsigned, and all that refer to them must be so
// too: keep uint64 there.
//
// Change all programs that insert at once, and widen columns of 32 bits that hold such keys first.
// A table's own counter goes on from the greatest key on MySQL, MariaDB and SQLite, and so gives a
// program that was forgotten a number that the plugin may come to; take the counter away.
package snowflakeplugin
