package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

// authorityOptions are the flags of "nodes authority".
type authorityOptions struct {
	to, toTable, from, fromTable string
	anotherLayout                bool
}

const (
	verbShow = "show"
	verbMove = "move"

	// toOwn and toNext are what --to can be apart from a DSN.
	toOwn  = "own"
	toNext = "next"

	fromVariable = "SNOWFLAKE_FROM_DSN"
	toVariable   = "SNOWFLAKE_TO_DSN"
)

func authorityCommand() command {
	return command{
		name: "nodes authority", args: "show|move", short: "show or change where the IDs of a database come from",
		values: []string{verbShow, verbMove},
		help: `
Each database notes which authority its IDs come from: the leases in one table, or numbers that are given by
hand. The plugin refuses another authority, because two authorities hand out the same numbers.

"show" prints the authority of the database, and the tables of leases that lie in it.

"move" changes the authority of the database. Stop every program that writes to it first. The command refuses
(exit code 3) while a process holds a number in the old leases or in the new ones. --to says where the IDs
come from afterwards:

  own   the leases in the database itself, in the table --to-table
  next  whatever the next program uses that calls db.Use, such as numbers given by hand
  DSN   the leases in that database; or set ` + toVariable + `

The old leases grant nothing any more: if several databases have them, move each of them. In the new leases
no number is granted before the end of its last window in the old ones, so no ID is repeated. That holds
with --force too: a program that still runs with the old leases makes IDs until its window ends, and then
fails with lease.ErrLayoutMismatch.

The command reads and ends leases in SQL databases only. To move from SQL leases to etcd, ZooKeeper or Redis,
use "--to next": the next program notes its own leases. To move away from etcd, ZooKeeper or Redis, stop every
program, wait for the longest span that any of them has, and use --force; never use those leases again.

If the old leases lie in another database, name it with --from or ` + fromVariable + `. If they are gone,
or the numbers were given by hand, nothing can end them: stop every such program, wait for half a minute,
and use --force.
` + dsnHelp + `

  snowflake nodes authority show --dsn "$DSN"
  snowflake nodes authority move --dsn "$DSN" --to own
  snowflake nodes authority move --dsn b.db --to a.db
  snowflake nodes authority move --dsn game.db --to next --force`,
		flags: func(set *flag.FlagSet, o *options) {
			set.StringVar(&o.dsn, "dsn", "", "the `DSN` of the database with the rows (default $"+dsnVariable+")")
			jsonFlag(set, o)
			set.BoolVar(&o.force, "force", false, "move although numbers may be in use")
			set.StringVar(&o.authority.to, "to", "", "\"own\", \"next\", or the `DSN` with the new leases")
			set.StringVar(&o.authority.toTable, "to-table", defaultTable, "the `TABLE` of the new leases")
			set.StringVar(&o.authority.from, "from", "", "the `DSN` with the old leases, if they are elsewhere")
			set.StringVar(&o.authority.fromTable, "from-table", defaultTable, "the `TABLE` of the old leases")
			set.BoolVar(&o.authority.anotherLayout, "another-layout", false,
				"the new leases have another layout, whose IDs are greater than all that are there")
		},
		run: runAuthority,
	}
}

func runAuthority(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) != 1 || args[0] != verbShow && args[0] != verbMove {
		return usagef("nodes authority: exactly one argument is needed, \"show\" or \"move\"")
	}
	o.dsn = cmp.Or(o.dsn, e.getenv(dsnVariable))
	o.authority.to = cmp.Or(o.authority.to, e.getenv(toVariable))
	o.authority.from = cmp.Or(o.authority.from, e.getenv(fromVariable))
	if args[0] == verbMove && o.authority.to == "" {
		return usagef("nodes authority move: say where the IDs come from with --to: own, next or a DSN; for " +
			"leases in etcd, ZooKeeper or Redis, see \"snowflake help nodes authority\"")
	}
	db, pool, err := openGORM(o.dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	rows := authority.In(db.Name(), pool)
	if args[0] == verbMove {
		return moveAuthority(ctx, e, o, db, rows)
	}
	return showAuthority(ctx, e.out, o, rows)
}

// authorityInfo is a row in JSON.
type authorityInfo struct {
	Authority string `json:"authority"`
	Layout    string `json:"layout,omitempty"`
	Place     string `json:"place,omitempty"`
	NotedBy   string `json:"noted_by"`
	NotedAt   string `json:"noted_at"`
	Table     string `json:"table,omitempty"`
}

func authorityInfoOf(table string, n authority.Note) authorityInfo {
	return authorityInfo{
		Authority: n.ID, Layout: n.Layout, Place: n.Place, NotedBy: n.By, NotedAt: n.At, Table: table,
	}
}

