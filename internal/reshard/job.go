// Package reshard moves the rows of shards to tables of a new generation, while programs read and write them.
//
// The unit is a job: it empties the tables of some entries of the shard map, and fills those of others. A
// split fills several entries from one, a join fills one from several, and a move fills one in another
// database from one. The new tables have names that no table ever had, and the old ones are renamed away in
// the end. So a statement that comes late finds no table, whatever kind of statement it is.
//
//  1. Make: what cannot be moved is refused by name, before anything is made. Then the new tables are made.
//  2. Capture: triggers on the old tables list the key of each row that is written.
//  3. Copy: the rows are copied in the order of their keys, each chunk in one transaction with the journal.
//  4. Drain: the listed keys are copied again, and what is in the list is removed from it. Then all rows are
//     compared once. From there on, only rows whose keys are listed can differ.
//  5. Cutover: under a lock of the old tables, what is still listed is copied and compared, the old tables
//     are renamed, and the entries of the shard map are replaced. On PostgreSQL and SQLite, in one database,
//     these are one transaction. Elsewhere the entries are closed meanwhile, so that nobody is routed to a
//     table that is gone, and the journal says where the next process goes on.
//  6. Clean drops the old tables. Before the cutover, Drop removes the new ones.
//
// Every step can be repeated by another process. Whoever begins one takes the job over: he writes a number of
// his own into the journal, and whoever does not find his number there any more changes nothing. The rows
// of the old tables are the valid ones until the entries are replaced, so until then the way back is open.
package reshard

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// Job says what becomes of which shards. It is not safe for concurrent use; several processes may run the
// same job, and the last one that took it over gets through.
type Job struct {
	// Name tells the job from every other one in its databases, of before and of later. It has at most 20
	// letters, digits and underscores, because names of triggers begin with it.
	Name       string
	Old, Fresh []shardmap.Entry
	// Databases are those that the entries have numbers of.
	Databases []*gorm.DB
	// Tables returns the tables of an entry, those of the same models in the same order for all entries. The
	// column of a table tells the shard of a row. Several rows may have the same value there.
	Tables func(shardmap.Entry) []shardmap.Table
	// Make makes the tables of an entry that are not there yet.
	Make func(context.Context, shardmap.Entry) error
	// Mask has the bits of a key that are the sequence, of which a class is the remainder.
	Mask int64
	Map  Map
	Over bool // the map has none of Old any more

	Chunk         int           // rows or keys of one transaction; the default is 1000
	RowsPerSecond int           // that are copied at most; 0 is no limit
	Budget        time.Duration // how long the cutover tries to get its lock; the default is one second
	Progress      func(Progress)

	reached func(step) // tells a test where the job is
}

// Map is what a job changes in the shard map. Each function does nothing if it has been done, and is an error
// if the map has gone on since.
type Map interface {
	// Close keeps statements from the entries of the job until Open.
	Close(ctx context.Context) error
	// Lock keeps others from the entries until a transaction has ended that replaces them.
	Lock(ctx context.Context, tx *gorm.DB) error
	// Replace replaces the entries of Old by those of Fresh. If the cutover is one transaction, tx is that
	// transaction, which has called Lock, and the entries are not closed. Otherwise tx is nil.
	Replace(ctx context.Context, tx *gorm.DB) error
	// Open lets statements go on, by the entries that are there.
	Open(ctx context.Context) error
}

// Progress says how far a job is.
type Progress struct {
	Step      string // check, copy, drain, compare
	Table     string // the one that is filled, or read
	Rows, Of  int64  // done, and in all, as far as they are known
	PerSecond float64
	Left      time.Duration
	Bytes     int64 // of the copies, in the step check
}

// The defaults of a job.
const (
	defaultChunk  = 1000
	defaultBudget = time.Second
)

// machine is a job with its databases open.
type machine struct {
	*Job
	home       *database   // of Fresh[0], whose journal has the phase of the job
	dbs        []*database // all of them, each once
	journals   []*database // those of Fresh, which come first
	old, fresh []*side
	moves      []*move
	owner      int64
	atomic     bool // the cutover is one transaction
}

// side is an entry.
type side struct {
	shardmap.Entry
	m      *machine
	d      *database
	tables []*table
	begin  string // of the names of all that the job makes beside the tables
	keys   string // the table of the keys that were written
}

// table is a table of an entry.
type table struct {
	shardmap.Table
	side *side
	n    int    // the position in the entry
	away string // what an old table is called in the end
	now  string // what it is called
	// facts describe an old table as it was compared with the new ones.
	facts []string
	// witnesses are keys of rows that were there when the comparison began, and to which nobody has written
	// since. If one of them is still there, nobody has emptied the table meanwhile: whoever does so and stores
	// the row again is seen by a trigger.
	witnesses map[int64]bool
}

func (t *table) quoted() string { return t.side.d.Quoted(t.now) }

