package shardmap

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

const (
	// ShardsTable records how many shards each model has and which of them are in this database. Every
	// database of a router has one. AutoMigrate and a resharding write to it.
	ShardsTable = "snowflake_shards"
	// MovesTable is the journal of a resharding.
	MovesTable = "snowflake_moves"
)

// Record is a row of shardsTable.
type Record struct {
	Name   string `gorm:"primaryKey;size:191"` // the model's table, without a shard number
	Shards int    `gorm:"not null"`
	// Held lists the shards in this database, such as 0-3,8.
	Held string `gorm:"type:text;not null"`
	// Complete is set once every database of the router has such a row. From then on a database without
	// one cannot belong to the router.
	Complete bool `gorm:"not null"`
	// StaleShards is Topology.StaleShards.
	StaleShards int `gorm:"not null"`
	// Version counts the cutovers.
	Version int64 `gorm:"not null;default:0"`
	// NextShards is the number of shards that a cutover under way leads to, or 0. As long as it is set, no
	// process gets a lease on the shard map.
	NextShards int `gorm:"not null;default:0"`
	// LeaseMillis is how long a lease on the shard map lasts.
	LeaseMillis int64 `gorm:"not null;default:3000"`
	// Closing is a number of whoever has closed the map, or 0.
	Closing int64 `gorm:"not null;default:0"`
	// KeyColumn is the column of the primary key, and Mask that of the layout's sequence. With them, a
	// program without the models can go on with a resharding.
	KeyColumn string `gorm:"size:191;not null;default:''"`
	Mask      int64  `gorm:"not null;default:0"`
}

// MoveRecord is a row of movesTable. It describes a table that is filled from another one.
type MoveRecord struct {
	Name   string `gorm:"primaryKey;size:191"` // the table that is filled
	LastID int64  `gorm:"not null"`            // rows up to this one are copied
	Copied int64  `gorm:"not null"`            // how many that are
	Done   bool   `gorm:"not null"`
	// Highest is the largest key that any copy has had.
	Highest int64 `gorm:"not null;default:0"`
	// Base is the model's table, Shard is the shard of this one, and Shards is the number after the
	// resharding. Base is also the name of the model's record in shardsTable.
	Base   string `gorm:"size:191;not null;default:''"`
	Shard  int    `gorm:"not null;default:0"`
	Shards int    `gorm:"not null;default:0"`
	// Made is set if the resharding has made the table, so that Undo may drop it.
	Made bool `gorm:"not null;default:false"`
}

// Registry is what the databases of a topology have recorded about its shards.
type Registry struct{ *Topology }

