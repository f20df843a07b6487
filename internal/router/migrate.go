package router

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// AutoMigrate makes the broadcast tables first, then the tables of all shards, and records the number of
// shards at last.
func (r *Router) AutoMigrate(ctx context.Context) error {
	g := migrator{r.cluster}
	for i := range r.dbs {
		for _, m := range r.models {
			if !m.broadcast {
				continue
			}
			if err := autoMigrate(g.session(ctx, i, 0), m.value); err != nil {
				return fmt.Errorf("snowflakeplugin: migrate %s in database %d: %w", m.base.Name, i, err)
			}
		}
	}
	failures := slices.Repeat([]error{errUnfinished}, r.shards)
	// Each database changes one table at a time: several would wait for each other, or fail.
	_ = scatter(context.WithoutCancel(ctx), len(r.dbs), func(database int) error {
		for shard, at := range r.place {
			if at == database {
				failures[shard] = g.migrate(ctx, shard)
			}
		}
		return nil
	})
	if err := partialError(failures); err != nil {
		return err
	}
	// A lease from before the records is not the one that they say.
	defer r.endLeases()
	return registry{r.topology}.recordMissing(ctx)
}

// migrator makes the tables of shards, and compares them with the models.
type migrator struct{ cluster *cluster }

// migrate makes the tables of one shard.
func (g migrator) migrate(ctx context.Context, shard int) error {
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	var failures []error
	done := map[string]bool{}
	for _, m := range g.cluster.models {
		if m.broadcast {
			continue
		}
		for _, table := range g.cluster.tablesOf(m, shard) {
			if done[table.name] {
				continue
			}
			done[table.name] = true
			if err := g.migrateTable(ctx, shard, table); err != nil {
				failures = append(failures, fmt.Errorf("table %s: %w", table.name, err))
			}
		}
	}
	return errors.Join(failures...)
}

// session returns a handle for changes of tables.
func (g migrator) session(ctx context.Context, database, shard int) *gorm.DB {
	tx := g.cluster.session(ctx, database, route{shard: shard, all: true})
	tx.DisableForeignKeyConstraintWhenMigrating = true // in this session's copy of the configuration
	tx.IgnoreRelationshipsWhenMigrating = true
	return tx
}

// sessionFor returns a handle for one table. The name is set as an expression, because Table would take
// a name with spaces for SQL, and would drop the schema of a qualified one.
func (g migrator) sessionFor(ctx context.Context, shard int, table string) *gorm.DB {
	tx := g.session(ctx, g.cluster.place[shard], shard).Table(table)
	tx.Statement.TableExpr, tx.Statement.Table = &clause.Expr{SQL: tx.Statement.Quote(table)}, table
	return tx
}

// parse gives a statement the schema that GORM keeps for the model under the name of a shard's table.
func (g migrator) parse(stmt *gorm.Statement, model any, table string, shard int) error {
	if err := stmt.ParseWithSpecialTableName(model, table); err != nil {
		return err
	}
	name := func() { nameShard(stmt.Schema, shard) }
	_, err := g.cluster.engine.Plans.PrepareOn(stmt.Schema, nil, name)
	return err
}

// nameShard adds the number of the shard to the names of indexes and checks that the tags of a model
// give. It changes the tags of this schema, because GORM reads the names from them each time.
func nameShard(s *schema.Schema, shard int) {
	for _, field := range s.Fields {
		settings := strings.Split(field.Tag.Get("gorm"), ";")
		for i, setting := range settings {
			settings[i] = nameOnShard(setting, shard)
		}
		tag := "gorm:" + strconv.Quote(strings.Join(settings, ";"))
		if own, tagged := field.Tag.Lookup(fill.TagName); tagged {
			tag += " " + fill.TagName + ":" + strconv.Quote(own)
		}
		field.Tag = reflect.StructTag(tag)
		if check, found := field.TagSettings["CHECK"]; found {
			_, named, _ := strings.Cut(nameOnShard("check:"+check, shard), ":")
			field.TagSettings["CHECK"] = named
		}
	}
}

