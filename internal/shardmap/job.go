package shardmap

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// JobsTable lists the reshardings whose old tables are not dropped yet, each in the database of its first new
// entry.
const JobsTable = "snowflake_reshardings"

// Job is a row of JobsTable: some entries that are replaced by others.
type Job struct {
	Name string `gorm:"column:name;primaryKey;size:20"`
	// Base is the table of the first model, which tells the routers of a database apart.
	Base string `gorm:"column:base;size:191;not null"`
	// Old and New are the entries, such as 0:3/16.0 for the class 3 of 16 in generation 0 and database 0.
	Old string `gorm:"column:old;type:text;not null"`
	// Behind those of New and a semicolon stand the Bases.
	New string `gorm:"column:new;type:text;not null"`

	From []Entry `gorm:"-"`
	To   []Entry `gorm:"-"`
	// Bases are the tables of a shard, without its number, in the order of the program that has begun, by which
	// they are numbered in the journal. It is empty if that was an earlier version.
	Bases string `gorm:"-"`
}

// isOver reports whether a map has none of the old entries any more.
func (j Job) isOver(entries []Entry) bool {
	return !slices.ContainsFunc(entries, func(e Entry) bool { return slices.Contains(j.From, e.open()) })
}

// Change is a resharding of the databases of a topology.
type Change struct {
	Registry
	Job
}

// newChange names the resharding that replaces entries by others. No other one of the same router has the
// name.
func newChange(t *Topology, old, fresh []Entry) (Change, error) {
	for _, e := range fresh {
		if e.Database < 0 || e.Database >= len(t.Databases) {
			return Change{}, fmt.Errorf("%w: there is no database %d: the router has %d", errs.ErrSharding,
				e.Database, len(t.Databases))
		}
	}
	c := Change{Registry{t}, Job{
		Base: t.shardedTables()[0], From: old, To: fresh, Old: placedEntries(old), New: placedEntries(fresh),
		Bases: strings.Join(t.bases(), ","),
	}}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(c.Base + " " + c.New))
	c.New += ";" + c.Bases
	first := fresh[0]
	c.Name = fmt.Sprintf("g%d_%d_%d_%04x", first.Generation, first.Modulus, first.Residue, sum.Sum32()&0xffff)
	if err := t.checkNames(fresh); err != nil {
		return Change{}, fmt.Errorf("%w: %w", errs.ErrSharding, err)
	}
	return c, nil
}

// Split is the resharding that replaces the entry of a class by those of its parts. The part i lies in the
// i-th of the databases, or where the class lies if none are given.
func (t *Topology) Split(c Class, factor int, databases ...int) (Change, error) {
	e, err := t.EntryOf(c)
	if err == nil && (factor < 2 || len(databases) != 0 && len(databases) != factor) {
		err = fmt.Errorf("%w: shard %s into %d parts in %d databases: the factor is 2 or more, and there is no "+
			"database or one for each part", errs.ErrSharding, c, factor, len(databases))
	}
	if err == nil {
		err = t.checkModulus(c.Modulus * factor)
	}
	if err != nil {
		return Change{}, err
	}
	if len(databases) == 0 {
		databases = slices.Repeat([]int{e.Database}, factor)
	}
	return t.divide(e, databases)
}

// Move is the resharding that replaces the entry of a class by one in another database.
func (t *Topology) Move(c Class, database int) (Change, error) {
	e, err := t.EntryOf(c)
	if err == nil && e.Database == database {
		err = fmt.Errorf("%w: shard %s is in database %d already", errs.ErrSharding, c, database)
	}
	if err != nil {
		return Change{}, err
	}
	return t.divide(e, []int{database})
}

// divide replaces an entry by as many parts as databases are given.
func (t *Topology) divide(e Entry, databases []int) (Change, error) {
	var parts []Entry
	for i, database := range databases {
		class := Class{e.Residue + i*e.Modulus, e.Modulus * len(databases)}
		parts = append(parts, Entry{class, e.Generation + 1, database, false})
	}
	return newChange(t, []Entry{e.open()}, parts)
}

// Join is the resharding that replaces the entries which have the IDs of a class together by one.
func (t *Topology) Join(c Class, database int) (Change, error) {
	var parts []Entry
	into := Entry{c, 0, database, false}
	for _, e := range t.entries {
		if c.Modulus < 1 || !e.meets(c) {
			continue
		}
		if e.Modulus <= c.Modulus || e.Modulus%c.Modulus != 0 || len(parts) > 0 && e.Modulus != parts[0].Modulus {
			parts = nil
			break
		}
		parts, into.Generation = append(parts, e.open()), max(into.Generation, e.Generation+1)
	}
	if len(parts) == 0 {
		return Change{}, fmt.Errorf("%w: the class %s is not one that shards of one modulus have together",
			errs.ErrSharding, c)
	}
	return newChange(t, parts, []Entry{into})
}

