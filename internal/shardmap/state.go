package shardmap

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// ShardsTable records how many shards each model has had at the first start, and which entries are in this
// database. Every database of a router has one. AutoMigrate and a resharding write to it.
const ShardsTable = "snowflake_shards"

// Record is a row of shardsTable. Its columns are called so whatever the naming strategy of the database is.
type Record struct {
	Name   string `gorm:"column:name;primaryKey;size:191"` // the model's table, without a shard number
	Shards int    `gorm:"column:shards;not null"`
	// Held lists the entries in this database, such as 0-2,3/16.1.
	Held string `gorm:"column:held;type:text;not null"`
	// Complete is set once every database of the router has such a row. From then on a database without
	// one cannot belong to the router.
	Complete bool `gorm:"column:complete;not null"`
	// StaleShards and NextShards are set while a resharding of an earlier version is under way.
	StaleShards int `gorm:"column:stale_shards;not null"`
	NextShards  int `gorm:"column:next_shards;not null;default:0"`
}

// ModelsTable says which tables some program has in one router: those of models, and join tables.
const ModelsTable = "snowflake_models"

// kinship is a row of ModelsTable.
type kinship struct {
	Name string `gorm:"column:name;primaryKey;size:191"` // without a shard number
	// Router is the same for all tables that belong together: the name of one of them.
	Router string `gorm:"column:router;size:191;not null"`
}

// Registry is what the databases of a topology have recorded about its shards.
type Registry struct{ *Topology }

// Compare checks the topology against the records, and returns that of the map that they have, which may have
// changed since the first start, and the databases without a record. These are new, or older than the table.
func (r Registry) Compare() (t *Topology, silent []int, err error) {
	names := r.shardedTables()
	complete := map[string]int{} // by name, a database whose record is complete
	lacking := map[string]int{}  // by name, a database that should have a record and has none
	all, err := r.records(r.Databases[0].Statement.Context)
	if err != nil {
		return nil, nil, err
	}
	recorded, err := entriesOf(all)
	if err != nil {
		return nil, nil, err
	}
	// A closed entry is that of a cutover, which may be the first one.
	moved := slices.ContainsFunc(recorded, func(e Entry) bool { return e.Generation > 0 || e.Closed })
	for i, records := range all {
		held := r.shardsIn(i)
		known := map[string]bool{}
		for _, c := range records {
			if moved {
				held = c.Held // Since the first start the records say where the shards are.
			}
			if err := r.compareRecord(i, c, held); err != nil {
				return nil, nil, err
			}
			known[c.Name] = true
			if c.Complete {
				complete[c.Name] = i
			}
		}
		if len(records) == 0 {
			silent = append(silent, i)
		}
		for _, name := range names {
			if held != "" && !known[name] {
				lacking[name] = i
			}
		}
	}
	for _, name := range names {
		i, missing := lacking[name]
		if other, isComplete := complete[name]; isComplete && missing {
			return nil, nil, fmt.Errorf("database %d has no record of %s in its table %s, but by database %d all "+
				"databases had one: it is another database than before, or a new one; Databases in "+
				"docs/sharding.md says how to add one", i, name, InternalTable(r.Databases[i], ShardsTable), other)
		}
	}
	if !moved {
		return r.Topology, silent, nil
	}
	entries, whole := valid(recorded)
	if !whole {
		return nil, nil, fmt.Errorf("by now %d shards are recorded, and some of them are in databases that this "+
			"configuration does not have: add those to Databases", len(entries))
	}
	t, err = r.WithEntries(entries)
	return t, silent, err
}

// entriesOf reads the entries in the records of all databases.
func entriesOf(all [][]Record) (entries []Entry, err error) {
	for database, records := range all {
		held, err := heldEntries(database, records)
		if err != nil {
			return nil, err
		}
		entries = append(entries, held...)
	}
	return entries, nil
}

// heldEntries reads the entries in the records of one database, which are the same in all of them.
func heldEntries(database int, records []Record) (entries []Entry, err error) {
	for i, c := range records {
		held, err := readEntries(c.Held, c.Shards, database)
		switch {
		case err != nil:
			return nil, fmt.Errorf("database %d: the record of %s: %w", database, c.Name, err)
		case c.NextShards != 0 || c.StaleShards != 0:
			return nil, fmt.Errorf("%s in database %d is being resharded by an earlier version of this module: "+
				"end that with the earlier version first", c.Name, database)
		case i == 0:
			entries = held
		case c.Held != records[0].Held && strings.Contains(c.Held+records[0].Held, "/"):
			return nil, fmt.Errorf("database %d has %s of %s, but %s of %s: both must be models of the router "+
				"that splits, joins or moves shards; delete the record of a new one, and call AutoMigrate again",
				database, describeShards(c.Held), c.Name, describeShards(records[0].Held), records[0].Name)
		}
	}
	return entries, nil
}