// nameOnShard adds the number to the name in a setting such as "index:name,option", if it has one.
func nameOnShard(setting string, shard int) string {
	kind, rest, found := strings.Cut(setting, ":")
	if !found {
		return setting
	}
	name, options, more := strings.Cut(rest, ",")
	switch strings.ToUpper(strings.TrimSpace(kind)) {
	case "INDEX", "UNIQUEINDEX":
		if name == "" {
			return setting
		}
	case "CHECK":
		if !more {
			return setting // It is an expression without a name.
		}
	default:
		return setting
	}
	setting = kind + ":" + tableOn(strings.TrimSpace(name), shard)
	if more {
		setting += "," + options
	}
	return setting
}

// Drift is a difference between a table and its model, or between the tables of two shards.
type Drift struct {
	Shard, Database int
	Table           string
	What            string
}

// DriftError lists what Check has found.
type DriftError struct{ Drifts []Drift }

// Error names the first of them.
func (e *DriftError) Error() string {
	const maxNamed = 10
	var b strings.Builder
	b.WriteString("snowflakeplugin: tables of shards differ from their models")
	for i, d := range e.Drifts[:min(len(e.Drifts), maxNamed)] {
		separator := ";"
		if i == 0 {
			separator = ":"
		}
		fmt.Fprintf(&b, "%s %s in database %d: %s", separator, d.Table, d.Database, d.What)
	}
	if len(e.Drifts) > maxNamed {
		fmt.Fprintf(&b, "; and %d more", len(e.Drifts)-maxNamed)
	}
	return b.String()
}

// Check looks at all tables first, and then compares those of one kind of database with each other.
func (r *Router) Check(ctx context.Context) error {
	shapes := make([][]shape, r.shards)
	err := scatter(ctx, r.shards, func(shard int) (err error) {
		shapes[shard], err = migrator{r.cluster}.shapesOf(ctx, shard)
		return err
	})
	if err != nil {
		return err
	}
	e := &DriftError{}
	first := map[string]shape{} // by model and kind of database
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

// shape is what a table looks like.
type shape struct {
	model   *shardModel
	table   string
	types   map[string]string // by column
	missing []string
}

// shapesOf looks at the tables of one shard.
func (g migrator) shapesOf(ctx context.Context, shard int) ([]shape, error) {
	var shapes []shape
	for _, m := range g.cluster.models {
		if m.broadcast {
			continue
		}
		s := shape{model: m, table: m.table(shard), types: map[string]string{}}
		unlock := g.cluster.engine.LockTables(g.cluster.dbs[g.cluster.place[shard]])
		err := onOneConnection(g.sessionFor(ctx, shard, s.table), func(tx *gorm.DB) error {
			return g.look(ctx, tx.Session(&gorm.Session{}), &s, shard)
		})
		unlock()
		if err != nil {
			return nil, err
		}
		for _, of := range g.cluster.tablesOf(m, shard) {
			lacking, err := g.missingChecks(ctx, shard, of)
			if err != nil {
				return nil, err
			}
			s.missing = append(s.missing, lacking...)
		}
		shapes = append(shapes, s)
	}
	return shapes, nil
}

// look notes the columns of a table, and what it lacks.
func (g migrator) look(ctx context.Context, tx *gorm.DB, s *shape, shard int) error {
	if !tx.Migrator().HasTable(s.table) {
		s.missing = append(s.missing, "the table is missing: call AutoMigrate")
		return ping(ctx, tx)
	}
	columns, err := tx.Migrator().ColumnTypes(s.model.value)
	if err != nil {
		return fmt.Errorf("columns of %s: %w", s.table, err)
	}
	for _, column := range columns {
		s.types[column.Name()], _ = column.ColumnType()
		if s.types[column.Name()] == "" {
			s.types[column.Name()] = column.DatabaseTypeName()
		}
	}
	for _, name := range s.model.base.DBNames {
		if _, found := s.types[name]; !found {
			s.missing = append(s.missing, "column "+name+" is missing")
		}
	}
	indexes, err := g.missingIndexes(tx, s.model, shard)
	s.missing = append(s.missing, indexes...)
	return err
}

// missingIndexes lists the indexes of the model that the table lacks.
func (g migrator) missingIndexes(tx *gorm.DB, m *shardModel, shard int) ([]string, error) {
	stmt := &gorm.Statement{DB: tx}
	if err := g.parse(stmt, m.value, m.table(shard), shard); err != nil {
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
