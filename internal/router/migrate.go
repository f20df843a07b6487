package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// migrator makes the tables of shards in a database, and compares them with the models.
type migrator struct {
	*cluster
	database int
	db       *gorm.DB
}

func migratorIn(c *cluster, database int) migrator {
	return migrator{c, database, c.Databases[database]}
}

// making runs what makes a table.
type making func(db *gorm.DB, do func(tx *gorm.DB) error) error

// migrate makes the tables of one shard of the map. held is the error of the lock, for which the shards of a
// database wait once.
func (g migrator) migrate(ctx context.Context, e shardmap.Entry, held *error) error {
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	// A table that a cutover has renamed must not come back under its name: late statements would find it.
	//nolint:contextcheck // the handle has the context
	return g.makeTables(ctx, e, func(db *gorm.DB, do func(tx *gorm.DB) error) error {
		if *held != nil {
			return *held
		}
		err := shardmap.Registry{Topology: g.Topology}.WhileOpen(db, e, do)
		if errors.Is(err, shardmap.ErrHeld) {
			*held = err
		}
		return err
	})
}

// makeTables makes the tables of an entry, which the map need not have unless there is a making.
func (g migrator) makeTables(ctx context.Context, e shardmap.Entry, makes making) error {
	var failures []error
	for _, table := range g.Tables(e) {
		if err := g.migrateTable(ctx, table, makes); err != nil {
			failures = append(failures, fmt.Errorf("table %s in database %d: %w", table.Name, g.database, err))
		}
	}
	return errors.Join(failures...)
}

func (g migrator) quote(table string) string { return g.db.Statement.Quote(table) }

// session returns a handle for changes of tables.
func (g migrator) session(ctx context.Context) *gorm.DB {
	tx := shardmap.AtSource(g.handle(ctx, g.db, route{all: true}, nil))
	tx.DisableForeignKeyConstraintWhenMigrating = true // in this session's copy of the configuration
	tx.IgnoreRelationshipsWhenMigrating = true
	return tx
}

// sessionFor returns a handle for one table. The name is set as an expression, because Table would take
// a name with spaces for SQL, and would drop the schema of a qualified one.
func (g migrator) sessionFor(ctx context.Context, table string) *gorm.DB {
	tx := g.session(ctx).Table(table)
	tx.Statement.TableExpr, tx.Statement.Table = &clause.Expr{SQL: g.quote(table)}, table
	return tx
}

// parse gives a statement the schema that GORM keeps for the model under the name of a shard's table.
func (g migrator) parse(stmt *gorm.Statement, table shardmap.Table) error {
	if err := stmt.ParseWithSpecialTableName(table.Model, table.Name); err != nil {
		return err
	}
	_, err := g.Engine.Plans.PrepareOn(stmt.Schema, nil, func() { nameShard(stmt.Schema, table.Entry) })
	return err
}

// indexName finds the names that the tag of a field gives to indexes.
var indexName = regexp.MustCompile(`(?i)((?:^|;)\s*(?:unique)?index\s*:)\s*([^;,]*[^;,\s])\s*`)

// checkName finds the name that a tag gives to a check. Without one, a comma may be one of the condition.
var checkName = regexp.MustCompile(`^\s*([\w-]+)\s*,`)

// nameShard adds the number of the shard to the names of indexes and checks that the tags of a model
// give. It changes the tags of this schema, because GORM reads the names of indexes from them each time.
func nameShard(s *schema.Schema, e shardmap.Entry) {
	for _, field := range s.Fields {
		given := indexName.ReplaceAllStringFunc(field.Tag.Get("gorm"), func(found string) string {
			part := indexName.FindStringSubmatch(found)
			return part[1] + onShard(part[2], e)
		})
		tag := "gorm:" + strconv.Quote(given)
		if own, tagged := field.Tag.Lookup(fill.TagName); tagged {
			tag += " " + fill.TagName + ":" + strconv.Quote(own)
		}
		field.Tag = reflect.StructTag(tag)
		if found := checkName.FindStringSubmatch(field.TagSettings["CHECK"]); found != nil {
			rest := field.TagSettings["CHECK"][len(found[0]):]
			field.TagSettings["CHECK"] = onShard(found[1], e) + "," + rest
		}
	}
}

// onShard returns the name of an index or of a check on a shard. PostgreSQL would cut off one that is too
// long, and take the index of another shard for it.
func onShard(name string, e shardmap.Entry) string {
	name = e.TableOn(name)
	return dialect.Abridged(name, name, dialect.MaxName)
}

// shape is what the table of a model looks like.
type shape struct {
	shardmap.Table
	model   *schema.Schema
	types   map[string]string // by column
	missing []string          // what is missing, or different
}