// Successor makes the topology that the databases have recorded. It returns nil if that is this one.
func (r Registry) Successor(ctx context.Context) (*Topology, error) {
	all, err := r.records(ctx)
	if err != nil {
		return nil, fmt.Errorf("snowflakeplugin: the shard map: %w", err)
	}
	recorded, err := entriesOf(all)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	if len(recorded) == 0 {
		return nil, nil
	}
	entries, whole := valid(recorded)
	switch {
	case !whole:
		return nil, Invalid(fmt.Errorf("by now %d shards are recorded, and some of them are in databases that "+
			"this process does not have: start it again with the new Databases", len(entries)))
	case slices.Equal(entries, r.entries):
		return nil, nil
	}
	next, err := r.WithEntries(entries)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	return next, nil
}

// compareRecord checks the topology against one record.
func (r Registry) compareRecord(database int, c Record, held string) error {
	table := InternalTable(r.Databases[database], ShardsTable)
	if c.Shards != r.FirstCount {
		return fmt.Errorf("%s had %d shards at the first start, according to table %s in database %d: set "+
			"Shards to "+
			"that number, and use the package resharding to split or join them", c.Name, c.Shards, table, database)
	}
	if c.Held == held {
		return nil
	}
	hint := "if you moved whole tables, record it there as held = '" + held + "'"
	for _, e := range entriesIn(database, r.entries) {
		db := r.Databases[database]
		there, err := HasTable(db.Statement.Context, db, e.TableOn(c.Name))
		if err != nil {
			return r.failed(database, ShardsTable, err)
		}
		if !there {
			hint = fmt.Sprintf("it has no table for shard %s: add the database that has it to Databases", e.Class)
		}
	}
	return fmt.Errorf("database %d has %s of %s according to its table %s, but by this configuration "+
		"it would have %s: correct the order and number of Databases, or let Place say where the shards are; %s",
		database, describeShards(c.Held), c.Name, table, describeShards(held), hint)
}

func describeShards(held string) string {
	if held == "" {
		return "no shard"
	}
	return "shards " + held
}

// records reads the records about the router's models in each database that has the table. The databases are
// read one after the other, so an entry that goes from one to another meanwhile may be in neither answer. A
// database that gets an entry is changed first, so such a reading is another one the next time.
func (r Registry) records(ctx context.Context) (all [][]Record, err error) {
	for before := []Entry(nil); ; {
		all, err = readAll[Record](ctx, r.Databases, ShardsTable, func(tx *gorm.DB) *gorm.DB {
			return tx.Where("name IN ?", r.shardedTables())
		})
		if err != nil {
			return nil, err
		}
		entries, fault := entriesOf(all)
		if _, whole := valid(entries); fault != nil || whole || slices.Equal(entries, before) {
			return all, nil // The callers tell what is wrong with them.
		}
		before = entries
	}
}

// MakeTables makes the tables of the records, for RecordMissing to fill, and notes which tables belong
// together: a program that lacks some must know that before they are there.
func (r Registry) MakeTables(ctx context.Context) error {
	if len(r.Sharded) == 0 {
		return nil
	}
	for database := range r.Databases {
		if err := r.makeTable(ctx, database, ShardsTable, &Record{}); err != nil {
			return err
		}
		err := r.makeTable(ctx, database, ModelsTable, &kinship{})
		if err == nil {
			err = r.within(ctx, database, ModelsTable, r.relate)
		}
		// A user who may make no table goes on without this one in a database that is older than it.
		if err != nil && !dialect.Forbidden(err) {
			return err
		}
	}
	return nil
}