func placedEntries(entries []Entry) string {
	var parts []string
	for _, e := range entries {
		parts = append(parts, fmt.Sprintf("%d:%d/%d.%d", e.Database, e.Residue, e.Modulus, e.Generation))
	}
	return strings.Join(parts, ",")
}

func readPlaced(text string) (entries []Entry, err error) {
	for part := range strings.SplitSeq(text, ",") {
		place, held, _ := strings.Cut(part, ":")
		database, err := strconv.Atoi(place)
		if err != nil {
			return nil, fmt.Errorf("the entry %q: %w", part, err)
		}
		placed, err := readEntries(held, 1, database)
		if err != nil {
			return nil, err
		}
		entries = append(entries, placed...)
	}
	return entries, nil
}

// read makes the entries of the texts.
func (j *Job) read() (err error) {
	var entries string
	entries, j.Bases, _ = strings.Cut(j.New, ";")
	if j.From, err = readPlaced(j.Old); err == nil {
		j.To, err = readPlaced(entries)
	}
	return err
}

// Changes reads the reshardings of the router whose old tables are not dropped yet, the oldest generation
// first.
func (r Registry) Changes(ctx context.Context) (all []Change, err error) {
	jobs, err := readJobs(ctx, r.Databases, func(tx *gorm.DB) *gorm.DB {
		return tx.Where("base IN ?", r.shardedTables())
	})
	own := r.bases()
	for _, j := range jobs {
		for base := range strings.SplitSeq(j.Bases, ",") {
			if base != "" && !slices.Contains(own, base) {
				return nil, fmt.Errorf("%w: the resharding %s has the table %s, which this program does not know: "+
					"go on with it in a program that has all models", errs.ErrSharding, j.Name, base)
			}
		}
		for _, e := range r.entries {
			for _, then := range slices.Concat(j.From, j.To) {
				if e.Database != then.Database && e.Class == then.Class && e.Generation == then.Generation {
					return nil, j.misplaced(e.Database, then.Database)
				}
			}
		}
		all = append(all, Change{r, j})
	}
	slices.SortStableFunc(all, func(a, b Change) int { return a.To[0].Generation - b.To[0].Generation })
	return all, err
}

func readJobs(ctx context.Context, dbs []*gorm.DB, scope func(*gorm.DB) *gorm.DB) (all []Job, err error) {
	found, err := readAll[Job](ctx, dbs, JobsTable, scope)
	for i, jobs := range found {
		for _, j := range jobs {
			if err = j.read(); err == nil && j.To[0].Database != i {
				err = j.misplaced(i, j.To[0].Database)
			}
			if err != nil {
				return nil, fmt.Errorf("snowflakeplugin: the resharding %s: %w", j.Name, err)
			}
			all = append(all, j)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("snowflakeplugin: %w", err)
	}
	return all, nil
}

// misplaced is the error of a router that has a database under another number than the job.
func (j Job) misplaced(now, then int) error {
	return fmt.Errorf("%w: the database %d was number %d when the resharding %s began: give Databases in the "+
		"order of then until it is over and its old tables are dropped", errs.ErrSharding, now, then, j.Name)
}

// TablesOn returns the tables of the resharding for an entry, in their order.
func (c Change) TablesOn(e Entry) []Table {
	tables := c.Tables(e)
	if c.Bases == "" {
		return tables
	}
	var own []Table
	for base := range strings.SplitSeq(c.Bases, ",") {
		own = append(own, tables[slices.IndexFunc(tables, func(t Table) bool { return t.Base == base })])
	}
	return own
}

// HasBegun reports whether a resharding is recorded, and takes what is. It refuses one of a shard that
// another resharding needs, and in a program that does not have all models.
func (c *Change) HasBegun(ctx context.Context) (bool, error) {
	database := c.From[0].Database
	if err := c.refuseOthers(plain(ctx, c.Databases[database]), database); err != nil {
		return false, err
	}
	all, err := c.Changes(ctx)
	for _, other := range all {
		if other.Name == c.Name {
			c.Job = other.Job
			if more := len(c.bases()) - len(c.TablesOn(c.From[0])); more > 0 && !c.IsOver() {
				err = fmt.Errorf("%w: the program that has begun the resharding %s had only the tables %s: drop the "+
					"resharding, and begin again", errs.ErrSharding, c.Name, c.Bases)
			}
			return true, err
		}
		for _, e := range c.From {
			if slices.Contains(other.From, e) {
				return false, fmt.Errorf("%w: shard %s is part of another resharding, %s, which is not over: "+
					"resume or drop that first", errs.ErrSharding, e.Class, other.Name)
			}
		}
	}
	return false, err
}

// IsOver reports whether the topology has none of the old entries any more.
func (c Change) IsOver() bool { return c.isOver(c.entries) }

// Begin records the resharding.
func (c Change) Begin(ctx context.Context) error {
	if err := c.makeTable(ctx, c.To[0].Database, JobsTable, &Job{}); err != nil {
		return err
	}
	return c.within(ctx, c.To[0].Database, JobsTable, func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&c.Job).Error // It may be there.
	})
}