// residue is the expression for the residue of a key, whose column is quoted, by a modulus.
func (t *table) residue(column string, modulus int) string {
	return t.side.d.Remainder(fmt.Sprintf("(%s & %d)", column, t.side.m.Mask), modulus)
}

// triggerName is how the names of the triggers of a table begin.
func (t *table) triggerName() string { return fmt.Sprintf("%s_%d", t.side.begin, t.n) }

func tablesOf(sides []*side) (all []*table) {
	for _, s := range sides {
		all = append(all, s.tables...)
	}
	return all
}

func quotedTables(s *side) (names []string) {
	for _, t := range s.tables {
		names = append(names, t.quoted())
	}
	return names
}

// move is the copying of those rows of an old table that belong in a new one.
type move struct {
	shardmap.Class           // of these rows
	m                        *machine
	old, fresh               *table
	id                       string // in the journal
	belongs                  string // the condition that a row of one of the tables is one of these
	oldColumns, freshColumns []column
}

// open opens the databases of a job.
func (j *Job) open() (*machine, error) {
	m := &machine{Job: j, owner: rand.Int64()} //nolint:gosec // It is no secret.
	j.Chunk, j.Budget = cmp.Or(max(j.Chunk, 0), defaultChunk), cmp.Or(max(j.Budget, 0), defaultBudget)
	if j.Progress == nil {
		j.Progress = func(Progress) {}
	}
	if j.reached == nil {
		j.reached = func(step) {}
	}
	var err error
	if m.fresh, err = sidesOf(m, j.Fresh); err == nil {
		m.journals = slices.Clone(m.dbs)
		m.old, err = sidesOf(m, j.Old)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range m.dbs {
		d.apart = len(m.dbs) > 1
	}
	m.home = m.fresh[0].d
	m.atomic = len(m.dbs) == 1 && m.home.transactional
	for _, old := range m.old {
		for _, fresh := range m.fresh {
			finer := fresh
			if old.Modulus > fresh.Modulus {
				finer = old
			}
			for i, t := range old.tables {
				m.moves = append(m.moves, &move{Class: finer.Class, m: m, old: t, fresh: fresh.tables[i],
					id:      fmt.Sprintf("%s/%d", j.Name, len(m.moves)+1),
					belongs: fmt.Sprintf("%s = %d", t.residue(old.d.Quote(t.Column), finer.Modulus), finer.Residue)})
			}
		}
	}
	return m, nil
}

// sidesOf opens entries.
func sidesOf(m *machine, entries []shardmap.Entry) (all []*side, err error) {
	for i, e := range entries {
		s := &side{Entry: e, m: m, begin: fmt.Sprintf("snowflake_%s_%d", m.Name, i)}
		if s.d, err = databaseOf(m, e); err != nil {
			return nil, err
		}
		for n, named := range m.Tables(e) {
			if named.Column == "" {
				return nil, fmt.Errorf("%w: no column of %s is a number that tells the shard of a row",
					errs.ErrSharding, named.Base)
			}
			away := beside(named.Name, shorten(bare(named.Name), "_away"))
			s.tables = append(s.tables, &table{Table: named, side: s, n: n, now: named.Name, away: away})
		}
		s.keys = beside(s.tables[0].Name, s.begin+"_keys")
		all = append(all, s)
	}
	return all, nil
}

// databaseOf opens the database of an entry, if it is not open yet.
func databaseOf(m *machine, e shardmap.Entry) (*database, error) {
	if e.Database >= len(m.Databases) {
		return nil, fmt.Errorf("%w: shard %s is in database %d, and this router has %d", errs.ErrSharding,
			e.Class, e.Database, len(m.Databases))
	}
	for _, d := range m.dbs {
		if d.db.ConnPool == m.Databases[e.Database].ConnPool {
			return d, nil
		}
	}
	d, err := openDatabase(m.Databases[e.Database])
	if err != nil {
		return nil, err
	}
	if m.dbs = append(m.dbs, d); d.Kind != m.dbs[0].Kind {
		return nil, fmt.Errorf("%w: rows can be moved only between databases of one kind, and these are %s "+
			"and %s", errs.ErrSharding, m.dbs[0].Kind, d.Kind)
	}
	return d, nil
}

// step is a point at which a process may be killed. Tests do so.
type step int

// The steps, in the order in which a job comes to them.
const (
	stepTaken step = iota + 1
	stepMade
	stepListed // the table of the keys is there
	stepCaught // there is one more trigger
	stepCopied // one more chunk is copied
	stepApplied
	stepDrained
	stepCompared
	stepCutting
	stepClosed
	stepLocked
	stepSettled
	stepRenamed // one more table has its new name
	stepReplaced
	stepCut // committed, or unlocked
	stepReplacing
	stepEntered
	stepOpened
	stepDropped
	lastStep
)
