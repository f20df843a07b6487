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
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// Job says what becomes of which shards. It is not safe for concurrent use; several processes may run the
// same job, and the last one that took it over gets through.
type Job struct {
	// Name tells the job from every other one in its databases, of before and of later. It has at most 20
	// letters, digits and underscores, because names of triggers begin with it.
	Name     string
	From, To []shardmap.Entry
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
	// Replace replaces the entries of From by those of To. If the cutover is one transaction, tx is that
	// transaction, and the entries are not closed. Otherwise tx is nil.
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
	home     *database   // of To[0], whose journal has the phase of the job
	dbs      []*database // all of them, each once
	from, to []*side
	moves    []*move
	owner    int64
	atomic   bool // the cutover is one transaction
}

// side is an entry.
type side struct {
	shardmap.Entry
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
	// witnesses are keys of rows that were there when the comparison began, and to which nobody has written
	// since. If one of them is still there, nobody has emptied the table meanwhile: whoever does so and stores
	// the row again is seen by a trigger.
	witnesses map[int64]bool
}

func (t *table) quoted() string { return t.side.d.Quoted(t.now) }

// move is the copying of those rows of an old table that belong in a new one.
type move struct {
	from, to         *table
	id               string // in the journal
	residue, modulus int    // the class of these rows
	belongs          string // the condition that a row of one of the tables is one of these
	columns, into    []column
}

// open opens the databases of a job.
func (j *Job) open() (*machine, error) {
	m := &machine{Job: j, owner: rand.Int64()} //nolint:gosec // It is no secret.
	if j.Chunk <= 0 {
		j.Chunk = defaultChunk
	}
	if j.Budget <= 0 {
		j.Budget = defaultBudget
	}
	if j.Progress == nil {
		j.Progress = func(Progress) {}
	}
	if j.reached == nil {
		j.reached = func(step) {}
	}
	for _, part := range [...]struct {
		entries []shardmap.Entry
		sides   *[]*side
	}{{j.To, &m.to}, {j.From, &m.from}} {
		for i, e := range part.entries {
			s, err := m.openSide(e, i)
			if err != nil {
				return nil, err
			}
			*part.sides = append(*part.sides, s)
		}
	}
	m.home = m.to[0].d
	m.atomic = len(m.dbs) == 1 && m.home.Kind != dialect.MySQL
	for _, from := range m.from {
		for _, to := range m.to {
			finer := to
			if from.Modulus > to.Modulus {
				finer = from
			}
			for i, t := range from.tables {
				m.moves = append(m.moves, &move{from: t, to: to.tables[i], residue: finer.Residue,
					modulus: finer.Modulus, id: fmt.Sprintf("%s/%d", j.Name, len(m.moves)+1),
					belongs: fmt.Sprintf("(%s & %d) %% %d = %d", from.d.Quote(t.Column), j.Mask, finer.Modulus,
						finer.Residue)})
			}
		}
	}
	return m, nil
}

func (m *machine) openSide(e shardmap.Entry, i int) (*side, error) {
	if e.Database >= len(m.Databases) {
		return nil, fmt.Errorf("%w: shard %s is in database %d, and this router has %d", errs.ErrSharding,
			e.Class, e.Database, len(m.Databases))
	}
	s := &side{Entry: e, begin: fmt.Sprintf("snowflake_%s_%d", m.Name, i)}
	for _, d := range m.dbs {
		if d.db.ConnPool == m.Databases[e.Database].ConnPool {
			s.d = d
		}
	}
	if s.d == nil {
		d, err := openDatabase(m.Databases[e.Database])
		if err != nil {
			return nil, err
		}
		if len(m.dbs) > 0 && d.Kind != m.dbs[0].Kind {
			return nil, fmt.Errorf("%w: rows can be moved only between databases of one kind, and these are %s "+
				"and %s", errs.ErrSharding, m.dbs[0].Kind, d.Kind)
		}
		s.d, m.dbs = d, append(m.dbs, d)
	}
	for n, named := range m.Tables(e) {
		if named.Column == "" {
			return nil, fmt.Errorf("%w: no column of %s is a number that tells the shard of a row",
				errs.ErrSharding, named.Base)
		}
		s.tables = append(s.tables, &table{
			Table: named, side: s, n: n, now: named.Name, away: awayName(named.Name),
		})
	}
	s.keys = beside(s.tables[0].Name, s.begin+"_keys")
	return s, nil
}

// Run does the job to the end of its cutover, from wherever it stands. It returns how long writes to the
// shards had to wait at the most.
func (j *Job) Run(ctx context.Context) (stopped time.Duration, err error) {
	m, err := j.open()
	if err != nil {
		return 0, err
	}
	current, err := m.phaseNow(ctx)
	if err == nil && current == "" { // Nothing is made yet, not even the journal.
		err = (&checker{m}).check(ctx)
	}
	if err == nil {
		current, err = m.take(ctx)
	}
	m.reached(stepTaken)
	if err != nil {
		return 0, m.failed("beginning", err)
	}
	switch current {
	case phaseDropping:
		return 0, fmt.Errorf("%w: job %s is being dropped: call Drop again", errs.ErrSharding, m.Name)
	case phaseReplacing, phaseCut:
		return 0, m.failed("ending the cutover", (&cutter{m}).finish(ctx))
	}
	if err := m.prepare(ctx); err != nil {
		return 0, m.failed("preparing", err)
	}
	if err := (&copier{m}).copyAll(ctx); err != nil {
		return 0, m.failed("copying", err)
	}
	for range maxCutovers {
		if err = (&copier{m}).approach(ctx); err == nil {
			stopped, err = (&cutter{m}).cutover(ctx)
		}
		if !errors.Is(err, errUnseen) {
			break
		}
	}
	return stopped, m.failed("cutting over", err)
}