func showAuthority(ctx context.Context, w io.Writer, o *options, rows authority.Database) error {
	noted, own, err := rows.Show(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(own, func(a, b authority.Row) int { return cmp.Compare(a.Subject, b.Subject) })
	if o.json {
		shown := struct {
			Rows   *authorityInfo  `json:"rows"`
			Leases []authorityInfo `json:"leases"`
		}{Leases: []authorityInfo{}}
		if noted != nil {
			info := authorityInfoOf("", *noted)
			shown.Rows = &info
		}
		for _, row := range own {
			shown.Leases = append(shown.Leases, authorityInfoOf(row.Subject, row.Note))
		}
		return printJSON(w, shown)
	}
	if noted == nil {
		say(w, "Nothing is noted: the next program that calls db.Use notes where its IDs come from.\n")
	} else {
		say(w, "The IDs come from %s.\nNoted at %s by %s.\n", plain(noted.String()), plain(noted.At),
			plain(noted.By))
	}
	for _, row := range own {
		say(w, "The table %s in this database has the leases %s.\n", plain(row.Subject), plain(row.ID))
	}
	return nil
}

func moveAuthority(
	ctx context.Context, e *env, o *options, db *gorm.DB, rows authority.Database,
) (err error) {
	m := authority.Move{Force: o.force, AnotherLayout: o.authority.anotherLayout}
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	if m.From, err = open.oldLeases(ctx, o, db, rows); err != nil {
		return err
	}
	switch o.authority.to {
	case toNext:
	case toOwn:
		m.To, err = open.leasesIn(ctx, db, o.authority.toTable)
	default:
		m.To, err = open.leasesAt(ctx, o.authority.to, o.authority.toTable)
	}
	if err != nil {
		return err
	}
	was, is, err := rows.Move(ctx, m)
	if errors.Is(err, authority.ErrRefused) {
		why := strings.TrimPrefix(err.Error(), authority.ErrRefused.Error()+": ")
		return fmt.Errorf("%w: %s", errRefused, why)
	}
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, map[string]string{"was": was.ID, "is": is.ID})
	}
	if was.ID != "" {
		say(e.out, "The IDs came from %s.\n", plain(was.String()))
	}
	if is.ID == "" {
		say(e.out, "Nothing is noted now: the next program that calls db.Use notes where its IDs come from.\n")
		return nil
	}
	say(e.out, "The IDs come from %s.\n", plain(is.String()))
	return nil
}

// closers closes what a command has opened.
type closers []func() error

func (c closers) close() error {
	var errs []error
	for _, one := range slices.Backward(c) {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}

// oldLeases opens the leases that the database has: those that --from names, or else those that lie in the
// database itself. It returns nil if there are none.
func (c *closers) oldLeases(
	ctx context.Context, o *options, db *gorm.DB, rows authority.Database,
) (lease.Store, error) {
	if o.authority.from != "" {
		return c.leasesAt(ctx, o.authority.from, o.authority.fromTable)
	}
	noted, own, err := rows.Show(ctx)
	if err != nil {
		return nil, err
	}
	if noted == nil {
		// A database of an earlier version has leases without a note.
		if !db.WithContext(ctx).Migrator().HasTable(o.authority.fromTable) {
			return nil, nil
		}
		return c.leasesIn(ctx, db, o.authority.fromTable)
	}
	var tables []string
	for _, row := range own {
		if row.ID == noted.ID {
			tables = append(tables, row.Subject)
		}
	}
	switch {
	case len(tables) == 0:
		return nil, nil
	case len(tables) > 1: // databases of one server of MySQL, of which all but one are copies
		return nil, fmt.Errorf("%w: several tables have the leases of this database: %q. Name that which is in "+
			"use with --from and --from-table", errRefused, tables)
	}
	return c.leasesIn(ctx, db, tables[0])
}

// leasesAt opens the leases in the database of a DSN.
func (c *closers) leasesAt(ctx context.Context, dsn, table string) (lease.Store, error) {
	db, pool, err := openGORM(dsn)
	if err != nil {
		return nil, err
	}
	*c = append(*c, pool.Close)
	return c.leasesIn(ctx, db, table)
}

func (c *closers) leasesIn(ctx context.Context, db *gorm.DB, table string) (lease.Store, error) {
	//nolint:contextcheck // it waits under the context of db
	store, err := gormlease.New(db.WithContext(ctx), gormlease.WithTable(table))
	if err != nil {
		return nil, err
	}
	*c = append(*c, store.Close)
	return store, nil
}

// openGORM opens the database of a DSN.
func openGORM(dsn string) (*gorm.DB, *sql.DB, error) {
	dialector, err := dialectorOf(dsn)
	if err != nil {
		return nil, nil, err
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the %s database: %w", dialector.Name(), err)
	}
	pool, err := db.DB()
	return db, pool, err
}
