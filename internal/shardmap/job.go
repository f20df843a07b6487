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
	Name string `gorm:"primaryKey;size:20"`
	// Base is the table of the first model, which tells the routers of a database apart.
	Base string `gorm:"size:191;not null"`
	// Old and New are the entries, such as 0:3/16.0 for the class 3 of 16 in generation 0 and database 0.
	Old string `gorm:"type:text;not null"`
	New string `gorm:"type:text;not null"`

	From []Entry `gorm:"-"`
	To   []Entry `gorm:"-"`
}

// NewJob names the resharding that replaces entries by others. No other one of the same router has the name.
func NewJob(t *Topology, from, to []Entry) Job {
	j := Job{Base: t.shardedTables()[0], From: from, To: to, Old: placedEntries(from), New: placedEntries(to)}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(j.Base + " " + j.New))
	j.Name = fmt.Sprintf("g%d_%d_%d_%04x", to[0].Generation, to[0].Modulus, to[0].Residue, sum.Sum32()&0xffff)
	return j
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
		of, err := readEntries(held, 1, database)
		if err != nil {
			return nil, err
		}
		entries = append(entries, of...)
	}
	return entries, nil
}

// read makes the entries of the texts.
func (j *Job) read() (err error) {
	if j.From, err = readPlaced(j.Old); err == nil {
		j.To, err = readPlaced(j.New)
	}
	return err
}

// Jobs reads the reshardings of the router whose old tables are not dropped yet, the oldest generation first.
func (r Registry) Jobs(ctx context.Context) ([]Job, error) {
	all, err := readJobs(ctx, r.Databases, func(tx *gorm.DB) *gorm.DB {
		return tx.Where("base = ?", r.shardedTables()[0])
	})
	slices.SortStableFunc(all, func(a, b Job) int { return a.To[0].Generation - b.To[0].Generation })
	return all, err
}

// readJobs reads the reshardings in the tables of some databases.
func readJobs(
	ctx context.Context, dbs []*gorm.DB, scope func(*gorm.DB) *gorm.DB,
) (all []Job, err error) {
	for i, db := range dbs {
		var found []Job
		err := ReadAll(ctx, db, JobsTable, &found, scope)
		for n := 0; err == nil && n < len(found); n++ {
			err = found[n].read()
		}
		if err != nil {
			return nil, fmt.Errorf("snowflakeplugin: table %s in database %d: %w", InternalTable(db, JobsTable), i,
				err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// HasBegun reports whether a resharding is recorded. It refuses one of a shard that another resharding needs.
func (r Registry) HasBegun(ctx context.Context, j Job) (bool, error) {
	jobs, err := r.Jobs(ctx)
	for _, other := range jobs {
		if other.Name == j.Name {
			return true, nil
		}
		for _, e := range j.From {
			if slices.Contains(other.From, e) {
				return false, fmt.Errorf("%w: shard %s is part of another resharding, %s, which is not over: "+
					"resume or drop that first", errs.ErrSharding, e.Class, other.Name)
			}
		}
	}
	return false, err
}

// Begin records a resharding.
func (r Registry) Begin(ctx context.Context, j Job) error {
	database := j.To[0].Database
	table := InternalTable(r.Databases[database], JobsTable)
	err := AutoMigrate(r.PlainOn(ctx, database, table), &Job{})
	if err == nil {
		err = r.PlainOn(ctx, database, table).Clauses(clause.OnConflict{DoNothing: true}).Create(&j).Error
	}
	if err != nil {
		return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, database, err)
	}
	return nil
}

// Forget removes the record of a resharding.
func (r Registry) Forget(ctx context.Context, j Job) error {
	database := j.To[0].Database
	table := InternalTable(r.Databases[database], JobsTable)
	if err := r.PlainOn(ctx, database, table).Where("name = ?", j.Name).Delete(&Job{}).Error; err != nil {
		return fmt.Errorf("snowflakeplugin: table %s in database %d: %w", table, database, err)
	}
	return nil
}
