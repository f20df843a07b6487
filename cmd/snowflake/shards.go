package main

import (
	"context"
	"flag"
	"io"
	"strings"
	"text/tabwriter"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// defaultShards is the table in which the databases of a router record their shards.
const defaultShards = "snowflake_shards"

const shardsDSNHelp = dsnHelp + `

A router with several databases needs all of them: give --dsn once for each, in the order of the program.`

func shardsGroup() group {
	return group{
		name: "shards", short: "show the shards of a router",
		help: `
Shows the shards of a router, and which of them are being split, joined or moved. Shards are changed by the
package resharding in a program that has the models, because the models say how tables are made.
` + shardsDSNHelp + `

  snowflake shards status --dsn "$DSN"`,
	}
}

func shardsFlags(set *flag.FlagSet, o *options) {
	set.Var(&o.dsns, "dsn", "the `DSN` of a database of the router, in their order (default $"+dsnVariable+")")
	set.StringVar(&o.table, "table", defaultShards,
		"the `TABLE` of the shard map, as the naming strategy of the program spells it")
}

func shardsStatusCommand() command {
	return command{
		name: "shards status", short: "show the shards, their rows, and what is being changed",
		help: `
Shows each model with its tables: the class of IDs of each, its database, its rows and its size, which is
what the catalog says, and 0 on SQLite. A shard that is split, joined or moved takes that space once more
until its old tables are dropped. Below are the shards that are being changed, and those whose old tables
are not dropped yet. It counts the rows, which takes a while for large tables, and it changes nothing.
` + shardsDSNHelp + `

  snowflake shards status --dsn "$DSN"
  snowflake shards status --dsn "$DSN" --dsn "$DSN2" --json`,
		flags: shardsFlags,
		run:   runShardsStatus,
	}
}

func openShards(e *env, o *options) ([]*gorm.DB, error) {
	dsns := o.dsns
	if dsns == nil {
		dsns = []string{e.getenv(dsnVariable)}
	}
	prefix, ok := strings.CutSuffix(o.table, defaultShards)
	if !ok {
		return nil, usagef("shards: the table ends with %s, and %q does not", defaultShards, o.table)
	}
	var dbs []*gorm.DB
	for _, dsn := range dsns {
		db, _, err := openGORM(e, dsn)
		if err != nil {
			return nil, err
		}
		db.NamingStrategy = schema.NamingStrategy{TablePrefix: prefix}
		dbs = append(dbs, db)
	}
	return dbs, nil
}

func runShardsStatus(ctx context.Context, e *env, o *options, _ []string) error {
	dbs, err := openShards(e, o)
	if err != nil {
		return err
	}
	status, err := shardmap.ReadStatus(ctx, dbs)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, status)
	}
	return printShards(e.out, status, o.table)
}

func printShards(w io.Writer, s shardmap.Status, table string) error {
	if len(s.Models) == 0 {
		say(w, "No router has recorded shards in the table %s.\n", plain(table))
		return nil
	}
	for _, m := range s.Models {
		say(w, "%s: %d shards, %d at the first start\n", plain(m.Table), len(m.Tables), m.First)
		most := int64(1)
		for _, t := range m.Tables {
			most = max(most, t.Rows)
		}
		rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, t := range m.Tables {
			closed := ""
			if t.Closed {
				closed = " closed"
			}
			say(rows, "  %s\t%d of %d\tdatabase %d\t%s\t%.1f MB\t%s%s\n", plain(t.Table), t.Residue, t.Modulus,
				t.Database, comma(t.Rows), float64(t.Bytes)/1e6, strings.Repeat("#", int(30*t.Rows/most)), closed)
		}
		if err := rows.Flush(); err != nil {
			return err
		}
	}
	if len(s.Reshardings) == 0 {
		say(w, "No shard is being changed.\n")
	}
	for _, j := range s.Reshardings {
		state := "not cut over yet: resharding.Resume goes on, and resharding.Drop gives it up"
		if j.Over {
			state = "cut over: resharding.Clean drops the old tables"
		}
		say(w, "%s, %s -> %s: %s.\n", plain(j.Base), strings.Join(j.From, " and "), strings.Join(j.To, " and "),
			state)
	}
	return nil
}