// Forget removes the record of the resharding.
func (c Change) Forget(ctx context.Context) error {
	return c.within(ctx, c.To[0].Database, JobsTable, func(tx *gorm.DB) error {
		return tx.Where("name = ?", c.Name).Delete(&Job{}).Error
	})
}

// Close marks the old entries as closed. Before that it has had the lock of each database once: writes must
// not stop for as long as a program keeps one that was stopped itself.
func (c Change) Close(ctx context.Context) error {
	for database := range c.Databases {
		if len(entriesIn(database, c.From))+len(entriesIn(database, c.To)) == 0 {
			continue
		}
		if err := c.transaction(ctx, database, func(*gorm.DB) error { return nil }); err != nil {
			return err
		}
	}
	return c.mark(ctx, true)
}

// Open takes the marks of those old entries away that are still there.
func (c Change) Open(ctx context.Context) error { return c.mark(ctx, false) }

func (c Change) mark(ctx context.Context, closed bool) error {
	for database := range c.Databases {
		old := entriesIn(database, c.From)
		if len(old) == 0 {
			continue
		}
		err := c.transaction(ctx, database, func(tx *gorm.DB) error {
			if closed {
				if err := c.refuseOthers(tx, database); err != nil {
					return err
				}
			}
			return c.change(tx, database, func(held []Entry) ([]Entry, bool) {
				marked := 0
				for i, e := range held {
					if slices.Contains(old, e.open()) {
						held[i].Closed = closed
						marked++
					}
				}
				return held, !closed || marked == len(old)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Lock keeps others from changing the entries, and from making tables by them, until a transaction has ended
// that will replace entries.
func (c Change) Lock(ctx context.Context, tx *gorm.DB) error {
	take, _, err := lock(tx)
	if err != nil {
		return err
	}
	return execEach(tx.WithContext(ctx), take)
}

// Replace records the new entries in place of the old ones, in a transaction on the only database if there is
// one, which has called Lock. It does nothing if that was done before. Of several databases, those come first
// that only get entries, and last those that only lose some. So every ID is of an entry all the time.
func (c Change) Replace(ctx context.Context, tx *gorm.DB) error {
	if tx != nil {
		tx, database := tx.WithContext(ctx), c.To[0].Database
		if err := c.refuseOthers(tx, database); err != nil {
			return err
		}
		return c.replaceIn(tx, database)
	}
	var order [3][]int
	for database := range c.Databases {
		gets, loses := len(entriesIn(database, c.To)) > 0, len(entriesIn(database, c.From)) > 0
		switch {
		case gets && loses:
			order[1] = append(order[1], database)
		case gets:
			order[0] = append(order[0], database)
		case loses:
			order[2] = append(order[2], database)
		}
	}
	for _, database := range slices.Concat(order[:]...) {
		err := c.transaction(ctx, database, func(tx *gorm.DB) error { return c.replaceIn(tx, database) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (c Change) replaceIn(tx *gorm.DB, database int) error {
	return c.change(tx, database, func(held []Entry) ([]Entry, bool) {
		old, left := entriesIn(database, c.From), len(held)
		held = slices.DeleteFunc(held, func(e Entry) bool { return slices.Contains(old, e.open()) })
		missing, before := len(old)-(left-len(held)), len(held)
		for _, e := range entriesIn(database, c.To) {
			if !slices.Contains(held, e) {
				held = append(held, e)
			}
		}
		return held, missing == 0 || len(held) == before
	})
}
