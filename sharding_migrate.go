package snowflakeplugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// AutoMigrate makes the tables of all models on all shards, or brings them up to date, as
// db.AutoMigrate does for one: columns, indexes and keys. Indexes that the model gives a name have
// the number of the shard added to it, since names must differ within a database. The tables of
// shards have no foreign keys: GORM's go by models, and one that led to another shard would refuse
// every row.
//
// The number of shards is noted in the table snowflake_shards of each database, so that no router with
// another number can work on these tables.
//
// It may be called at every start. If shards fail it goes on with the others, and returns a
// [*PartialError]; for models marked by [Broadcast], whose tables are made first, the error of the
// first database that fails.
func (r *Router) AutoMigrate(ctx context.Context) error {
	for i := range r.dbs {
		for _, m := range r.models {
			if !m.broadcast {
				continue
			}
			tx := r.migrating(ctx, i, 0)
			if err := tx.AutoMigrate(m.value); err != nil {
				return fmt.Errorf("snowflakeplugin: migrate %s in database %d: %w", m.base.Name, i, err)
			}
		}
	}
	errs := make([]error, r.shards)
	// One at a time in each database, where changes of tables wait for each other anyway, or fail.
	_ = scatter(context.WithoutCancel(ctx), len(r.dbs), func(database int) error {
		for shard, at := range r.place {
			if at == database {
				errs[shard] = r.migrate(ctx, shard)
			}
		}
		return nil
	})
	if err := partialOf(errs); err != nil {
		return err
	}
	return r.writeState(ctx)
}

// migrate makes the tables of one shard.
func (r *routing) migrate(ctx context.Context, shard int) error {
	if err := ctx.Err(); err != nil {
		return ended(ctx)
	}
	var errs []error
	done := map[string]bool{}
	for _, m := range r.models {
		if m.broadcast {
			continue
		}
		tables := map[string]any{m.table(shard): m.value}
		for _, join := range m.joins {
			tables[tableOn(join.base, shard)] = reflect.New(join.of).Interface()
		}
		for table, model := range tables {
			if done[table] {
				continue
			}
			done[table] = true
			if err := r.migrateTable(ctx, shard, table, model); err != nil {
				errs = append(errs, fmt.Errorf("table %s: %w", table, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *routing) migrateTable(ctx context.Context, shard int, table string, model any) error {
	tx := r.migratingTable(ctx, shard, table)
	if err := r.parseTable(&gorm.Statement{DB: tx}, model, table, shard); err != nil {
		return err
	}
	return tx.AutoMigrate(model)
}

// migratingTable is migrating for one table, whatever its name is: GORM takes a name with spaces for
// an expression, and of one with a schema the rest.
func (r *routing) migratingTable(ctx context.Context, shard int, table string) *gorm.DB {
	tx := r.migrating(ctx, r.place[shard], shard).Table(table)
	tx.Statement.TableExpr, tx.Statement.Table = &clause.Expr{SQL: tx.Statement.Quote(table)}, table
	return tx
}

// parseTable gives a statement the schema that GORM keeps for a model under a special table name,
// that of a shard.
func (r *routing) parseTable(stmt *gorm.Statement, model any, table string, shard int) error {
	if err := stmt.ParseWithSpecialTableName(model, table); err != nil {
		return err
	}
	name := func() { nameShard(stmt.Schema, shard) }
	_, err := r.plugin.plans.prepareOn(stmt.Schema, nil, name)
	return err
}

// migrating returns a handle for changes of tables.
func (r *routing) migrating(ctx context.Context, database, shard int) *gorm.DB {
	tx := r.session(ctx, database, route{shard: shard, all: true})
	tx.DisableForeignKeyConstraintWhenMigrating = true // in this session's copy of the configuration
	tx.IgnoreRelationshipsWhenMigrating = true
	return tx
}

// nameShard adds the number of the shard to the names that the tags of a model give to indexes and
// checks. GORM reads them from the tags whenever it needs them, so the tags of this schema change.
func nameShard(s *schema.Schema, shard int) {
	for _, field := range s.Fields {
		settings := strings.Split(field.Tag.Get("gorm"), ";")
		for i, setting := range settings {
			settings[i] = nameOnShard(setting, shard)
		}
		tag := "gorm:" + strconv.Quote(strings.Join(settings, ";"))
		if own, tagged := field.Tag.Lookup(tagName); tagged {
			tag += " " + tagName + ":" + strconv.Quote(own)
		}
		field.Tag = reflect.StructTag(tag)
		if check, found := field.TagSettings["CHECK"]; found {
			_, named, _ := strings.Cut(nameOnShard("check:"+check, shard), ":")
			field.TagSettings["CHECK"] = named
		}
	}
}

// nameOnShard adds the number to the name in "index:name,option", if there is one.
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
			return setting // an expression alone
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
