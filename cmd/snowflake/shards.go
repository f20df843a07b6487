package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
)

// defaultShards is the table in which the databases of a router record their shards.
const defaultShards = "snowflake_shards"

const shardsDSNHelp = dsnHelp + `

A router with several databases needs all of them: give --dsn once for each, in the order of the program.`

func shardsGroup() group {
	return group{
		name: "shards", short: "show shards, and resume or undo a resharding",
		help: `
Shows the shards of a router and how far a resharding is. Goes on with a resharding whose process has ended,
or undoes it. The program and its models are not needed, because the databases record what there is to do.
` + shardsDSNHelp + `

  snowflake shards status --dsn "$DSN"`,
	}
}

func shardsFlags(set *flag.FlagSet, o *options) {
	set.Func("dsn", "the `DSN` of a database of the router, in their order (default $"+dsnVariable+")",
		func(dsn string) error {
			o.dsns = append(o.dsns, dsn)
			return nil
		})
	set.StringVar(&o.table, "table", defaultShards,
		"the `TABLE` of the shard map, as the naming strategy of the program spells it")
	jsonFlag(set, o)
}

func shardsStatusCommand() command {
	return command{
		name: "shards status", short: "show the shards, their rows, and how far a resharding is",
		help: `
Shows each model with the version of its shard map, the rows of every shard, and whether a resharding is under
way: what it has done, and what "resume", "undo" or "clean" would do next. It counts the rows, which takes a
while for large tables, and it changes nothing.
` + shardsDSNHelp + `

  snowflake shards status --dsn "$DSN"
  snowflake shards status --dsn "$DSN" --dsn "$DSN2" --json`,
		flags: shardsFlags,
		run:   runShardsStatus,
	}
}

func shardsResumeCommand() command {
	return shardsStep("resume", "bring a resharding to the end of its cutover", `
Goes on with a resharding whose process has ended: it copies what is left, cuts over, and finishes a cutover
that was interrupted. Statements of the programs wait for a moment. All running programs follow by themselves;
programs that start afterwards must be configured with twice the shards. It refuses (exit code 3) while a
resharding is being undone.

The process that reshards must have ended. If it has not, it is overtaken, and its step fails.`,
		"The cutover to %d shards is over. \"snowflake shards clean\" ends the resharding, \"undo\" goes back.\n",
		(*router.Resharding).Resume)
}

func shardsUndoCommand() command {
	return shardsStep("undo", "go back to the number of shards before a resharding", `
Before the cutover it opens the shard map if that is closed, and drops the new tables. After the cutover,
until it is cleaned, it copies the rows of the new tables back into the old ones, also those that were written
since, while statements of the programs wait. Then the old number of shards is valid again, and the new
tables are dropped. All running programs follow by themselves; programs that start afterwards must be
configured with the old number again. An undo that was interrupted goes on.`,
		"The resharding to %d shards is undone.\n", (*router.Resharding).Undo)
}

func shardsCleanCommand() command {
	return shardsStep("clean", "end a resharding after its cutover", `
Ends a resharding after its cutover, so that there can be another one. Afterwards it cannot be undone any
more. It removes the journal, and no rows.`,
		"The resharding to %d shards has ended.\n", (*router.Resharding).Clean)
}

// shardsStep is a command that takes one step of a resharding.
func shardsStep(
	name, short, help, done string, step func(*router.Resharding, context.Context) error,
) command {
	return command{
		name: "shards " + name, short: short, flags: shardsFlags,
		help: help + "\n" + shardsDSNHelp + `

  snowflake shards ` + name + ` --dsn "$DSN"
  snowflake shards ` + name + ` --dsn "$DSN" --dsn "$DSN2"`,
		run: func(ctx context.Context, e *env, o *options, args []string) error {
			return runShardsStep(ctx, e, o, args, name, done, step)
		},
	}
}

