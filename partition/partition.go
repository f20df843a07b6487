// Package partition writes the SQL that divides a table into native partitions of its database, by the
// shard of the key or by the month in which the key was made. The database then finds the partition of a
// row by itself, so no router is needed.
//
// The functions only return statements. They run nothing, and they are safe for concurrent use.
package partition

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// maxPartitions is the limit of MySQL for a table. PostgreSQL plans slowly with more.
const maxPartitions = 8192

// ByShard returns the statements that divide a table by its key, where one database is enough and a router
// is not needed. On MySQL and MariaDB the partition of a row is its shard. On PostgreSQL it is not, because
// that divides tables only by a hash of its own. Read the statements before you run them: they copy the
// whole table and lock it meanwhile.
// db must use the plugin.
//
// On MySQL and MariaDB, the partition of a row is the shard of its ID as a [snowflakeplugin.Router] with the
// same number of shards computes it. The optimizer finds the partition for a condition on the key with
// = or IN. These databases do not allow bit operators in the expression, so a number of partitions that is
// not a power of two is written with MOD. Partitioned tables cannot have foreign keys.
//
// On PostgreSQL, the table is renamed to NAME_unpartitioned, and its rows are copied into a new table.
// PostgreSQL's own hash of the ID spreads the rows evenly, so the number of a partition is no shard number.
// The old table remains until you drop it. Foreign keys of other tables still refer to it, so change those
// first.
//
// On both, every unique key must contain the primary key. The error wraps [snowflakeplugin.ErrSharding]: for
// a model with another unique key, for a primary key of several columns, for a number of partitions that is
// not from 2 to 8192, and for a database without partitions, such as SQLite.
//
// [snowflakeplugin.ErrSharding]: https://pkg.go.dev/github.com/snowflakeplugin/snowflakeplugin#ErrSharding
// [snowflakeplugin.Router]: https://pkg.go.dev/github.com/snowflakeplugin/snowflakeplugin#Router
func ByShard(db *gorm.DB, model any, partitions int) (statements []string, err error) {
	defer complete(&err, model)
	t, err := partitionable(db, model)
	if err != nil {
		return nil, err
	}
	if partitions < 2 || partitions > maxPartitions {
		return nil, fmt.Errorf("%d is not from 2 to %d", partitions, maxPartitions)
	}
	if t.mysql {
		expression := t.column
		if bits.OnesCount(uint(partitions)) != 1 {
			expression = fmt.Sprintf("(%s MOD %d)", t.column, t.layout.MaxSequence()+1)
		}
		return []string{
			fmt.Sprintf("ALTER TABLE %s PARTITION BY HASH (%s) PARTITIONS %d", t.table, expression, partitions),
		}, nil
	}
	var parts []string
	for i := range partitions {
		parts = append(parts, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s "+
			"FOR VALUES WITH (MODULUS %d, REMAINDER %d)",
			t.partition(fmt.Sprintf("%02d", i)), t.table, partitions, i))
	}
	return t.divided("HASH", parts), nil
}

// complete says in an error which model it is about.
func complete(err *error, model any) {
	if *err != nil {
		*err = fmt.Errorf("%w: partitions of %T: %w", errs.ErrSharding, model, *err)
	}
}

// layouter is what the plugin, under whose name the database has it, says about IDs.
type layouter interface{ Layout() generator.Layout }

// partitionTable is a table that can be divided.
type partitionTable struct {
	mysql         bool // MySQL or MariaDB; PostgreSQL otherwise
	layout        generator.Layout
	stmt          *gorm.Statement
	table, column string // quoted
}

// partitionable checks whether the table of a model can be divided by its key.
func partitionable(db *gorm.DB, model any) (partitionTable, error) {
	t := partitionTable{stmt: &gorm.Statement{DB: db}, mysql: db.Name() == dialect.MySQL}
	plugin, ok := db.Plugins[fill.PluginName].(layouter)
	if !ok {
		return t, errors.New("the database does not use the plugin: call db.Use first")
	}
	if err := t.stmt.Parse(model); err != nil {
		return t, err
	}
	plans := fill.NewPlans(19, func(id int64) any { return id }, nil)
	plan, err := plans.Prepare(t.stmt.Schema)
	if err != nil {
		return t, err
	}
	if len(t.stmt.Schema.PrimaryFields) != 1 {
		return t, errors.New("the primary key must be a single column")
	}
	key := t.stmt.Schema.PrimaryFields[0]
	for _, unique := range plan.Unique() {
		if !slices.Contains(unique, key) {
			return t, fmt.Errorf("the unique key of %s does not contain the primary key, so it could not "+
				"be enforced across partitions", names(unique))
		}
	}
	if d, known := dialect.Of(db.Name()); !known || d.Embedded() {
		return t, fmt.Errorf("databases of kind %s have no partitions: use a Router", db.Name())
	}
	t.layout = plugin.Layout()
	if err := t.layout.Validate(); err != nil {
		return t, fmt.Errorf("the plugin takes its numbers from WithSource, whose layout is not known: %w", err)
	}
	t.table, t.column = t.stmt.Quote(t.stmt.Schema.Table), t.stmt.Quote(key.DBName)
	return t, nil
}

// partition returns the quoted name of a partition. On PostgreSQL a partition is a table of its own.
func (t partitionTable) partition(suffix string) string {
	if t.mysql {
		return t.stmt.Quote("p" + suffix)
	}
	return t.stmt.Quote(t.stmt.Schema.Table + "_p" + suffix)
}

// divided returns the statements that replace a table by a partitioned one on PostgreSQL.
func (t partitionTable) divided(way string, partitions []string) []string {
	name := t.stmt.Schema.Table
	_, bare, qualified := strings.Cut(name, ".")
	if !qualified {
		bare = name
	}
	old := t.stmt.Quote(name + "_unpartitioned")
	statements := []string{
		fmt.Sprintf("ALTER TABLE %s RENAME TO %s", t.table, t.stmt.Quote(bare+"_unpartitioned")),
		fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL) PARTITION BY %s (%s)", t.table, old, way, t.column),
	}
	statements = append(statements, partitions...)
	return append(statements, fmt.Sprintf("INSERT INTO %s SELECT * FROM %s", t.table, old))
}

func names(fields []*schema.Field) string {
	var list []string
	for _, field := range fields {
		list = append(list, field.Name)
	}
	return strings.Join(list, ", ")
}
