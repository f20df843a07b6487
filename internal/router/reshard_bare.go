package router

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// OpenResharding returns the resharding that is under way in some databases, by their records and journals
// alone. It needs no models, and no router. It returns nil if none is under way.
func OpenResharding(ctx context.Context, cfg ReshardConfig) (*Resharding, error) {
	journal, err := readJournals(ctx, cfg.Databases)
	if err != nil || len(journal) == 0 {
		return nil, err
	}
	d := &Resharding{chunk: cfg.Chunk, onProgress: cfg.Progress}
	if d.chunk == 0 {
		d.chunk = defaultChunk
	}
	if d.onProgress == nil {
		d.onProgress = func(ReshardProgress) {}
	}
	shards := journal[0].Shards
	var names []string
	place := map[int]int{}
	for _, of := range journal {
		switch {
		case of.Base == "" || of.Shards == 0:
			return nil, fmt.Errorf("%w: the journal was written by an older version: call Reshard in the program "+
				"once, and try again", errs.ErrSharding)
		case of.Shards != shards:
			return nil, fmt.Errorf("%w: two reshardings are under way, to %d shards and to %d: go on with each in "+
				"its own program", errs.ErrSharding, shards, of.Shards)
		}
		if !slices.Contains(names, of.Base) {
			names = append(names, of.Base)
		}
		place[of.Shard] = of.database
	}
	slices.Sort(names)
	records, err := shardmap.ReadMaps(ctx, cfg.Databases, names)
	if err != nil {
		return nil, err
	}
	var span time.Duration
	for _, of := range records {
		for _, shard := range shardmap.ReadShards(of.Held) {
			if shard < shards/2 {
				place[shard] = of.Database
			}
		}
		span = max(span, time.Duration(of.LeaseMillis)*time.Millisecond)
	}
	for shard := range shards / 2 {
		if _, known := place[shard]; !known {
			return nil, fmt.Errorf("%w: shard %d is in none of these databases: give all databases of the router",
				errs.ErrSharding, shard)
		}
	}
	// A new shard without a journal has no table yet, or not any more. Resume and Undo see that.
	d.shards = shards / 2
	if d.from, err = shardmap.BareTopology(cfg.Databases, shards/2, place, names, records); err != nil {
		return nil, err
	}
	if d.to, err = shardmap.BareTopology(cfg.Databases, shards, place, names, records); err != nil {
		return nil, err
	}
	d.from.Span = span
	d.moves = d.allMoves()
	_, err = d.look(ctx)
	return d, err
}

// journalRecord is a record of the journal with the database that has it.
type journalRecord struct {
	shardmap.MoveRecord
	database int
}

// readJournals reads the journals of all databases.
func readJournals(ctx context.Context, dbs []*gorm.DB) ([]journalRecord, error) {
	var all []journalRecord
	for i, db := range dbs {
		var found []shardmap.MoveRecord
		byName := func(tx *gorm.DB) *gorm.DB { return tx.Order("name") }
		err := shardmap.ReadAll(ctx, db, shardmap.MovesTable, &found, byName)
		if err != nil {
			return nil, fmt.Errorf("snowflakeplugin: the journal in database %d: %w", i, err)
		}
		for _, record := range found {
			all = append(all, journalRecord{record, i})
		}
	}
	return all, nil
}