// openShards opens the databases, and returns the function that closes them.
func openShards(e *env, o *options) (dbs []*gorm.DB, closeAll func() error, err error) {
	dsns := o.dsns
	if dsns == nil {
		dsns = []string{e.getenv(dsnVariable)}
	}
	prefix, ok := strings.CutSuffix(o.table, defaultShards)
	if !ok {
		return nil, nil, usagef("shards: the table ends with %s, and %q does not", defaultShards, o.table)
	}
	var pools []*sql.DB
	closeAll = func() error {
		var failures []error
		for _, pool := range pools {
			failures = append(failures, pool.Close())
		}
		return errors.Join(failures...)
	}
	for _, dsn := range dsns {
		db, pool, err := openGORM(dsn)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		db.NamingStrategy = schema.NamingStrategy{TablePrefix: prefix}
		dbs, pools = append(dbs, db), append(pools, pool)
	}
	return dbs, closeAll, nil
}

func runShardsStatus(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) > 0 {
		return usagef("shards status: unexpected argument %q: there are only flags", args[0])
	}
	dbs, done, err := openShards(e, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	d, err := router.OpenResharding(ctx, router.ReshardConfig{Databases: dbs})
	if err != nil {
		return err
	}
	status, err := router.ReadStatus(ctx, dbs, d)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, status)
	}
	return printShards(e.out, status, o.table)
}

func printShards(w io.Writer, s router.Status, table string) error {
	if len(s.Models) == 0 {
		say(w, "No router has recorded shards in the table %s.\n", plain(table))
		return nil
	}
	for _, m := range s.Models {
		closed := ""
		if m.Closed {
			closed = ", closed: nothing is routed"
		}
		say(w, "%s: %d shards, version %d%s\n", plain(m.Table), m.Shards, m.Version, closed)
		most := int64(1)
		for _, t := range m.Tables {
			most = max(most, t.Rows)
		}
		rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, t := range m.Tables {
			say(rows, "  %s\tdatabase %d\t%s\t%s\n", plain(t.Table), t.Database, comma(t.Rows),
				strings.Repeat("#", int(30*t.Rows/most)))
		}
		if err := rows.Flush(); err != nil {
			return err
		}
	}
	r := s.Resharding
	if r == nil {
		say(w, "No resharding is under way.\n")
		return nil
	}
	say(w, "\nA resharding from %d to %d shards: %s.\n", r.From, r.To, r.State)
	say(w, "copied %s\n", progressBar(r.Copied, r.Moving))
	say(w, "next: %s.\n", r.Next)
	return nil
}

// progressBar shows a part of a whole.
func progressBar(done, total int64) string {
	const size = 30
	part := int64(100)
	if total > 0 {
		part = min(100*done/total, 100)
	}
	full := int(size * part / 100)
	return fmt.Sprintf("[%s%s] %d%%, %s of %s rows", strings.Repeat("#", full), strings.Repeat(".", size-full),
		part, comma(done), comma(total))
}

func runShardsStep(
	ctx context.Context, e *env, o *options, args []string, name, said string,
	step func(*router.Resharding, context.Context) error,
) (err error) {
	if len(args) > 0 {
		return usagef("shards %s: unexpected argument %q: there are only flags", name, args[0])
	}
	dbs, done, err := openShards(e, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var printed time.Time
	d, err := router.OpenResharding(ctx, router.ReshardConfig{
		Databases: dbs, Progress: func(p router.ReshardProgress) {
			if now := time.Now(); now.Sub(printed) >= linesEvery {
				printed = now
				say(e.err, "%s: %s rows of %s\n", p.Step, comma(p.Rows), plain(p.Table))
			}
		},
	})
	if errors.Is(err, errs.ErrSharding) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err != nil {
		return err
	}
	if d == nil {
		return fmt.Errorf("shards %s: no resharding is under way in these databases", name)
	}
	_, shards := d.Numbers()
	if err := step(d, ctx); err != nil {
		if errors.Is(err, errs.ErrSharding) {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return fmt.Errorf("shards %s: %w", name, err)
	}
	if !o.json {
		say(e.out, said, shards)
		return nil
	}
	if d, err = router.OpenResharding(ctx, router.ReshardConfig{Databases: dbs}); err != nil {
		return err
	}
	status, err := router.ReadStatus(ctx, dbs, d)
	if err != nil {
		return err
	}
	return printJSON(e.out, status)
}