// Compare checks the topology against the records, and returns what they say together. A database without
// the table is new, or older than the table. A cutover that all of them have recorded is finished here.
func (r Registry) Compare() (MapState, error) {
	found := MapState{}
	ctx := r.Databases[0].Statement.Context
	names := r.shardedTables()
	complete := map[string]int{} // by name, a database whose record is complete
	silent := map[string]int{}   // by name, a database that should have a record and has none
	var all [][]Record           // by database
	for i := range r.Databases {
		records, err := r.recordsIn(ctx, i)
		if err != nil {
			return found, err
		}
		if err := found.addAll(i, records); err != nil {
			return found, err
		}
		all = append(all, records)
	}
	if found.moved() {
		// Since the first start the records say where the shards are.
		entries, whole := valid(found.entries)
		if !whole {
			return found, fmt.Errorf("by now %d shards are recorded, and some of them are in databases that this "+
				"configuration does not have: add those to Databases", len(entries))
		}
		found.Entries = entries
	}
	for i, records := range all {
		held := r.shardsIn(i)
		known := map[string]bool{}
		for _, c := range records {
			if found.moved() {
				held = c.Held
			}
			if err := r.compareRecord(i, c, held); err != nil {
				return found, err
			}
			known[c.Name] = true
			if c.Complete {
				complete[c.Name] = i
			}
			r.leases[i].recorded.Store(true)
		}
		for _, name := range names {
			if held != "" && !known[name] {
				silent[name] = i
			}
		}
	}
	for _, name := range names {
		i, missing := silent[name]
		if other, isComplete := complete[name]; isComplete && missing {
			return found, fmt.Errorf("database %d has no record of %s in its table %s, but by database %d all "+
				"databases had one: it is another database than before, or a new one; Databases in "+
				"docs/sharding.md says how to add one", i, name, InternalTable(r.Databases[i], ShardsTable), other)
		}
	}
	switch {
	case found.Next != r.FirstCount:
	case found.Shards == r.FirstCount && !found.Mixed && len(silent) == 0:
		found.Next = 0
		return found, Registry{&Topology{
			ShardCount: r.ShardCount, Mask: r.Mask, Databases: r.Databases, Place: r.Place, Models: r.Models,
			Version: found.Version,
		}}.Finish(ctx)
	case found.Shards > r.ShardCount:
		return found, fmt.Errorf("the undoing of a resharding from %d to %d shards was interrupted: call "+
			"\"snowflake shards undo\", or configure a router with %[2]d, and call Undo of its PendingCleanup",
			r.ShardCount, found.Shards)
	default:
		return found, fmt.Errorf("a cutover from %d to %d shards was interrupted: configure a router with "+
			"%[1]d, and call Reshard and Cutover again", r.ShardCount/2, r.ShardCount)
	}
	return found, nil
}

// compareRecord checks the topology against one record.
func (r Registry) compareRecord(database int, c Record, held string) error {
	table := InternalTable(r.Databases[database], ShardsTable)
	next := c.NextShards
	if n := r.FirstCount; c.Shards != n && (next == 2*n || next == n || next != 0 && 2*next == n) {
		return nil // A cutover was interrupted, or the undoing of one.
	}
	if c.Shards != r.FirstCount {
		return fmt.Errorf("%s has %d shards according to table %s in database %d: set Shards to that number, or "+
			"double the shards by Router.Reshard", c.Name, c.Shards, table, database)
	}
	if c.Held != held {
		return fmt.Errorf("database %d has %s of %s according to its table %s, but by this configuration "+
			"it would have %s: correct the order and number of Databases, or let Place say where the shards are; "+
			"if you moved whole tables, record it there as held = '%s'",
			database, describeShards(c.Held), c.Name, table, describeShards(held), held)
	}
	return nil
}

func describeShards(held string) string {
	if held == "" {
		return "no shard"
	}
	return "shards " + held
}

// recordsIn reads the records about the router's models, if the table exists.
func (r Registry) recordsIn(ctx context.Context, database int) ([]Record, error) {
	db := r.Databases[database]
	table := InternalTable(db, ShardsTable)
	var records []Record
	if !db.Session(&gorm.Session{NewDB: true, Context: ctx}).Migrator().HasTable(table) {
		// GORM also answers no if it cannot ask.
		if err := Ping(ctx, db); err != nil {
			return nil, fmt.Errorf("table %s in database %d: %w", table, database, err)
		}
		return nil, nil
	}
	err := r.PlainOn(ctx, database, table).Where("name IN ?", r.shardedTables()).Find(&records).Error
	if err != nil {
		return nil, fmt.Errorf("table %s in database %d: %w", table, database, err)
	}
	return records, nil
}

