package snowflakeplugin

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

const (
	// tableOfShards says over how many shards the rows of each model are spread. It is in every
	// database of a router, and written by AutoMigrate and by a doubling.
	tableOfShards = "snowflake_shards"
	// tableOfMoves is the journal of a doubling.
	tableOfMoves = "snowflake_moves"
)

// shardCount is a row of the table of shards.
type shardCount struct {
	Name   string `gorm:"primaryKey;size:191"` // the model's table, without a number
	Shards int    `gorm:"not null"`
	// Uncleaned is the number of shards before a doubling whose old tables still have the rows that
	// were moved out of them; 0 when they have been removed.
	Uncleaned int `gorm:"not null"`
}

// shardMove is a row of the journal: one table that is filled from another.
type shardMove struct {
	Name   string `gorm:"primaryKey;size:191"` // the table that is filled
	LastID int64  `gorm:"not null"`            // rows up to here are in it
	Copied int64  `gorm:"not null"`            // their number
	Done   bool   `gorm:"not null"`
	High   int64  `gorm:"not null"` // the last row of the old table when the shards were switched
}

// internalTable names one of the two tables above as the application names its own.
func internalTable(db *gorm.DB, name string) string { return db.NamingStrategy.TableName(name) }

// plainOn returns a handle for the router's own statements, past its guard.
func (r *routing) plainOn(ctx context.Context, database int, table string) *gorm.DB {
	return r.dbs[database].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true}).Table(table)
}

// readState compares the configuration with what the databases say of themselves. Those without
// the table are new, or older than it.
func (r *routing) readState() error {
	r.uncleaned = 0
	for i, db := range r.dbs {
		ctx := db.Statement.Context
		table := internalTable(db, tableOfShards)
		tx := db.Session(&gorm.Session{NewDB: true, Context: ctx})
		if !tx.Migrator().HasTable(table) {
			// That is also what GORM says if it cannot ask.
			if err := ping(ctx, db); err != nil {
				return fmt.Errorf("table %s in database %d: %w", table, i, err)
			}
			continue
		}
		counts, err := r.countsIn(ctx, i)
		if err != nil {
			return err
		}
		for _, c := range counts {
			if c.Shards != r.shards {
				return fmt.Errorf("%s has %d shards, as table %s in database %d says: set Shards to that, or double "+
					"them by Router.Double", c.Name, c.Shards, table, i)
			}
			r.uncleaned = max(r.uncleaned, c.Uncleaned)
		}
	}
	return nil
}

// ping asks a database for a sign of life, if it has a pool that can.
func ping(ctx context.Context, db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return nil //nolint:nilerr // something of the application's, which may not be asked
	}
	return pool.PingContext(ctx)
}

// countsIn reads the rows about the router's models.
func (r *routing) countsIn(ctx context.Context, database int) ([]shardCount, error) {
	table := internalTable(r.dbs[database], tableOfShards)
	var counts []shardCount
	err := r.plainOn(ctx, database, table).Where("name IN ?", r.sharded()).Find(&counts).Error
	if err != nil {
		return nil, fmt.Errorf("table %s in database %d: %w", table, database, err)
	}
	return counts, nil
}

// sharded lists the tables, without numbers, of all models that have shards.
func (r *routing) sharded() []string {
	var names []string
	for _, m := range r.models {
		if !m.broadcast {
			names = append(names, m.base.Table)
		}
	}
	return names
}

// writeState notes the number of shards, where nothing is noted yet.
func (r *routing) writeState(ctx context.Context) error {
	var counts []shardCount
	for _, name := range r.sharded() {
		counts = append(counts, shardCount{Name: name, Shards: r.shards})
	}
	if len(counts) == 0 {
		return nil
	}
	for i, db := range r.dbs {
		table := internalTable(db, tableOfShards)
		if err := r.plainOn(ctx, i, table).AutoMigrate(&shardCount{}); err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
		tx := r.plainOn(ctx, i, table).Clauses(clause.OnConflict{DoNothing: true})
		if err := tx.Create(&counts).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	if err := r.readState(); err != nil {
		return fmt.Errorf("%w: %w", ErrSharding, err)
	}
	return nil
}
