package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// Switch brings the copies up to date, verifies them, and makes the new tables the ones that count.
// Nothing may write to the sharded models from its beginning until every process works with the
// doubled number; reads need not stop. It returns the router that takes the place of the one that
// was doubled, which from then on refuses statements.
//
// It returns the errors of [Doubling.Copy] and [Doubling.Verify]; then nothing is switched. If a
// database fails while the number of shards is noted, call it again: until it succeeds no program can
// start with either number.
func (d *Doubling) Switch(ctx context.Context) (*Router, error) {
	if err := d.Copy(ctx); err != nil {
		return nil, err
	}
	if err := d.repair(ctx); err != nil {
		return nil, err
	}
	if err := d.Verify(ctx); err != nil {
		return nil, err
	}
	for _, move := range d.moves() {
		if err := move.noteHigh(ctx); err != nil {
			return nil, move.failed("switching", err)
		}
	}
	if err := d.to.noteDoubled(ctx, d.from.shards); err != nil {
		return nil, err
	}
	d.to.uncleaned.Store(int64(d.from.shards))
	if err := d.to.install(d.from.routing); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSharding, err)
	}
	return &Router{routing: d.to}, nil
}

// noteHigh notes the last row of the old table, beyond which nothing may come any more.
func (m *doublingMove) noteHigh(ctx context.Context) error {
	tx := m.d.to.plainOn(ctx, m.FromDatabase, m.FromTable).Model(m.model.value).Unscoped()
	var high int64
	key := clause.Column{Name: m.model.key.DBName}
	if err := tx.Select("COALESCE(MAX(?), 0)", key).Scan(&high).Error; err != nil {
		return err
	}
	return m.target(ctx).Transaction(func(tx *gorm.DB) error {
		at, err := m.journal(tx)
		if err != nil {
			return err
		}
		at.High = high
		return m.journalTable(tx).Save(&at).Error
	})
}

// noteDoubled writes the new number of shards, and where they are, into all databases.
func (r *routing) noteDoubled(ctx context.Context, before int) error {
	for i := range r.dbs {
		if err := r.note(ctx, i, before, clause.OnConflict{UpdateAll: true}); err != nil {
			return err
		}
	}
	return nil
}

// Cleaner returns the doubling that the databases of the router are in, for a process that was
// started after the switch: its [Doubling.Clean] removes what was moved. It is nil if there is none.
func (r *Router) Cleaner() (*Doubling, error) {
	uncleaned := int(r.uncleaned.Load())
	if uncleaned == 0 {
		return nil, nil
	}
	before := ShardingConfig{
		Layout: r.layout, Shards: uncleaned, Databases: r.dbs,
		Place: func(shard int) int { return r.place[shard] },
	}
	from, err := newRouting(before, r.given())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSharding, err)
	}
	return &Doubling{
		from: &Router{routing: from}, to: r.routing, chunk: defaultChunk, told: func(DoublingProgress) {},
	}, nil
}

// errWrittenLate is the error of Clean for rows that came into an old table after the switch, by a
// process that did not know of it.
var errWrittenLate = errors.New("rows were written to it after the switch, by a process that still has the " +
	"old number of shards: end that, and move them by hand")

// Clean removes the rows that were moved from the old tables, in chunks. Call it after Switch, when
// every process works with the doubled number and reads that the router of before had begun have ended:
// they would miss what is removed. Until it has succeeded every read of an old table leaves out
// what was moved, which takes a little longer; other processes go on with that until they are started anew.
//
// It refuses to touch a table into which rows were written after the switch.
func (d *Doubling) Clean(ctx context.Context) error {
	if d.cleaned {
		return nil
	}
	if d.to.uncleaned.Load() == 0 {
		return fmt.Errorf("%w: the shards are not switched yet", ErrSharding)
	}
	for _, move := range d.moves() {
		if err := move.clean(ctx); err != nil {
			return move.failed("cleaning", err)
		}
	}
	for i, db := range d.to.dbs {
		table := internalTable(db, tableOfShards)
		tx := d.to.plainOn(ctx, i, table).Where("name IN ?", d.to.sharded())
		if err := tx.Update("uncleaned", 0).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, i, err)
		}
		names := make([]string, 0)
		for _, move := range d.moves() {
			names = append(names, move.ToTable)
		}
		tx = d.to.plainOn(ctx, i, internalTable(db, tableOfMoves)).Where("name IN ?", names)
		if err := tx.Delete(&shardMove{}).Error; err != nil {
			return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", tableOfMoves, i, err)
		}
	}
	d.to.uncleaned.Store(0)
	d.cleaned = true
	return nil
}

