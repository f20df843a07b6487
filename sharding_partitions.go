package snowflakeplugin

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
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
	plugin, ok := db.Plugins[pluginName].(*Plugin)
	if !ok {
		return nil, errors.New("the database does not use the plugin: call db.Use first")
	}
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(model); err != nil {
		return nil, err
	}
	plan, err := plugin.plans.prepare(stmt.Schema)
	if err != nil {
		return nil, err
	}
	if partitions < 2 || partitions > mostPartitions {
		return nil, fmt.Errorf("%d is not from 2 to %d", partitions, mostPartitions)
	}
	if len(stmt.Schema.PrimaryFields) != 1 {
		return nil, errors.New("the primary key has to be one column")
	}
	key := stmt.Schema.PrimaryFields[0]
	for _, unique := range plugin.plans.unique(plan) {
		if !slices.Contains(unique, key) {
			return nil, fmt.Errorf("the unique key of %s does not contain the primary key: partitions could not "+
				"see each other's rows", names(unique))
		}
	}
	table, column := stmt.Quote(stmt.Schema.Table), stmt.Quote(key.DBName)
	switch db.Name() {
	case "mysql":
		expression := column
		if bits.OnesCount(uint(partitions)) != 1 {
			layout := plugin.config.layoutOrDefault()
			expression = fmt.Sprintf("(%s MOD %d)", column, layout.MaxSequence()+1)
		}
		alter := fmt.Sprintf("ALTER TABLE %s PARTITION BY HASH (%s) PARTITIONS %d", table, expression, partitions)
		return []string{alter}, nil
	case "postgres":
		return postgresPartitions(stmt, table, column, partitions), nil
	default:
		return nil, fmt.Errorf("a database of kind %s has no partitions: use a Router", db.Name())
	}
}

func postgresPartitions(stmt *gorm.Statement, table, column string, partitions int) []string {
	name := stmt.Schema.Table
	_, bare, qualified := strings.Cut(name, ".")
	if !qualified {
		bare = name
	}
	old := stmt.Quote(name + "_unpartitioned")
	statements := []string{
		fmt.Sprintf("ALTER TABLE %s RENAME TO %s", table, stmt.Quote(bare+"_unpartitioned")),
		fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL) PARTITION BY HASH (%s)", table, old, column),
	}
	for i := range partitions {
		partition := stmt.Quote(fmt.Sprintf("%s_p%02d", name, i))
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s "+
			"FOR VALUES WITH (MODULUS %d, REMAINDER %d)", partition, table, partitions, i))
	}
	return append(statements, fmt.Sprintf("INSERT INTO %s SELECT * FROM %s", table, old))
}

func names(fields []*schema.Field) string {
	var list []string
	for _, field := range fields {
		list = append(list, field.Name)
	}
	return strings.Join(list, ", ")
}
