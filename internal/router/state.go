package router

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

const (
	// shardsTable records how many shards each model has and which of them are in this database. Every
	// database of a router has one. AutoMigrate and a resharding write to it.
	shardsTable = "snowflake_shards"
	// movesTable is the journal of a resharding.
	movesTable = "snowflake_moves"
)

// shardRecord is a row of shardsTable.
type shardRecord struct {
	Name   string `gorm:"primaryKey;size:191"` // the model's table, without a shard number
	Shards int    `gorm:"not null"`
	// Held lists the shards in this database, such as 0-3,8.
	Held string `gorm:"type:text;not null"`
	// Complete is set once every database of the router has such a row. From then on a database without
	// one cannot belong to the router.
	Complete bool `gorm:"not null"`
	// StaleShards is topology.staleShards.
	StaleShards int `gorm:"not null"`
	// Version counts the cutovers.
	Version int64 `gorm:"not null;default:0"`
	// NextShards is the number of shards that a cutover under way leads to, or 0. As long as it is set, no
	// process gets a lease on the shard map.
	NextShards int `gorm:"not null;default:0"`
	// LeaseMillis is how long a lease on the shard map lasts.
	LeaseMillis int64 `gorm:"not null;default:3000"`
}

// moveRecord is a row of movesTable. It describes a table that is filled from another one.
type moveRecord struct {
	Name   string `gorm:"primaryKey;size:191"` // the table that is filled
	LastID int64  `gorm:"not null"`            // rows up to this one are copied
	Copied int64  `gorm:"not null"`            // how many that are
	Done   bool   `gorm:"not null"`
}

// registry is what the databases of a topology have recorded about its shards.
type registry struct{ *topology }

// compare checks the topology against the records, and returns what they say together. A database without
// the table is new, or older than the table. A cutover that all of them have recorded is finished here.
func (r registry) compare() (mapState, error) {
	found := mapState{}
	ctx := r.dbs[0].Statement.Context
	names := r.shardedTables()
	complete := map[string]int{} // by name, a database whose record is complete
	silent := map[string]int{}   // by name, a database that should have a record and has none
	for i := range r.dbs {
		records, err := r.recordsIn(ctx, i)
		if err != nil {
			return found, err
		}
		held := r.shardsIn(i)
		known := map[string]bool{}
		for _, c := range records {
			if err := r.compareRecord(i, c, held); err != nil {
				return found, err
			}
			known[c.Name] = true
			if c.Complete {
				complete[c.Name] = i
			}
			found.add(c)
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
				"docs/sharding.md says how to add one", i, name, internalTable(r.dbs[i], shardsTable), other)
		}
	}
	switch {
	case found.next != r.shards:
	case found.shards == r.shards && !found.mixed && len(silent) == 0:
		found.next = 0
		return found, r.finish(ctx)
	default:
		return found, fmt.Errorf("a cutover from %d to %d shards was interrupted: configure a router with "+
			"%[1]d, and call Reshard and Cutover again", r.shards/2, r.shards)
	}
	return found, nil
}