// RecordMissing writes the records that do not exist yet.
func (r Registry) RecordMissing(ctx context.Context) error {
	if len(r.Sharded) == 0 {
		return nil
	}
	for database := range r.Databases {
		//nolint:contextcheck // the handle has the context
		if err := r.within(ctx, database, ShardsTable, func(tx *gorm.DB) error {
			missing, err := r.missing(tx, database)
			if err != nil || len(missing) == 0 {
				return err
			}
			if len(missing) < len(r.Sharded) { // A database that was just added had no shard before.
				if err := r.refuseLeft(tx, missing); err != nil {
					return err
				}
			}
			tx.Statement.ConnPool = sourceOf(tx, tx.Statement.Table)
			return Alone(tx, func(tx *gorm.DB) error {
				if missing, err = r.missing(tx, database); err != nil || len(missing) == 0 {
					return err
				}
				// A program of an earlier version, or on a server that has no lock, does not wait.
				return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&missing).Error
			})
		}); err != nil {
			return err
		}
	}
	if _, _, err := r.Compare(); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	// Completed last, because a process that ends before this leaves databases without records.
	for database := range r.Databases {
		err := r.within(ctx, database, ShardsTable, func(tx *gorm.DB) error {
			return tx.Where("name IN ? AND complete = ?", r.shardedTables(), false).Update("complete", true).Error
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// refuseLeft refuses a new model that has rows in a table of an earlier map. Somebody made that table without
// AutoMigrate, so the program that changed the shard did not know it.
func (r Registry) refuseLeft(tx *gorm.DB, missing []Record) error {
	for residue, shard := range r.index {
		// Generation 0 has the first shards only.
		for generation := min(residue/r.FirstCount, 1); generation < r.entries[shard].Generation; generation++ {
			for _, c := range missing {
				rows, left := 0, Entry{Class{Residue: residue}, generation, 0, false}.TableOn(c.Name)
				there, err := HasTable(tx.Statement.Context, tx, left)
				if err == nil && there {
					err = plain(tx.Statement.Context, tx).Raw("SELECT 1 FROM " + tx.Statement.Quote(left) + " LIMIT 1").
						Scan(&rows).Error
				}
				if err == nil && rows > 0 {
					err = fmt.Errorf("%w: the table %s has rows, and its shard has been split, joined or moved "+
						"without them, so nobody would find them: store them by Router.Create, drop the table, and call "+
						"this again", errs.ErrSharding, left)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// relate notes in a database that the router's tables belong together, with those that belong to one of them
// already.
func (r Registry) relate(tx *gorm.DB) error {
	own, others, err := r.kin(tx)
	names, routers := slices.Sorted(slices.Values(r.bases())), []string(nil)
	for _, k := range own {
		routers = append(routers, k.Router)
	}
	if err != nil || len(own) == len(names) && slices.Min(routers) == slices.Max(routers) {
		return err
	}
	first := slices.Min(append(routers, names[0]))
	var all []kinship
	for _, name := range names {
		all = append(all, kinship{name, first})
	}
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&all).Error; err != nil {
		return err
	}
	for _, k := range others {
		names = append(names, k.Name)
	}
	// MySQL with sql_safe_updates takes updates by the key only.
	return tx.Where("name IN ?", names).Update("router", first).Error
}

// kin reads what is noted about the router's tables, and about others that belong to one of these.
func (r Registry) kin(tx *gorm.DB) (own, others []kinship, err error) {
	var all []kinship
	err = tx.Find(&all).Error
	names := r.bases()
	for _, k := range all {
		if slices.Contains(names, k.Name) {
			own = append(own, k)
		}
	}
	for _, k := range all {
		related := func(o kinship) bool { return o.Router == k.Router }
		if !slices.Contains(own, k) && slices.ContainsFunc(own, related) {
			others = append(others, k)
		}
	}
	return own, others, err
}

// refuseOthers refuses to change the entries of a database if some programs have tables that this one lacks:
// these would stay behind, and no program that has them could use the map any more.
func (r Registry) refuseOthers(tx *gorm.DB, database int) error {
	table := InternalTable(tx, ModelsTable)
	there, err := hasTableIn(tx, table)
	if err != nil || !there {
		return r.failed(database, ModelsTable, err)
	}
	_, others, err := r.kin(tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(table))
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%w: by this, other programs have %s in this router and this one has not, so its "+
			"rows would stay behind: split, join or move shards by a program that has all models, or delete its "+
			"row if no program has it any more", errs.ErrSharding, others[0].Name)
	}
	return r.failed(database, ModelsTable, err)
}

// missing returns the records that a database does not have yet. A new model gets no shards that the others
// do not have any more.
func (r Registry) missing(tx *gorm.DB, database int) (missing []Record, err error) {
	var known []Record
	if err := tx.Where("name IN ?", r.shardedTables()).Find(&known).Error; err != nil {
		return nil, err
	}
	entries, err := heldEntries(database, known)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	sortEntries(entries)
	held := r.shardsIn(database)
	for _, name := range r.shardedTables() {
		if !slices.ContainsFunc(known, func(c Record) bool { return c.Name == name }) {
			missing = append(missing, Record{Name: name, Shards: r.FirstCount, Held: held})
		}
	}
	switch {
	case len(missing) == 0 || len(known) == 0 || formatEntries(entries, r.FirstCount) == held:
		return missing, nil
	case known[0].Shards != r.FirstCount:
		return nil, fmt.Errorf("%w: %w", errs.ErrSharding, r.compareRecord(database, known[0], held))
	}
	return nil, Invalid(ErrMapReplaced)
}

// makeTable makes one of the router's own tables.
func (r Registry) makeTable(ctx context.Context, database int, table string, model any) error {
	return r.within(ctx, database, table, func(tx *gorm.DB) error {
		return MakeOrMigrate(tx, InternalTable(tx, table), model)
	})
}

// within calls do with a handle for one of the router's own tables, which the error names.
func (r Registry) within(ctx context.Context, database int, name string, do func(tx *gorm.DB) error) error {
	tx := plain(ctx, r.Databases[database])
	return r.failed(database, name, do(tx.Table(InternalTable(tx, name)).Session(&gorm.Session{})))
}

// failed says in an error which of the router's own tables it is about.
func (r Registry) failed(database int, name string, err error) error {
	if err == nil {
		return nil
	}
	table := InternalTable(r.Databases[database], name)
	return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, database, err)
}

// transaction runs a transaction on a database. Its changes follow those of another database, so a crash must
// not undo them afterwards.
func (r Registry) transaction(ctx context.Context, database int, do func(tx *gorm.DB) error) error {
	tx := plain(ctx, r.Databases[database])
	return exclusively(tx, func(tx *gorm.DB) error { //nolint:contextcheck // the handle has the context
		if set := dialect.Kind(tx.Name()).Synchronous(); set != "" {
			if err := tx.Exec(set).Error; err != nil {
				return err
			}
		}
		return do(tx)
	})
}

// ErrHeld is the error of a lock that somebody else has for too long.
var ErrHeld = fmt.Errorf("%w: another process has had the lock of the shard map for 10 s", errs.ErrSharding)

// errNoLock is the error of a server that has no lock for the shard map, so nobody changes that there.
var errNoLock = errors.New("the server has no lock for the shard map")

// exclusively runs a transaction while no other one changes the entries, or makes a table by them.
func exclusively(db *gorm.DB, do func(tx *gorm.DB) error) error {
	take, release, err := lock(db)
	if err != nil {
		return err
	}
	if release != "" {
		// A context that ends would give the connection back to the pool with the lock.
		ctx := db.Statement.Context
		return db.WithContext(context.WithoutCancel(ctx)).Transaction(
			func(tx *gorm.DB) error { return underLock(ctx, tx, take[0], release, do) })
	}
	alone := func(tx *gorm.DB) error {
		if err := execEach(tx, take); err != nil {
			return err
		}
		return do(tx)
	}
	if db.Name() != dialect.PostgreSQL {
		return db.Transaction(alone)
	}
	held := false
	err = db.Transaction(func(tx *gorm.DB) error {
		// What is done under the lock waits for others as long as the application says, maybe in its session.
		err := execEach(tx, slices.Concat([]string{
			"SELECT set_config('snowflake.wait', current_setting('lock_timeout'), true)",
			"SET LOCAL lock_timeout = '10s'",
		}, take, []string{"SELECT set_config('lock_timeout', current_setting('snowflake.wait'), true)"}))
		if held = dialect.Locked(err); err != nil {
			return err
		}
		return do(tx)
	}, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // It has to see what the one before has done.
	if held {
		return heldBy(db, "SELECT pid FROM pg_locks WHERE granted AND locktype = 'advisory' AND "+
			"(classid, objid) = ("+dialect.MapLock+") AND database = "+
			"(SELECT oid FROM pg_database WHERE datname = current_database())")
	}
	return err
}

// heldBy is the error of a lock that is not free in time. A query tells whose connection has it.
func heldBy(db *gorm.DB, query string) error {
	holder := 0 // It may be gone by now.
	_ = db.Raw(query).Scan(&holder)
	return fmt.Errorf("%w, on connection %d of the server: it was stopped while it makes tables or changes "+
		"shards; let it go on, or end it, and call again", ErrHeld, holder)
}

// underLock does something with the lock of a connection, which is given back when all is committed. A
// transaction has none on MySQL, because each table that is made commits it.
func underLock(
	ctx context.Context, tx *gorm.DB, take, release string, do func(tx *gorm.DB) error,
) (err error) {
	taken := 0
	for try := 0; err == nil && taken == 0 && try < 10; try++ {
		if ctx.Err() != nil {
			return errs.Ended(ctx)
		}
		err = tx.Raw(take).Scan(&taken).Error
	}
	switch state := dialect.State(err); {
	case state == "1105", state == "1235", state == "1305": // as on a cluster that takes writes on all servers
		return fmt.Errorf("%w: %w", errNoLock, err)
	case err != nil:
		return err
	case taken == 0:
		return heldBy(tx, strings.Replace(release, "DO RELEASE_LOCK", "SELECT IS_USED_LOCK", 1))
	}
	defer func() { err = errors.Join(err, tx.Exec(release).Error) }()
	if err = do(tx); err == nil {
		err = tx.Exec("COMMIT").Error
	}
	return err
}

func execEach(tx *gorm.DB, statements []string) error {
	for _, statement := range statements {
		if err := tx.Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

// lock returns the statements that lock the entries in a database.
func lock(db *gorm.DB) (take []string, release string, err error) {
	table, there := InternalTable(db, ShardsTable), true
	if dialect.Kind(db.Name()).Embedded() {
		there, err = hasTableIn(db, table)
	}
	take, release = dialect.Kind(db.Name()).Exclusive(table, there)
	return take, release, err
}

// Alone runs do in a transaction while nobody changes an entry, or makes a table, in a database. What it does
// must wait for nobody: whoever cuts over has locked tables when he takes this lock. A server that has no
// lock for that does without.
func Alone(db *gorm.DB, do func(tx *gorm.DB) error) error {
	if db.DryRun {
		return do(db)
	}
	err := exclusively(db, do)
	if errors.Is(err, errNoLock) {
		return do(db)
	}
	return err
}

// WhileOpen is [Alone] for the table of an entry. It refuses one that is closed or replaced already. Before
// the first record of the models, nobody has changed an entry, and nobody changes one where dbresolver sends
// the table to a source without records.
func (r Registry) WhileOpen(db *gorm.DB, e Entry, do func(tx *gorm.DB) error) error {
	return Alone(db, func(tx *gorm.DB) error {
		there, err := hasTableIn(tx, InternalTable(tx, ShardsTable))
		switch {
		case err != nil:
			return r.failed(e.Database, ShardsTable, err)
		case !there:
			return do(tx)
		}
		var records []Record
		if err := r.recordsOf(tx).Find(&records).Error; err != nil {
			return r.failed(e.Database, ShardsTable, err)
		}
		held, err := heldEntries(e.Database, records)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errs.ErrSharding, err)
		case len(records) > 0 && !slices.Contains(held, e.open()):
			return Invalid(ErrMapReplaced)
		}
		return do(tx)
	})
}

// change replaces the entries of a database in its records. replace returns the new ones, and whether the old
// ones are what it has expected.
func (r Registry) change(
	tx *gorm.DB, database int, replace func(held []Entry) (entries []Entry, expected bool),
) (err error) {
	defer func() { err = r.failed(database, ShardsTable, err) }()
	// It writes first, because a read might see the records as they were when the transaction began.
	if err := r.recordsOf(tx).Update("shards", gorm.Expr("shards")).Error; err != nil {
		return err
	}
	var records []Record
	if err := r.recordsOf(tx).Find(&records).Error; err != nil {
		return err
	}
	if len(records) != len(r.shardedTables()) {
		return fmt.Errorf("%w: it has records of %d of %d models: call AutoMigrate in a program with all "+
			"databases first", errs.ErrSharding, len(records), len(r.shardedTables()))
	}
	entries, err := heldEntries(database, records)
	if err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	entries, expected := replace(entries)
	if !expected {
		return fmt.Errorf("%w: as its records say, another process has gone on with this resharding, or has "+
			"ended it: look at its state, and call the step again", errs.ErrSharding)
	}
	sortEntries(entries)
	held := formatEntries(entries, records[0].Shards)
	if held == records[0].Held {
		return nil
	}
	return r.recordsOf(tx).Update("held", held).Error
}

// readAll reads rows of one of the router's own tables in each database that has it.
func readAll[T any](
	ctx context.Context, dbs []*gorm.DB, name string, scope func(*gorm.DB) *gorm.DB,
) ([][]T, error) {
	all := make([][]T, len(dbs))
	for i, db := range dbs {
		table, tx := InternalTable(db, name), plain(ctx, db)
		there, err := HasTable(ctx, tx, table)
		if err == nil && there {
			err = scope(tx.Table(table)).Find(&all[i]).Error
		}
		if err != nil {
			return nil, fmt.Errorf("table %s in database %d: %w", table, i, err)
		}
	}
	return all, nil
}

// recordsOf returns a handle for the records in a transaction.
func (r Registry) recordsOf(tx *gorm.DB) *gorm.DB {
	return tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(InternalTable(tx, ShardsTable)).
		Where("name IN ?", r.shardedTables())
}