func (m *doublingMove) clean(ctx context.Context) error {
	var at shardMove
	journal := m.d.to.plainOn(ctx, m.ToDatabase, internalTable(m.d.to.dbs[m.ToDatabase], tableOfMoves))
	// Without an entry this was done before: nothing is left, or it came later.
	err := journal.Where("name = ?", m.ToTable).Take(&at).Error
	if err != nil && !errors.Is(err, gorm.ErrRecordNotFound) {
		return err
	}
	key := clause.Column{Name: m.model.key.DBName}
	var late int64
	if err := m.leaving(ctx).Where(clause.Gt{Column: key, Value: at.High}).Count(&late).Error; err != nil {
		return err
	}
	if late > 0 {
		return fmt.Errorf("%d %w", late, errWrittenLate)
	}
	for removed := int64(0); ; {
		rows, err := m.read(m.leaving(ctx), 0, m.d.chunk)
		if err != nil || rows.Len() == 0 {
			return err
		}
		last := m.keyOf(ctx, rows.Index(rows.Len()-1))
		gone := m.leaving(ctx).Where(clause.Lte{Column: key, Value: last}).Delete(m.model.value)
		if gone.Error != nil {
			return gone.Error
		}
		removed += gone.RowsAffected
		m.d.told(DoublingProgress{Step: "clean", Table: m.FromTable, Rows: removed})
	}
}

// leftOvers keeps the rows that were moved out of a shard, and not removed from its table yet, out of
// what is read. It is one of the clauses that GORM adds by itself, as that of a soft delete. Updates
// and deletes go without: what they do to those rows does not matter any more.
type leftOvers struct {
	of     *routing
	shard  int
	column string
}

var _ gorm.StatementModifier = leftOvers{}

// clauseLeftOvers marks a statement that leaves them out.
const clauseLeftOvers = "snowflake_left_overs"

// isUncleaned reports whether the table of a shard may have rows that were moved out of it.
func (r *routing) isUncleaned(shard int) bool { return shard < int(r.uncleaned.Load()) }

// withoutLeftOvers adds the clause to the schema of a shard.
func (r *routing) withoutLeftOvers(s *schema.Schema, shard int) {
	if !r.isUncleaned(shard) {
		return
	}
	s.QueryClauses = append(s.QueryClauses, leftOvers{r, shard, s.PrioritizedPrimaryField.DBName})
}

// Name, Build and MergeClause make it a clause; what it does is in ModifyStatement.
func (c leftOvers) Name() string               { return "" }
func (c leftOvers) Build(clause.Builder)       {}
func (c leftOvers) MergeClause(*clause.Clause) {}

// ModifyStatement adds the condition.
func (c leftOvers) ModifyStatement(stmt *gorm.Statement) {
	if _, added := stmt.Clauses[clauseLeftOvers]; added || !c.of.isUncleaned(c.shard) {
		return
	}
	// What the caller said with OR must not reach past it.
	if where, ok := stmt.Clauses["WHERE"].Expression.(clause.Where); ok && len(where.Exprs) > 0 {
		of := stmt.Clauses["WHERE"]
		of.Expression = clause.Where{Exprs: []clause.Expression{clause.And(where.Exprs...)}}
		stmt.Clauses["WHERE"] = of
	}
	stmt.AddClause(clause.Where{Exprs: []clause.Expression{c.of.lies(c.column, c.shard)}})
	stmt.Clauses[clauseLeftOvers] = clause.Clause{}
}