// compareRecord checks the topology against one record.
func (r registry) compareRecord(database int, c shardRecord, held string) error {
	table := internalTable(r.dbs[database], shardsTable)
	if c.Shards != r.shards && (c.NextShards == 2*r.shards || c.NextShards == r.shards) {
		return nil // A cutover was interrupted.
	}
	if c.Shards != r.shards {
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
func (r registry) recordsIn(ctx context.Context, database int) ([]shardRecord, error) {
	db := r.dbs[database]
	table := internalTable(db, shardsTable)
	var records []shardRecord
	if !db.Session(&gorm.Session{NewDB: true, Context: ctx}).Migrator().HasTable(table) {
		// GORM also answers no if it cannot ask.
		if err := ping(ctx, db); err != nil {
			return nil, fmt.Errorf("table %s in database %d: %w", table, database, err)
		}
		return nil, nil
	}
	err := r.plainOn(ctx, database, table).Where("name IN ?", r.shardedTables()).Find(&records).Error
	if err != nil {
		return nil, fmt.Errorf("table %s in database %d: %w", table, database, err)
	}
	return records, nil
}

// recordMissing writes the records that do not exist yet.
func (r registry) recordMissing(ctx context.Context) error {
	names := r.shardedTables()
	if len(names) == 0 {
		return nil
	}
	for i := range r.dbs {
		if err := r.recordIn(ctx, i, shardRecord{}, clause.OnConflict{DoNothing: true}); err != nil {
			return err
		}
	}
	if _, err := r.compare(); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	// Completed last, because a process that ends before this leaves databases without records.
	for i, db := range r.dbs {
		table := internalTable(db, shardsTable)
		tx := r.plainOn(ctx, i, table).Where("name IN ? AND complete = ?", names, false)
		if err := tx.Update("complete", true).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	return nil
}

// recordCutover replaces all records by those of the doubled shards. They stay closed until all are written
// and the moved rows are removed from the old tables.
func (r registry) recordCutover(ctx context.Context, staleShards int) error {
	for i := range r.dbs {
		err := r.recordIn(ctx, i, shardRecord{NextShards: r.shards, StaleShards: staleShards, Complete: true},
			clause.OnConflict{UpdateAll: true})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeBack replaces all records by those of the old shards again, after a cutover that some databases have
// not recorded. It stays closed. all are the databases of the new map.
func (r registry) takeBack(ctx context.Context, all []*gorm.DB) error {
	for i := range r.dbs {
		err := r.recordIn(ctx, i, shardRecord{NextShards: 2 * r.shards, Complete: true},
			clause.OnConflict{UpdateAll: true})
		if err != nil {
			return err
		}
	}
	for _, db := range all[len(r.dbs):] {
		tx := db.Session(&gorm.Session{NewDB: true, Context: ctx}).Table(internalTable(db, shardsTable))
		if err := tx.Where("name IN ?", r.shardedTables()).Delete(&shardRecord{}).Error; err != nil {
			return err
		}
	}
	return nil
}

// closeMap marks all records, so that no process gets a lease on the map any more.
func (r registry) closeMap(ctx context.Context) error { return r.markMap(ctx, 2*r.shards) }

// finish removes the rows that were moved from the old tables, and opens the map. The new number of shards
// must be recorded in every database, because from now on the new tables alone have these rows.
func (r registry) finish(ctx context.Context) error {
	for _, m := range r.models {
		if m.broadcast {
			continue
		}
		for shard := range r.shards / 2 {
			db := r.dbs[r.place[shard]]
			key := db.Statement.Quote(m.key.DBName)
			err := db.Session(&gorm.Session{NewDB: true, Context: ctx}).Exec(fmt.Sprintf(
				"DELETE FROM %s WHERE (%s & %d) %% %d <> %d", db.Statement.Quote(m.table(shard)), key, r.mask,
				r.shards, shard)).Error
			if err != nil {
				return fmt.Errorf("snowflakeplugin: removing the moved rows from %s: %w", m.table(shard), err)
			}
		}
	}
	return r.openMap(ctx)
}

// openMap removes the mark from all records with this number of shards.
func (r registry) openMap(ctx context.Context) error { return r.markMap(ctx, 0) }

func (r registry) markMap(ctx context.Context, nextShards int) error {
	for i, db := range r.dbs {
		if records, err := r.recordsIn(ctx, i); err != nil || len(records) == 0 {
			return err
		}
		table := internalTable(db, shardsTable)
		tx := r.plainOn(ctx, i, table).Where("name IN ? AND shards = ?", r.shardedTables(), r.shards)
		if err := tx.Update("next_shards", nextShards).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	return nil
}

// recordCleanup says in every record that no Clean is pending any more.
func (r registry) recordCleanup(ctx context.Context) error {
	for i, db := range r.dbs {
		table := internalTable(db, shardsTable)
		tx := r.plainOn(ctx, i, table).Where("name IN ?", r.shardedTables())
		if err := tx.Update("stale_shards", 0).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	return nil
}

// recordIn writes the records of one database, with what they have in common.
func (r registry) recordIn(
	ctx context.Context, database int, common shardRecord, conflict clause.OnConflict,
) error {
	var records []shardRecord
	common.Shards, common.Held, common.Version = r.shards, r.shardsIn(database), r.version
	common.LeaseMillis = r.span.Milliseconds()
	for _, name := range r.shardedTables() {
		common.Name = name
		records = append(records, common)
	}
	table := internalTable(r.dbs[database], shardsTable)
	err := autoMigrate(r.plainOn(ctx, database, table), &shardRecord{})
	if err == nil {
		err = r.plainOn(ctx, database, table).Clauses(conflict).Create(&records).Error
	}
	if err != nil {
		return fmt.Errorf("snowflakeplugin: table %s in database %d: the number of shards could not be "+
			"recorded: %w", table, database, err)
	}
	return nil
}
