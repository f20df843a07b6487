package router

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Status is what some databases say about the shards in them, and about a resharding.
type Status struct {
	Models     []MapStatus    `json:"models"`
	Resharding *ReshardStatus `json:"resharding"` // nil if none is under way
}

// MapStatus is the shard map of one model.
type MapStatus struct {
	Table   string       `json:"table"` // without a shard number
	Shards  int          `json:"shards"`
	Version int64        `json:"version"`
	Closed  bool         `json:"closed"` // nothing is routed
	Tables  []ShardTable `json:"tables"`
}

// ShardTable is the table of a shard.
type ShardTable struct {
	Table    string `json:"table"`
	Shard    int    `json:"shard"`
	Database int    `json:"database"`
	Rows     int64  `json:"rows"`
}

// ReshardStatus says how far a resharding is.
type ReshardStatus struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	State  string `json:"state"`
	Next   string `json:"next"` // what is left to do
	Copied int64  `json:"copied"`
	Moving int64  `json:"moving"` // rows that have to be copied
}

// ReadStatus reads the records, the journals and the number of rows of each table. d is the resharding that
// is under way, as OpenResharding returns it, or nil.
func ReadStatus(ctx context.Context, dbs []*gorm.DB, d *Resharding) (Status, error) {
	status := Status{Models: []MapStatus{}}
	records, err := readMaps(ctx, dbs, nil)
	if err != nil {
		return status, err
	}
	at := map[string]int{} // index into status.Models
	for _, of := range records {
		i, seen := at[of.Name]
		if !seen {
			i = len(status.Models)
			at[of.Name] = i
			status.Models = append(status.Models, MapStatus{Table: of.Name})
		}
		m := &status.Models[i]
		m.Shards, m.Version = max(m.Shards, of.Shards), max(m.Version, of.Version)
		m.Closed = m.Closed || of.NextShards != 0
		for _, shard := range readShards(of.Held) {
			table := ShardTable{Table: tableOn(of.Name, shard), Shard: shard, Database: of.database}
			db := dbs[of.database].Session(&gorm.Session{NewDB: true, Context: ctx, SkipHooks: true})
			err := db.Raw("SELECT COUNT(*) FROM " + db.Statement.Quote(table.Table)).Scan(&table.Rows).Error
			if err != nil {
				return status, fmt.Errorf("snowflakeplugin: counting %s in database %d: %w", table.Table, of.database,
					err)
			}
			m.Tables = append(m.Tables, table)
		}
	}
	for _, m := range status.Models {
		slices.SortFunc(m.Tables, func(a, b ShardTable) int { return cmp.Compare(a.Shard, b.Shard) })
	}
	if d == nil {
		return status, nil
	}
	status.Resharding, err = d.status(ctx)
	return status, err
}

// status describes the resharding.
func (d *Resharding) status(ctx context.Context) (*ReshardStatus, error) {
	s, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	r := &ReshardStatus{From: d.from.shards, To: d.to.shards}
	done := true
	for i := range d.moves {
		at, err := d.moves[i].readJournal(ctx)
		if err != nil {
			return nil, err
		}
		r.Copied += at.Copied
		done = done && at.Done
		r.Moving += at.Copied
		if s.phase <= phaseHalf {
			rows, err := d.moves[i].countSource(ctx)
			if err != nil {
				return nil, d.moves[i].failed("counting", err)
			}
			r.Moving += max(rows-at.Copied, 0)
		}
	}
	r.State, r.Next = s.phase.describe(done)
	return r, nil
}

// describe says what a phase is and what comes next.
func (p phase) describe(copied bool) (state, next string) {
	const goOn = "resume brings the copies up to date and cuts over; undo drops the new tables"
	switch p {
	case phaseOpen:
		if !copied {
			return "copying", "resume copies the rest and cuts over; undo drops the new tables"
		}
		return "copied", goOn
	case phaseClosed:
		return "cutover interrupted, or under way: the shard map is closed", goOn
	case phaseHalf:
		return "cutover interrupted, or under way: some databases have recorded the new map", goOn
	case phaseRecorded:
		return "cutover interrupted, or under way: all databases have recorded the new map",
			"resume removes the moved rows from the old tables and opens the map; undo goes back"
	case phaseCut:
		return "cut over", "clean ends the resharding; undo goes back"
	case phaseUndoing:
		return "undo interrupted, or under way: the shard map is closed", "undo copies the rows back"
	case phaseUndoHalf:
		return "undo interrupted, or under way: some databases have recorded the old map", "undo records the rest"
	case phaseUndone:
		return "undo interrupted, or under way: all databases have recorded the old map", "undo opens the map"
	case phaseDropping:
		return "undone", "undo drops the new tables"
	}
	return "ended", "clean removes the journal"
}

// Resume goes on to the end of the cutover, from any phase before that.
func (d *Resharding) Resume(ctx context.Context) error {
	s, err := d.look(ctx)
	if err != nil || s.phase == phaseCut {
		return err
	}
	for i := range d.moves {
		exists, err := d.hasTable(ctx, d.moves[i].ToDatabase, d.moves[i].ToTable)
		if err != nil {
			return err
		}
		if !exists && s.phase <= phaseHalf {
			return fmt.Errorf("%w: the table %s is not there: Reshard was interrupted before it had made all "+
				"tables: call it again in the program, or undo", errs.ErrSharding, d.moves[i].ToTable)
		}
	}
	_, err = d.Cutover(ctx)
	return err
}

// Numbers returns the numbers of shards before and after the resharding.
func (d *Resharding) Numbers() (before, after int) { return d.from.shards, d.to.shards }