func (g migrator) shapesOf(ctx context.Context, e shardmap.Entry) ([]shape, error) {
	var shapes []shape
	for _, m := range g.Sharded {
		tables := g.TablesOf(m, e)
		s := shape{Table: tables[0], model: m.Base, types: map[string]string{}}
		unlock := g.Engine.LockTables(g.db)
		err := shardmap.OnOneConnection(g.sessionFor(ctx, s.Name), func(tx *gorm.DB) error {
			return g.look(ctx, tx.Session(&gorm.Session{}), &s)
		})
		unlock()
		if err != nil {
			return nil, err
		}
		for _, table := range tables {
			lacking, err := g.missingChecks(ctx, table)
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
func (g migrator) look(ctx context.Context, tx *gorm.DB, s *shape) error {
	if there, err := shardmap.HasTable(ctx, tx, s.Name); err != nil || !there {
		s.missing = append(s.missing, "the table is missing: call AutoMigrate")
		return err
	}
	columns, err := tx.Migrator().ColumnTypes(s.Model)
	if err != nil {
		return fmt.Errorf("columns of %s: %w", s.Name, err)
	}
	for _, column := range columns {
		kind, _ := column.ColumnType()
		s.types[column.Name()] = cmp.Or(kind, column.DatabaseTypeName())
	}
	for _, name := range s.model.DBNames {
		if _, found := s.types[name]; !found && !s.model.FieldsByDBName[name].IgnoreMigration {
			s.missing = append(s.missing, "column "+name+" is missing")
		}
	}
	stmt := &gorm.Statement{DB: tx}
	if err := g.parse(stmt, s.Table); err != nil {
		return err
	}
	indexes, err := dialect.Kind(tx.Name()).Indexes(ctx, tx.Statement.ConnPool, s.Name)
	for _, index := range stmt.Schema.ParseIndexes() {
		named := func(name string) bool { return strings.EqualFold(name, index.Name) }
		if !slices.ContainsFunc(indexes, named) {
			s.missing = append(s.missing, "index "+index.Name+" is missing")
		}
	}
	return err
}

// migrateTable makes a table with its constraints, or brings it up to date. A table with rows gets
// constraints only on PostgreSQL, where that takes no time. Everywhere else it would stop writes for as
// long as the table is copied, so that is left to the operator, and Check says how.
func (g migrator) migrateTable(ctx context.Context, table shardmap.Table, makes making) error {
	defer g.Engine.LockTables(g.db)()
	tx := g.sessionFor(ctx, table.Name)
	stmt := &gorm.Statement{DB: tx}
	if err := g.parse(stmt, table); err != nil {
		return err
	}
	missing, err := g.lacking(ctx, table)
	if err != nil {
		return err
	}
	var later []shardmap.Check
	if missing.rows {
		missing.checks, later = nil, missing.checks
		for _, check := range later {
			if err := g.refuseStrangers(ctx, table.Name, check, g.quote(table.Name)); err != nil {
				return err
			}
		}
	}
	defer withChecks(stmt.Schema, missing.checks)()
	if missing.absent && makes != nil {
		made, err := shardmap.MakeTable(tx, table.Name, table.Model, makes)
		if err != nil || made {
			return err
		}
	}
	if makes != nil && !tx.DryRun {
		tx = tx.Set(fill.OnlyExisting, true) // A cutover may rename it now.
	}
	if err := shardmap.AutoMigrate(tx, table.Model); err != nil || g.db.Name() != dialect.PostgreSQL {
		return err
	}
	for _, check := range later {
		statement := "ALTER TABLE " + g.quote(table.Name) + " ADD " + check.Definition() + " NOT VALID"
		if err := g.session(ctx).Exec(statement).Error; err != nil && !dialect.Added(err) {
			return err
		}
	}
	return nil
}

// withChecks adds constraints to the schema by which GORM makes a table, and returns what removes them.
// GORM reads constraints from the tags of fields, one of each. These are fields that no model has, so a
// constraint in the tag of a real field stays what it is.
func withChecks(s *schema.Schema, checks []shardmap.Check) (remove func()) {
	for _, check := range checks {
		s.FieldsByDBName[check.Name] = &schema.Field{
			Name: check.Name, Schema: s, TagSettings: map[string]string{"CHECK": check.Tag()},
		}
	}
	return func() {
		for _, check := range checks {
			delete(s.FieldsByDBName, check.Name)
		}
	}
}

// lackingChecks are the constraints that a table does not have.
type lackingChecks struct {
	checks    []shardmap.Check
	unchecked []shardmap.Check // they are there, but the rows before them were not checked
	rows      bool             // the table exists and has rows
	absent    bool             // the table does not exist
}

// lacking compares the constraints of a table with those that it should have.
func (g migrator) lacking(ctx context.Context, table shardmap.Table) (l lackingChecks, err error) {
	there, err := g.checksThere(ctx, table.Name)
	if err != nil {
		return l, fmt.Errorf("constraints: %w", err)
	}
	for _, check := range table.Checks {
		for name := range there {
			if err := check.Fits(name); err != nil {
				return l, err
			}
		}
		valid, found := there[check.Name]
		switch {
		case !found:
			l.checks = append(l.checks, check)
		case !valid:
			l.unchecked = append(l.unchecked, check)
		}
	}
	if len(l.checks) == 0 && len(table.Checks) > 0 {
		return l, nil
	}
	found, err := shardmap.HasTable(ctx, g.session(ctx), table.Name)
	if l.absent = !found; err != nil || l.absent {
		return l, err
	}
	some, err := dialect.Texts(ctx, shardmap.Source{DB: g.db}, "SELECT 1 FROM "+g.quote(table.Name)+" LIMIT 1")
	l.rows = len(some) > 0
	return l, err
}

// missingChecks describes the constraints that a table lacks, each with the statement that adds it.
func (g migrator) missingChecks(ctx context.Context, table shardmap.Table) (missing []string, err error) {
	l, err := g.lacking(ctx, table)
	if errors.Is(err, errs.ErrSharding) {
		return []string{err.Error()}, nil
	}
	if err != nil || l.absent {
		return nil, err
	}
	alter := "ALTER TABLE " + g.quote(table.Name) + " "
	for _, check := range l.checks {
		what := "constraint " + check.Name + " is missing: "
		switch g.db.Name() {
		case dialect.PostgreSQL:
			what += alter + "ADD " + check.Definition() + " NOT VALID; then VALIDATE CONSTRAINT " + check.Quoted
		case dialect.MySQL:
			what += alter + "ADD " + check.Definition()
		default:
			what += "rebuild the table with " + check.Definition()
		}
		missing = append(missing, what)
	}
	for _, check := range l.unchecked {
		missing = append(missing, "constraint "+check.Name+" holds for new rows only: "+alter+
			"VALIDATE CONSTRAINT "+check.Quoted)
	}
	return missing, nil
}

// checkInSQL finds the constraints in the statement that made a table of SQLite.
var checkInSQL = regexp.MustCompile("(?i)CONSTRAINT\\s+[`\"\\[]?(\\w+_shard_\\d+_of_\\d+)")

// checksThere returns the constraints of a table by their names, and whether all rows are known to meet
// them. There are none if the table does not exist.
func (g migrator) checksThere(ctx context.Context, table string) (map[string]bool, error) {
	there := map[string]bool{}
	rows, err := dialect.Kind(g.db.Name()).Ask(ctx, shardmap.Source{DB: g.db}, table, map[string]string{
		dialect.PostgreSQL: "SELECT conname, convalidated::int FROM pg_constraint " +
			"WHERE contype = 'c' AND conrelid = to_regclass($1)",
		dialect.MySQL: "SELECT CONSTRAINT_NAME, 1 FROM information_schema.TABLE_CONSTRAINTS " +
			"WHERE CONSTRAINT_TYPE = 'CHECK' AND TABLE_NAME = ? AND TABLE_SCHEMA" + dialect.InSchema,
		dialect.SQLite: "SELECT sql, 1 FROM `main`.sqlite_master WHERE type = 'table' AND name = ?",
	}[g.db.Name()])
	for _, row := range rows {
		if g.db.Name() != dialect.SQLite {
			there[row[0]] = row[1] == "1"
			continue
		}
		for _, found := range checkInSQL.FindAllStringSubmatch(row[0], -1) {
			there[found[1]] = true
		}
	}
	return there, err
}

// endRows is how many of the first and of the last rows of a table are looked at when a router is made.
const endRows = 1000

// examine looks at the tables of a shard that nobody has recorded. Another tool may have filled tables of
// these names by another rule, and a search would not find most of their rows. To read a whole table may take
// long, so only both ends are looked at.
func (g migrator) examine(ctx context.Context, e shardmap.Entry) error {
	for _, m := range g.Sharded {
		table := g.TablesOf(m, e)[0]
		key := table.Checks[0]
		l, err := g.lacking(ctx, table)
		for _, order := range []string{"", " DESC"} {
			if err == nil && l.rows && slices.Contains(l.checks, key) {
				err = g.refuseStrangers(ctx, table.Name, key, fmt.Sprintf("(SELECT %[1]s FROM %[2]s ORDER BY "+
					"%[1]s%[3]s LIMIT %[4]d) AS rows_of_one_end", key.Column, g.quote(table.Name), order, endRows))
			}
		}
		if err != nil && !dialect.Forbidden(err) { // Statements on that table fail anyway.
			return fmt.Errorf("table %s in database %d: %w", table.Name, g.database, err)
		}
	}
	return nil
}

// refuseStrangers returns an error if a row breaks the rule of its shard.
func (g migrator) refuseStrangers(ctx context.Context, table string, c shardmap.Check, from string) error {
	strangers, err := dialect.Texts(ctx, shardmap.Source{DB: g.db},
		"SELECT "+c.Column+" FROM "+from+" WHERE NOT ("+c.Expression+") LIMIT 1")
	if err != nil || len(strangers) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s has a row with %s = %s, which does not belong to shard %s. Another "+
		"program or tool has filled the table by another rule, and this router would not find its rows. Use "+
		"other names for the tables, and write the rows into those with Router.Create, or set Shards and Layout "+
		"to those by which the table was filled",
		errs.ErrSharding, table, c.Column, strangers[0][0], c.Class)
}
