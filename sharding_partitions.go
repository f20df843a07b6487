package snowflakeplugin

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// mostPartitions is MySQL's limit for a table; PostgreSQL plans slowly with more.
const mostPartitions = 8192

// PartitionSQL returns the statements that divide a table into native partitions of its database,
// which takes a router's place where one database is enough. It runs none of them: read them first,
// since they copy the whole table and lock it meanwhile. db has to use the plugin.
//
// On MySQL and MariaDB the partition of a row is the shard of its ID, as a [Router] with as many
// shards has it, and the optimizer finds it for a condition on the key with = or IN. Bit operators
// are not permitted in the expression, so a number that is no power of two is taken by MOD. Partitioned
// tables can have no foreign keys.
//
// On PostgreSQL the table is renamed to NAME_unpartitioned, and its rows are copied into a new one.
// The partition is PostgreSQL's own hash of the ID, evenly spread, but not the shard. The old table is
// left for you to drop; foreign keys of other tables still refer to it, so give them to the new one
// first.
//
// On both every unique key has to contain the primary key. It returns an error wrapping
// [ErrSharding] for a model with another unique key, a key of more than one column, a number of
// partitions that is not from 2 to 8192, or a database without partitions, such as SQLite.
func PartitionSQL(db *gorm.DB, model any, partitions int) ([]string, error) {
	statements, err := partitionSQL(db, model, partitions)
	if err != nil {
		return nil, fmt.Errorf("%w: partitions of %T: %w", ErrSharding, model, err)
	}
	return statements, nil
}

func partitionSQL(db *gorm.DB, model any, partitions int) ([]string, error) {
	t, err := partitionable(db, model)
	if err != nil {
		return nil, err
	}
	if partitions < 2 || partitions > mostPartitions {
		return nil, fmt.Errorf("%d is not from 2 to %d", partitions, mostPartitions)
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

// partitionTable is a table that can be divided.
type partitionTable struct {
	mysql         bool // or PostgreSQL
	layout        generator.Layout
	stmt          *gorm.Statement
	table, column string // quoted
}

// partitionable refuses what no database can divide by its key.
func partitionable(db *gorm.DB, model any) (partitionTable, error) {
	t := partitionTable{stmt: &gorm.Statement{DB: db}, mysql: db.Name() == "mysql"}
	plugin, ok := db.Plugins[pluginName].(*Plugin)
	if !ok {
		return t, errors.New("the database does not use the plugin: call db.Use first")
	}
	if err := t.stmt.Parse(model); err != nil {
		return t, err
	}
	plan, err := plugin.plans.prepare(t.stmt.Schema)
	if err != nil {
		return t, err
	}
	if len(t.stmt.Schema.PrimaryFields) != 1 {
		return t, errors.New("the primary key has to be one column")
	}
	key := t.stmt.Schema.PrimaryFields[0]
	for _, unique := range plugin.plans.unique(plan) {
		if !slices.Contains(unique, key) {
			return t, fmt.Errorf("the unique key of %s does not contain the primary key: partitions could not "+
				"see each other's rows", names(unique))
		}
	}
	if !t.mysql && db.Name() != "postgres" {
		return t, fmt.Errorf("a database of kind %s has no partitions: use a Router", db.Name())
	}
	t.layout = plugin.config.layoutOrDefault()
	t.table, t.column = t.stmt.Quote(t.stmt.Schema.Table), t.stmt.Quote(key.DBName)
	return t, nil
}

// partition is the name of a partition, which is a table of its own on PostgreSQL.
func (t partitionTable) partition(suffix string) string {
	if t.mysql {
		return t.stmt.Quote("p" + suffix)
	}
	return t.stmt.Quote(t.stmt.Schema.Table + "_p" + suffix)
}

// divided puts a table with partitions in the place of one without, on PostgreSQL.
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