// maxCutovers is how often a cutover is tried while rows are written that no trigger sees.
const maxCutovers = 3

// failed says which job an error is of.
func (m *machine) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if dialect.Missing(err) && !errors.Is(err, errs.ErrSharding) {
		err = fmt.Errorf("%w: a table is gone, which happens when another process goes on with the job: look at "+
			"its state, and call the step again: %w", errs.ErrSharding, err)
	}
	return fmt.Errorf("snowflakeplugin: reshard %s: %s: %w", m.Name, doing, err)
}

// Check refuses what Run would refuse, reports how much space the copies need, and makes nothing.
func (j *Job) Check(ctx context.Context) error {
	m, err := j.open()
	if err == nil {
		err = (&checker{m}).checkColocated(ctx)
	}
	if err == nil {
		err = (&checker{m}).check(ctx)
	}
	if err != nil {
		return err
	}
	bytes, err := (&checker{m}).space(ctx)
	if err == nil {
		m.Progress(Progress{Step: "check", Bytes: bytes})
	}
	return err
}

// prepare brings a job to where rows can be copied.
func (m *machine) prepare(ctx context.Context) error {
	begun, err := m.locate(ctx)
	if err != nil {
		return err
	}
	if !begun {
		if err := (&checker{m}).check(ctx); err != nil {
			return err
		}
		for _, s := range m.to {
			if err := m.Make(ctx, s.Entry); err != nil {
				return err
			}
		}
		m.reached(stepMade)
	}
	if err := (&comparer{m}).readColumns(ctx); err != nil || begun {
		return err
	}
	if err := (&checker{m}).dress(ctx); err != nil {
		return err
	}
	for _, s := range m.from {
		if err := (&capturer{m}).capture(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// locate finds out what the old tables are called, and whether one of them was renamed already.
func (m *machine) locate(ctx context.Context) (begun bool, err error) {
	for _, s := range m.from {
		for _, t := range s.tables {
			gone, err := s.d.exists(ctx, s.d.pool, t.away)
			if err != nil {
				return false, err
			}
			if t.now = t.Name; gone {
				t.now, begun = t.away, true
			}
		}
	}
	return begun, nil
}

// Drop ends a job before its cutover, and removes all that it has made.
func (j *Job) Drop(ctx context.Context) error {
	m, err := j.open()
	if err != nil {
		return err
	}
	current, err := m.take(ctx)
	if err == nil && (current == phaseReplacing || current == phaseCut) {
		err = fmt.Errorf("%w: the cutover is over, so the way back is another job", errs.ErrSharding)
	}
	if err == nil {
		err = m.note(ctx, phaseDropping)
	}
	if err == nil {
		err = (&cutter{m}).retreat(ctx)
	}
	if err == nil {
		err = m.end(ctx, m.to)
	}
	return m.failed("dropping", err)
}

// end drops tables that nobody reads, removes what the job has made beside them, and forgets the job.
func (m *machine) end(ctx context.Context, sides []*side) error {
	err := m.fenced(ctx, func(h held) error { return m.dropTables(ctx, h, sides) })
	for _, s := range m.from {
		if err == nil {
			err = (&capturer{m}).release(ctx, s)
		}
	}
	if err == nil {
		err = m.forget(ctx)
	}
	return err
}

// Clean drops the old tables after the cutover, and forgets the job.
func (j *Job) Clean(ctx context.Context) error {
	m, err := j.open()
	if err != nil {
		return err
	}
	current, err := m.phaseNow(ctx)
	switch {
	case err != nil:
		return m.failed("cleaning", err)
	case current == "":
		return nil
	case current != phaseCut:
		return fmt.Errorf("%w: job %s has not cut over yet, so there is nothing to clean", errs.ErrSharding,
			m.Name)
	}
	_, err = m.take(ctx)
	for _, s := range m.from {
		for _, t := range s.tables {
			t.now = t.away
		}
		if err == nil {
			err = m.checkLate(ctx, s)
		}
	}
	if err == nil {
		err = (&checker{m}).validateForeignKeys(ctx)
	}
	if err == nil {
		err = m.end(ctx, m.from)
	}
	return m.failed("cleaning", err)
}

// checkLate refuses to drop a table that somebody has written to under its new name.
func (m *machine) checkLate(ctx context.Context, s *side) error {
	there, err := s.d.exists(ctx, s.d.pool, s.keys)
	if err != nil || !there {
		return err
	}
	late, err := number(ctx, s.d.pool, "SELECT COUNT(*) FROM "+s.d.Quoted(s.keys))
	if err == nil && late > 0 {
		err = fmt.Errorf("%w: %d writes to the old tables came after the cutover, whose keys are in %s: move "+
			"these rows by hand, and empty that table", errs.ErrSharding, late, s.keys)
	}
	return err
}

// dropTables drops the tables of some entries that are there, whatever foreign keys they have to each other.
func (m *machine) dropTables(ctx context.Context, h held, sides []*side) error {
	for _, s := range sides {
		var names []string
		for _, t := range s.tables {
			names = append(names, t.quoted())
		}
		if s.d.Kind == dialect.PostgreSQL {
			names = []string{strings.Join(names, ", ")} // It drops both ends of a foreign key only together.
		}
		for _, name := range names {
			if err := run(ctx, h[s.d], "DROP TABLE IF EXISTS "+name); err != nil {
				return err
			}
			m.reached(stepDropped)
		}
	}
	return nil
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
