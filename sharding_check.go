package snowflakeplugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"
)

// Drift is something about a table that is not as its model says, or not as on the other shards.
type Drift struct {
	Shard, Database int
	Table           string
	What            string
}

// DriftError lists what [Router.Check] has found. It wraps [ErrDrift].
type DriftError struct{ Drifts []Drift }

// Error names the first of them.
func (e *DriftError) Error() string {
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "%v", ErrDrift)
	for i, d := range e.Drifts[:min(len(e.Drifts), most)] {
		separator := ";"
		if i == 0 {
			separator = ":"
		}
		fmt.Fprintf(&b, "%s %s in database %d: %s", separator, d.Table, d.Database, d.What)
	}
	if len(e.Drifts) > most {
		fmt.Fprintf(&b, "; and %d more", len(e.Drifts)-most)
	}
	return b.String()
}

// Unwrap returns [ErrDrift].
func (e *DriftError) Unwrap() error { return ErrDrift }

// Check compares the tables of all shards with the models, and with each other: whether they are
// there, with all columns and indexes, and whether a column has the same type in all tables of one
// kind of database. It changes nothing.
//
// It returns a [*DriftError] for what is not so, or a [*PartialError] for shards that could not be
// looked at.
func (r *Router) Check(ctx context.Context) error {
	shapes := make([][]shape, r.shards)
	err := scatter(ctx, r.shards, func(shard int) (err error) {
		shapes[shard], err = r.shapesOf(ctx, shard)
		return err
	})
	if err != nil {
		return err
	}
	e := &DriftError{}
	first := map[string]shape{} // of each model and kind of database
	for shard, of := range shapes {
		for _, s := range of {
			database := r.place[shard]
			add := func(what string) { e.Drifts = append(e.Drifts, Drift{shard, database, s.table, what}) }
			for _, what := range s.missing {
				add(what)
			}
			key := r.dbs[database].Name() + " " + s.model.base.Name
			other, seen := first[key]
			if !seen && len(s.missing) == 0 {
				first[key] = s
			}
			for _, column := range s.model.base.DBNames {
				if a, b := s.types[column], other.types[column]; seen && a != "" && a != b {
					add(fmt.Sprintf("column %s is of type %s, and in %s of type %s", column, a, other.table, b))
				}
			}
		}
	}
	if len(e.Drifts) > 0 {
		return e
	}
	return nil
}

// shape is what there is of a table.
type shape struct {
	model   *shardModel
	table   string
	types   map[string]string // of its columns
	missing []string
}

// shapesOf looks at the tables of one shard.
func (r *routing) shapesOf(ctx context.Context, shard int) ([]shape, error) {
	var shapes []shape
	for _, m := range r.models {
		if m.broadcast {
			continue
		}
		s := shape{model: m, table: m.table(shard), types: map[string]string{}}
		tx := r.migratingTable(ctx, shard, s.table).Session(&gorm.Session{})
		if !tx.Migrator().HasTable(s.table) {
			if err := ping(ctx, r.dbs[r.place[shard]]); err != nil {
				return nil, err
			}
			s.missing = append(s.missing, "the table is missing: call AutoMigrate")
			shapes = append(shapes, s)
			continue
		}
		columns, err := tx.Migrator().ColumnTypes(m.value)
		if err != nil {
			return nil, fmt.Errorf("columns of %s: %w", s.table, err)
		}
		for _, column := range columns {
			s.types[column.Name()], _ = column.ColumnType()
			if s.types[column.Name()] == "" {
				s.types[column.Name()] = column.DatabaseTypeName()
			}
		}
		for _, name := range m.base.DBNames {
			if _, found := s.types[name]; !found {
				s.missing = append(s.missing, "column "+name+" is missing")
			}
		}
		indexes, err := r.missingIndexes(tx, m, shard)
		if err != nil {
			return nil, err
		}
		s.missing = append(s.missing, indexes...)
		shapes = append(shapes, s)
	}
	return shapes, nil
}

// missingIndexes lists the indexes of the model that the table does not have.
func (r *routing) missingIndexes(tx *gorm.DB, m *shardModel, shard int) ([]string, error) {
	stmt := &gorm.Statement{DB: tx}
	if err := r.parseTable(stmt, m.value, m.table(shard), shard); err != nil {
		return nil, err
	}
	var there []string
	indexes, err := tx.Migrator().GetIndexes(m.value)
	if err != nil {
		return nil, fmt.Errorf("indexes of %s: %w", m.table(shard), err)
	}
	for _, index := range indexes {
		there = append(there, index.Name())
	}
	var missing []string
	for _, index := range stmt.Schema.ParseIndexes() {
		if !slices.Contains(there, index.Name) {
			missing = append(missing, "index "+index.Name+" is missing")
		}
	}
	return missing, nil
}
