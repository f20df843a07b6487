package snowflakeplugin

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

const (
	// tableOfShards says over how many shards the rows of each model are spread, and which of them
	// are here. It is in every database of a router, and written by AutoMigrate and by a doubling.
	tableOfShards = "snowflake_shards"
	// tableOfMoves is the journal of a doubling.
	tableOfMoves = "snowflake_moves"
)

// shardCount is a row of the table of shards.
type shardCount struct {
	Name   string `gorm:"primaryKey;size:191"` // the model's table, without a number
	Shards int    `gorm:"not null"`
	// Held lists the shards that this database has, such as 0-3,8.
	Held string `gorm:"type:text;not null"`
	// Complete is set when all databases of the router have such a row, so that one without it is
	// none of them.
	Complete bool `gorm:"not null"`
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
	uncleaned := 0
	names := r.sharded()
	complete := map[string]int{} // by name, a database that says so
	silent := map[string]int{}   // by name, one that should know of it and does not
	for i := range r.dbs {
		counts, err := r.countsIn(i)
		if err != nil {
			return err
		}
		held := r.held(i)
		known := map[string]bool{}
		for _, c := range counts {
			if err := r.compareState(i, c, held); err != nil {
				return err
			}
			known[c.Name] = true
			if c.Complete {
				complete[c.Name] = i
			}
			uncleaned = max(uncleaned, c.Uncleaned)
		}
		for _, name := range names {
			if held != "" && !known[name] {
				silent[name] = i
			}
		}
	}
	for _, name := range names {
		i, missing := silent[name]
		if other, found := complete[name]; found && missing {
			return fmt.Errorf("database %d knows nothing of %s, as table %s there would say, though by "+
				"database %d its shards are spread already: it is another database than before, or new; see "+
				"Databases in docs/sharding.md for how to add one", i, name,
				internalTable(r.dbs[i], tableOfShards), other)
		}
	}
	r.uncleaned.Store(int64(uncleaned))
	return nil
}

// compareState compares what a database says of a model with the configuration.
func (r *routing) compareState(database int, c shardCount, held string) error {
	table := internalTable(r.dbs[database], tableOfShards)
	if c.Shards != r.shards {
		return fmt.Errorf("%s has %d shards, as table %s in database %d says: set Shards to that, or double "+
			"them by Router.Double", c.Name, c.Shards, table, database)
	}
	if c.Held != held {
		return fmt.Errorf("database %d has %s of %s, as table %s there says, and by this configuration it "+
			"would have %s: correct the order and number of Databases, or set Place to where the shards are; if "+
			"you moved whole tables, note it there as held = '%s'",
			database, shardsHeld(c.Held), c.Name, table, shardsHeld(held), held)
	}
	return nil
}

func shardsHeld(held string) string {
	if held == "" {
		return "no shard"
	}
	return "shards " + held
}

// held lists the shards of a database, such as 0-3,8.
func (r *routing) held(database int) string {
	var b strings.Builder
	first, last := -1, -2 // of a run of shards
	end := func() {
		if last > first {
			fmt.Fprintf(&b, "-%d", last)
		}
	}
	for shard, at := range r.place {
		if at != database {
			continue
		}
		if shard == last+1 {
			last = shard
			continue
		}
		end()
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(shard))
		first, last = shard, shard
	}
	end()
	return b.String()
}

// ping asks a database for a sign of life, if it has a pool that can.
func ping(ctx context.Context, db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return nil //nolint:nilerr // something of the application's, which may not be asked
	}
	return pool.PingContext(ctx)
}

// countsIn reads the rows about the router's models, if there is the table.
func (r *routing) countsIn(database int) ([]shardCount, error) {
	db := r.dbs[database]
	ctx := db.Statement.Context
	table := internalTable(db, tableOfShards)
	var counts []shardCount
	if !db.Session(&gorm.Session{NewDB: true, Context: ctx}).Migrator().HasTable(table) {
		// That is also what GORM says if it cannot ask.
		if err := ping(ctx, db); err != nil {
			return nil, fmt.Errorf("table %s in database %d: %w", table, database, err)
		}
		return nil, nil
	}
	if err := r.plainOn(ctx, database, table).Where("name IN ?", r.sharded()).Find(&counts).Error; err != nil {
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

// writeState notes the number of shards and their places, where nothing is noted yet.
func (r *routing) writeState(ctx context.Context) error {
	names := r.sharded()
	if len(names) == 0 {
		return nil
	}
	for i := range r.dbs {
		if err := r.note(ctx, i, 0, clause.OnConflict{DoNothing: true}); err != nil {
			return err
		}
	}
	if err := r.readState(); err != nil {
		return fmt.Errorf("%w: %w", ErrSharding, err)
	}
	// Only now: a process that ends halfway leaves databases without rows.
	for i, db := range r.dbs {
		table := internalTable(db, tableOfShards)
		tx := r.plainOn(ctx, i, table).Where("name IN ? AND complete = ?", names, false)
		if err := tx.Update("complete", true).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
	}
	return nil
}

// note writes the rows about the router's models into a database. After a doubling, of which uncleaned
// tells, all databases have rows already.
func (r *routing) note(ctx context.Context, database, uncleaned int, conflict clause.OnConflict) error {
	var counts []shardCount
	held := r.held(database)
	for _, name := range r.sharded() {
		counts = append(counts, shardCount{
			Name: name, Shards: r.shards, Held: held, Complete: uncleaned > 0, Uncleaned: uncleaned,
		})
	}
	table := internalTable(r.dbs[database], tableOfShards)
	err := r.plainOn(ctx, database, table).AutoMigrate(&shardCount{})
	if err == nil {
		err = r.plainOn(ctx, database, table).Clauses(conflict).Create(&counts).Error
	}
	if err != nil {
		return fmt.Errorf("snowflakeplugin: table %s in database %d: the number of shards could not be noted: %w",
			table, database, err)
	}
	return nil
}