// RecordMissing writes the records that do not exist yet.
func (r Registry) RecordMissing(ctx context.Context) error {
	names := r.shardedTables()
	if len(names) == 0 {
		return nil
	}
	for i := range r.Databases {
		if err := r.recordIn(ctx, i); err != nil {
			return err
		}
	}
	if _, err := r.Compare(); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	// Completed last, because a process that ends before this leaves databases without records.
	for i, db := range r.Databases {
		table := InternalTable(db, ShardsTable)
		tx := r.PlainOn(ctx, i, table).Where("name IN ? AND complete = ?", names, false)
		if err := tx.Update("complete", true).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	return nil
}

// CloseMap marks all records, so that no process gets a lease on the map any more, and takes the map over.
func (r Registry) CloseMap(ctx context.Context, next int, closing int64) error {
	for i := range r.Databases {
		err := r.Change(ctx, i, map[string]any{"next_shards": next, "closing": closing},
			"shards = ? AND version = ?", r.ShardCount, r.Version)
		if err != nil {
			return err
		}
	}
	return nil
}

// Record replaces all records by those of this topology, if they were closed by the caller. They stay closed
// until all are written.
func (r Registry) Record(ctx context.Context, next, staleShards int, closing int64) error {
	for i := range r.Databases {
		set := map[string]any{
			"shards": r.ShardCount, "held": r.shardsIn(i), "complete": true, "version": r.Version,
			"next_shards": next, "stale_shards": staleShards,
		}
		if err := r.Change(ctx, i, set, "next_shards = ? AND closing = ?", next, closing); err != nil {
			return err
		}
	}
	return nil
}

// TakeBack replaces all records by those of the old shards again, after a cutover that some databases have
// not recorded. It stays closed, now by the caller. seen says who had closed it when that was looked at.
func (r Registry) TakeBack(ctx context.Context, seen []int64, closing int64) error {
	for i := range r.Databases {
		set := map[string]any{
			"shards": r.ShardCount, "held": r.shardsIn(i), "version": r.Version, "stale_shards": 0,
			"closing": closing,
		}
		err := r.Change(ctx, i, set, "next_shards = ? AND closing = ?", 2*r.ShardCount, seen[i])
		if err != nil {
			return err
		}
	}
	return nil
}

// Finish removes the rows that were moved from the old tables, and opens the map. The new number of shards
// must be recorded in every database, because from now on the new tables alone have these rows. After an
// Undo there is nothing to remove.
func (r Registry) Finish(ctx context.Context) error {
	var moved []*Model
	for _, m := range r.Models {
		if !m.Broadcast {
			moved = append(moved, m)
		}
	}
	// Tables of one shard may have foreign keys to each other, so one of them comes after the other.
	err := r.EachInTurn(ctx, r.ShardCount/2, func(shard int) []int { return []int{r.Place[shard]} },
		func(ctx context.Context, shard int) error {
			return InAnyOrder(len(moved), func(i int) error { return r.removeMoved(ctx, moved[i], shard) })
		}, nil)
	if err != nil {
		return err
	}
	return r.OpenMap(ctx)
}

// removeMoved deletes the rows of another shard from an old table, in a transaction that holds the records:
// once the map is open again or is being undone, this must not happen any more.
func (r Registry) removeMoved(ctx context.Context, m *Model, shard int) error {
	db := r.Databases[r.Place[shard]].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
	err := InTransaction(db, func(tx *gorm.DB) error {
		held, err := r.Share(tx, "shards = ? AND next_shards = ? AND version = ? AND stale_shards = ?",
			r.ShardCount, r.ShardCount, r.Version, r.ShardCount/2)
		if err != nil || !held {
			return err // Without the mark, there is nothing left to do.
		}
		key := tx.Statement.Quote(m.Key.DBName)
		statement := fmt.Sprintf("DELETE FROM %s WHERE (%s & %d) %% %d = %d", tx.Statement.Quote(m.Table(shard)),
			key, r.Mask, r.ShardCount, shard+r.ShardCount/2)
		if db.Name() == dialect.MySQL {
			statement += " ORDER BY " + key + " DESC" // It checks foreign keys row by row.
		}
		return tx.Exec(statement).Error
	})
	if err != nil {
		return fmt.Errorf("snowflakeplugin: removing the moved rows from %s: %w", m.Table(shard), err)
	}
	return nil
}

// OpenMap removes the mark that leads to this topology.
func (r Registry) OpenMap(ctx context.Context) error {
	return r.Unmark(ctx, "next_shards = ?", r.ShardCount)
}

// Unmark removes the mark from the records of this topology that meet a condition.
func (r Registry) Unmark(ctx context.Context, condition string, args ...any) error {
	for i, db := range r.Databases {
		if records, err := r.recordsIn(ctx, i); err != nil || len(records) == 0 {
			return err
		}
		err := r.RecordsOf(db.WithContext(ctx)).Where("shards = ? AND version = ?", r.ShardCount, r.Version).
			Where(condition, args...).Updates(map[string]any{"next_shards": 0, "closing": 0}).Error
		if err != nil {
			table := InternalTable(db, ShardsTable)
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	return nil
}

// RecordCleanup says in every record that no Clean is pending any more.
func (r Registry) RecordCleanup(ctx context.Context) error {
	for i, db := range r.Databases {
		table := InternalTable(db, ShardsTable)
		tx := r.PlainOn(ctx, i, table).Where("name IN ?", r.shardedTables())
		if err := tx.Update("stale_shards", 0).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	return nil
}

// recordIn writes the records of one database that do not exist yet.
func (r Registry) recordIn(ctx context.Context, database int) error {
	var records []Record
	var common Record
	common.Shards, common.Held, common.Version = r.FirstCount, r.shardsIn(database), r.Version
	common.LeaseMillis = r.Span.Milliseconds()
	for _, m := range r.Models {
		if !m.Broadcast {
			common.Name, common.KeyColumn, common.Mask = m.Base.Table, m.Key.DBName, r.Mask
			records = append(records, common)
		}
	}
	table := InternalTable(r.Databases[database], ShardsTable)
	err := AutoMigrate(r.PlainOn(ctx, database, table), &Record{})
	if err == nil {
		err = r.PlainOn(ctx, database, table).Clauses(clause.OnConflict{DoNothing: true}).Create(&records).Error
	}
	for _, c := range records {
		if err != nil {
			break
		}
		// Records of before lack them.
		err = r.PlainOn(ctx, database, table).Where("name = ? AND mask = 0", c.Name).
			Updates(map[string]any{"key_column": c.KeyColumn, "mask": c.Mask}).Error
	}
	if err != nil {
		return fmt.Errorf("snowflakeplugin: table %s in database %d: the number of shards could not be "+
			"recorded: %w", table, database, err)
	}
	return nil
}

// MapState is what the records of all databases say together.
type MapState struct {
	Shards, Next, StaleShards int
	Version                   int64
	Span                      time.Duration
	any, Mixed                bool // mixed: they do not agree, because a cutover is under way
	entries                   []Entry
	// Entries are those of a map that has changed since the first start, or nil.
	Entries []Entry
}

// addAll adds the records of a database.
func (s *MapState) addAll(database int, records []Record) error {
	for i, c := range records {
		s.add(c)
		entries, err := readEntries(c.Held, c.Shards, database)
		switch {
		case err != nil:
			return fmt.Errorf("database %d: the record of %s: %w", database, c.Name, err)
		case i == 0:
			s.entries = append(s.entries, entries...)
		case c.Held != records[0].Held && strings.Contains(c.Held+records[0].Held, "/"):
			return fmt.Errorf("database %d has %s of %s, but %s of %s: both must be models of the router that "+
				"splits, joins or moves shards", database, describeShards(c.Held), c.Name,
				describeShards(records[0].Held), records[0].Name)
		}
	}
	return nil
}

// moved reports whether a shard has been split, joined or moved.
func (s *MapState) moved() bool {
	return slices.ContainsFunc(s.entries, func(e Entry) bool { return e.Generation > 0 })
}

func (s *MapState) add(c Record) {
	if s.any && (c.Version != s.Version || c.Shards != s.Shards) {
		s.Mixed = true
	}
	s.any, s.Version, s.Shards = true, max(s.Version, c.Version), max(s.Shards, c.Shards)
	s.Span = max(s.Span, time.Duration(c.LeaseMillis)*time.Millisecond)
	s.Next, s.StaleShards = max(s.Next, c.NextShards), max(s.StaleShards, c.StaleShards)
}

// ReadShards is the inverse of Topology.shardsIn.
func ReadShards(held string) []int {
	var shards []int
	for part := range strings.SplitSeq(held, ",") {
		first, last, isRun := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		to := from
		if isRun {
			to, _ = strconv.Atoi(last)
		}
		for shard := from; shard <= to; shard++ {
			shards = append(shards, shard)
		}
	}
	return shards
}

// MapRecord is a record of the shard map with the database that has it.
type MapRecord struct {
	Record
	Database int
}

// ReadMaps reads the records of some models, or of all of them.
func ReadMaps(ctx context.Context, dbs []*gorm.DB, names []string) ([]MapRecord, error) {
	var all []MapRecord
	for i, db := range dbs {
		var found []Record
		err := ReadAll(ctx, db, ShardsTable, &found, func(tx *gorm.DB) *gorm.DB {
			if names != nil {
				tx = tx.Where("name IN ?", names)
			}
			return tx.Order("name")
		})
		if err != nil {
			return nil, fmt.Errorf("snowflakeplugin: the shard map in database %d: %w", i, err)
		}
		for _, record := range found {
			all = append(all, MapRecord{record, i})
		}
	}
	return all, nil
}

// ReadAll reads the rows of one of the router's own tables, if the database has it.
func ReadAll(
	ctx context.Context, db *gorm.DB, name string, into any, scope func(*gorm.DB) *gorm.DB,
) error {
	table := InternalTable(db, name)
	tx := db.Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
	if !tx.Migrator().HasTable(table) {
		return Ping(ctx, db) // GORM also answers no if it cannot ask.
	}
	return scope(tx.Table(table)).Find(into).Error
}

// Phase is where a resharding from N to 2N shards stands, by the records of all databases. next is the
// number in their column next_shards: while it is set, nobody gets a lease on the map.
//
//	Phase              shards      next   what is left to do
//	PhaseOpen          N           0      Copy and Cutover, or Undo
//	PhaseClosed        N           2N     the same; nobody routes
//	PhaseHalf          N and 2N    2N     the same; nobody has used the new map yet
//	PhaseRecorded      2N          2N     Cutover removes the moved rows from the old tables, and opens
//	PhaseCut           2N          0      Clean or Undo
//	PhaseUndoing       2N          N      Undo copies the rows back
//	PhaseUndoHalf      N and 2N    N      Undo records the old map
//	PhaseUndone        N           N      Undo opens the map
//	PhaseDropping      N           0      Undo drops the new tables; stale_shards is 2N
//
// Two processes may take steps although only one should: one may have been paused, and a killed one may have
// left a statement behind that still runs. So every change is conditional. Whoever closes a map writes a
// number of its own into the records, which takes the map over from whoever closed it before. All changes
// of records and rows by the first one are refused from then on, because they look for its own number.
type Phase int

// The phases of the table above.
const (
	PhaseOpen Phase = iota
	PhaseClosed
	PhaseHalf
	PhaseRecorded
	PhaseCut
	PhaseUndoing
	PhaseUndoHalf
	PhaseUndone
	PhaseDropping
	PhaseCleaned
)

// Survey is what the records of all databases say about a resharding.
type Survey struct {
	Phase    Phase
	Versions map[int]int64 // the version of the map with a number of shards
	Closings []int64       // by database, who has closed it
}

// Survey reads the phase of a resharding from a number of shards.
func (r Registry) Survey(ctx context.Context, before int) (Survey, error) {
	s := Survey{Versions: map[int]int64{}}
	next, stale := 0, 0
	for i := range r.Databases {
		records, err := r.recordsIn(ctx, i)
		if err != nil {
			return s, err
		}
		var closing int64
		for _, c := range records {
			if c.Shards != before && c.Shards != 2*before {
				return s, fmt.Errorf("%w: %s has %d shards according to table %s in database %d, and not %d or %d",
					errs.ErrSharding, c.Name, c.Shards, InternalTable(r.Databases[i], ShardsTable), i, before, 2*before)
			}
			s.Versions[c.Shards] = max(s.Versions[c.Shards], c.Version)
			next, stale, closing = max(next, c.NextShards), max(stale, c.StaleShards), max(closing, c.Closing)
		}
		s.Closings = append(s.Closings, closing)
	}
	_, old := s.Versions[before]
	_, doubled := s.Versions[2*before]
	s.Phase = phaseOf(old, doubled, next/before, stale/before)
	return s, nil
}

// phaseOf derives the phase from the records with the old and with the new number of shards. next and stale
// are 0, or 1 for the old number, or 2 for the new one.
func phaseOf(old, doubled bool, next, stale int) Phase {
	switch {
	case old && doubled && next == 1:
		return PhaseUndoHalf
	case old && doubled:
		return PhaseHalf
	case doubled && next == 2:
		return PhaseRecorded
	case doubled && next == 1:
		return PhaseUndoing
	case doubled && stale == 1:
		return PhaseCut
	case doubled:
		return PhaseCleaned
	case next == 2:
		return PhaseClosed
	case next == 1:
		return PhaseUndone
	case stale == 2:
		return PhaseDropping
	}
	return PhaseOpen
}

// NewClosing makes the number of somebody who closes a map. It is never 0.
func NewClosing() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // which never fails
	return int64(binary.LittleEndian.Uint64(b[:])>>2) | 1
}

// TakenOver is wrapped by the error of a process that another one has overtaken.
func TakenOver(database int) error {
	return fmt.Errorf("%w: another process has gone on with this resharding, or has ended it, as the records "+
		"of database %d say: look at its state, and call the step again", errs.ErrSharding, database)
}

// Change updates the records that meet a condition, and fails unless all records of the database do.
func (r Registry) Change(
	ctx context.Context, database int, set map[string]any, condition string, args ...any,
) error {
	db := r.Databases[database]
	table := InternalTable(db, ShardsTable)
	err := r.PlainOn(ctx, database, table).Transaction(func(tx *gorm.DB) error {
		held, err := r.Hold(tx, condition, args...)
		if err == nil && !held {
			err = TakenOver(database)
		}
		if err != nil {
			return err
		}
		return r.RecordsOf(tx).Updates(set).Error
	})
	if err != nil {
		return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, database, err)
	}
	return nil
}

// Hold locks the records of a database until the end of a transaction, and reports whether all of them meet
// a condition.
func (r Registry) Hold(tx *gorm.DB, condition string, args ...any) (bool, error) {
	// It writes first, because a read might see the records as they were when the transaction began.
	if err := r.RecordsOf(tx).Update("shards", gorm.Expr("shards")).Error; err != nil {
		return false, err
	}
	var all, met int64
	if err := r.RecordsOf(tx).Count(&all).Error; err != nil {
		return false, err
	}
	err := r.RecordsOf(tx).Where(condition, args...).Count(&met).Error
	return all > 0 && met == all, err
}

// Share is hold for a transaction that changes rows, and not the records: others of the kind need not wait
// for it. Whoever changes the records waits for all of them.
func (r Registry) Share(tx *gorm.DB, condition string, args ...any) (bool, error) {
	if tx.Name() == dialect.SQLite {
		return r.Hold(tx, condition, args...) // Only one transaction of a database writes at a time.
	}
	// A read that locks sees what is committed last, and not what was when the transaction began.
	var met []bool
	err := r.RecordsOf(tx).Clauses(clause.Locking{Strength: clause.LockingStrengthShare}).
		Select("CASE WHEN "+condition+" THEN 1 ELSE 0 END = 1", args...).Scan(&met).Error
	return len(met) > 0 && !slices.Contains(met, false), err
}

// RecordsOf returns a handle for the records in a transaction.
func (r Registry) RecordsOf(tx *gorm.DB) *gorm.DB {
	return tx.Session(&gorm.Session{NewDB: true, SkipHooks: true}).Table(InternalTable(tx, ShardsTable)).
		Where("name IN ?", r.shardedTables())
}
