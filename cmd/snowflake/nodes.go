package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func nodesGroup() group {
	return group{
		name: "nodes", short: "show and release node leases",
		help: `
Shows the node numbers that processes lease from a database, releases a number whose process is gone, and
keeps a number out of the leases. Shows and changes where the IDs of a database come from.
` + dsnHelp + `

  snowflake nodes list --dsn "$DSN"`,
	}
}

func listCommand() command {
	return command{
		name: "nodes list", short: "show which process holds which node number",
		help: `
Lists every node number that was ever leased, and its state. A process holds a number until the end of its
window, by the clock of the database, and extends the window long before that. The states are:

  held          a process holds the number
  ending        the process gave the number back, and the window has not ended yet
  free          the process gave the number back
  expired       the window has ended and the process did not give the number back: it died or was cut off
  held too far  the window ends more than two days from now; see "snowflake help nodes release"
  reserved      "nodes reserve" keeps the number out of the leases
  retired       the server with this number was merged into another one: the number is never leased again
  moved         the leases were moved to another store; see "snowflake help nodes authority"

"until" is the end of the window, in UTC. "changes" counts how often the record was written. A database
without the table has an empty list. It is an error if --table names the table and it is not there.
` + dsnHelp + `

  snowflake nodes list --dsn "$DSN"
  snowflake nodes list --json
  snowflake nodes list --dsn shop.db --table eu_snowflake_nodes`,
		flags: dsnFlags,
		run:   runList,
	}
}

// nodeInfo is a node in JSON: its state, and then the fields of its record.
type nodeInfo struct {
	State       string  `json:"state"`
	SecondsLeft float64 `json:"seconds_left"` // of the window, by the store's clock; negative when it is over

	record
}

// record is a record without its method for JSON, which would stand for all of a nodeInfo.
type record lease.Record

// newNodeInfo describes a record at an instant of the store's clock.
func newNodeInfo(r lease.Record, now time.Time) nodeInfo {
	r.Until, r.UpdatedAt = r.Until.UTC(), r.UpdatedAt.UTC()
	return nodeInfo{leaseops.State(r, now), float64(r.Until.Sub(now).Milliseconds()) / 1000, record(r)}
}

// left is the rest of the window. It is negative when the window is over.
func (n nodeInfo) left() time.Duration { return time.Duration(n.SecondsLeft * float64(time.Second)) }

func runList(ctx context.Context, e *env, o *options, _ []string) error {
	store, err := openStore(ctx, e, o, false)
	if errors.Is(err, errNoTable) && o.table == defaultTable {
		return answerNone(e, o, err)
	}
	if err != nil {
		return err
	}
	nodes, err := listNodes(ctx, store)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, nodes)
	}
	if len(nodes) == 0 {
		say(e.out, "No process has ever leased a node number from the table %s.\n", o.table)
		return nil
	}
	return printNodes(e.out, nodes)
}

// listNodes reads all records, and determines their states by the store's clock.
func listNodes(ctx context.Context, store lease.Store) ([]nodeInfo, error) {
	now, records, err := leaseops.Read(ctx, store)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b lease.Record) int { return cmp.Compare(a.Node, b.Node) })
	nodes := make([]nodeInfo, 0, len(records))
	for _, r := range records {
		nodes = append(nodes, newNodeInfo(r, now))
	}
	return nodes, nil
}

func printNodes(w io.Writer, nodes []nodeInfo) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "NODE\tSTATE\tUNTIL\t\tCHANGES\tOWNER\n")
	layouts := make(map[string]int)
	distant, moved := false, false
	for _, n := range nodes {
		left := "in " + spell(n.left())
		switch {
		case n.State == leaseops.Retired || n.State == leaseops.Reserved:
			left = "for good"
		case n.left() < 0:
			left = spell(-n.left()) + " ago"
		}
		say(table, "%d\t%s\t%s\t%s\t%d\t%s\n", n.Node, n.State, stamp(n.Until), left, n.Version, plain(n.Owner))
		if n.Layout != lease.UnboundLayout { // no ID was made with the number, or it is retired
			layouts[n.Layout]++
		}
		distant = distant || n.State == leaseops.Distant
		moved = moved || n.State == leaseops.Moved
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for layout, count := range layouts {
		say(w, "%d of layout %s\n", count, plain(layout))
	}
	if moved {
		say(w, "The leases were moved to another store, so no process leases a node here. See \"snowflake help "+
			"nodes authority\".\n")
	} else if len(layouts) > 1 {
		say(w, "Several layouts share the table, so no process can lease a node. Give each its own table.\n")
	}
	if distant {
		say(w, "A window ends later than any process asks for: a clock was wrong, or the record was altered.\n"+
			"See \"snowflake help nodes release\".\n")
	}
	return nil
}

func releaseCommand() command {
	return command{
		name: "nodes release", args: "NODE", short: "release a node number whose process is gone",
		needs: "exactly one node number is needed", least: 1, most: 1,
		help: `
Marks a node number as given back. This is hardly ever needed, because a number becomes free by itself when
its window ends. While the window still runs, a live process may hold the number. The command then refuses
(exit code 3), unless --force is given.

With --force the holder can no longer extend its window, and leases another number. No other process gets
this number before the window has ended, so no ID is repeated, even if the holder is alive.

A window that ends in the far future, because a clock was wrong or the record was altered, keeps the number
out of use until then. "--force --until now" ends the window now. This is safe only if no ID of that node
has a later time than now. Compare the largest ID of every table with the first ID of the range:

  snowflake range now +1m
  SELECT max(id) FROM orders;

If an ID is larger, "snowflake inspect" shows its node. It is safer to leave such a number unused.
` + dsnHelp + `

  snowflake nodes release 17 --dsn "$DSN"
  snowflake nodes release 17 --dsn "$DSN" --force`,
		flags: func(set *flag.FlagSet, o *options) {
			dsnFlags(set, o)
			set.BoolVar(&o.force, "force", false, "go on although a process may hold the number, or has held it")
			set.StringVar(&o.until, "until", "", "with --force, end the window `now`; \"now\" is the only value")
		},
		run: runRelease,
	}
}

func runRelease(ctx context.Context, e *env, o *options, args []string) error {
	node, err := nodeOf("release", args[0])
	if err != nil {
		return err
	}
	switch {
	case o.until != "" && o.until != "now":
		return usagef("nodes release: --until takes only \"now\", not %q", o.until)
	case o.until != "" && !o.force:
		return usagef("nodes release: --until now can repeat IDs, so it needs --force; " +
			"read \"snowflake help nodes release\" first")
	}
	store, err := openStore(ctx, e, o, false)
	if err != nil {
		return err
	}
	released, err := release(ctx, store, node, o.force, o.until != "")
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, released)
	}
	say(e.out, "Node %d is released.", node)
	if left := released.left(); left > 0 {
		say(e.out, " It can be leased when its window has ended, at %s, in %s.", stamp(released.Until),
			spell(left))
	}
	say(e.out, "\n")
	return nil
}

func nodeOf(command, arg string) (int64, error) {
	var node int64
	if _, err := fmt.Sscanf(arg, "%d", &node); err != nil || fmt.Sprint(node) != arg || node < 0 {
		return 0, usagef("nodes %s: %q is not a node number", command, arg)
	}
	return node, nil
}

// release replaces the record of a node with one that has no owner.
func release(ctx context.Context, store lease.Store, node int64, force, endNow bool) (nodeInfo, error) {
	now, records, err := leaseops.Read(ctx, store)
	if err != nil {
		return nodeInfo{}, err
	}
	i := slices.IndexFunc(records, func(r lease.Record) bool { return r.Node == node })
	if i < 0 {
		return nodeInfo{}, fmt.Errorf("node %d has no record: it was never leased here", node)
	}
	prev := records[i]
	if leaseops.State(prev, now) == leaseops.Retired {
		return nodeInfo{}, fmt.Errorf("%w: node %d was %s: its IDs are in the tables there, so no process may "+
			"ever lease the number again", errRefused, node, plain(prev.Owner))
	}
	if lease.Reserved(prev, now) && !endNow {
		return nodeInfo{}, fmt.Errorf("%w: node %d is %s until %s: whoever reserved it makes IDs of it; if "+
			"nobody does, \"--force --until now\" gives the number to the leases", errRefused, node,
			plain(prev.Owner), stamp(prev.Until))
	}
	running := prev.Until.After(now)
	if running && prev.Owner != "" && !force {
		return nodeInfo{}, fmt.Errorf("%w: node %d is held until %s, for another %s, by %q, which may be alive: "+
			"if it is not, the number becomes free by itself at that time; --force takes the number away from a "+
			"live holder, which then leases another one", errRefused, node, stamp(prev.Until),
			spell(prev.Until.Sub(now)), plain(prev.Owner))
	}
	next := prev
	next.Owner = ""
	next.Version++
	next.UpdatedAt = time.Now().UTC()
	if endNow && running {
		next.Until = now.Truncate(time.Second).Add(time.Second)
	}
	ok, err := store.Swap(ctx, prev, next)
	if err != nil {
		return nodeInfo{}, err
	}
	if !ok {
		return nodeInfo{}, fmt.Errorf("node %d was changed meanwhile, so its holder is alive: nothing was done",
			node)
	}
	return newNodeInfo(next, now), nil
}

func reserveCommand() command {
	return command{
		name: "nodes reserve", args: "NODE", short: "keep a node number out of the leases",
		needs: "exactly one node number is needed", least: 1, most: 1,
		help: `
Keeps a node number out of the leases for good, for IDs that are made in another way: an import of old rows
with generator.Backfill, or a program with a number given by hand. No process leases the number any more.
--for says what the number is for, and the command can be repeated with the same purpose.

The command refuses (exit code 3) if a process holds the number, or if it is reserved for another purpose.
Choose a number that was never leased: one that was leased before has IDs in the tables already, so it needs
--force.

--layout is the layout that the programs use. It fails if the leases are for another one. A database without
the table gets it.
` + dsnHelp + `

  snowflake nodes reserve 900 --for import --dsn "$DSN"
  snowflake nodes reserve 901 --for legacy --json`,
		flags: func(set *flag.FlagSet, o *options) {
			dsnFlags(set, o)
			layoutFlag(set, o)
			set.StringVar(&o.purpose, "for", "", "the `PURPOSE` of the number, from 1 to 160 bytes")
			set.BoolVar(&o.force, "force", false, "reserve the number although it was leased before")
		},
		run: runReserve,
	}
}

func runReserve(ctx context.Context, e *env, o *options, args []string) error {
	node, err := nodeOf("reserve", args[0])
	if err != nil {
		return err
	}
	if o.purpose == "" {
		return usagef("nodes reserve: a purpose is needed: give --for")
	}
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	if node > p.Layout.MaxNode() {
		return usagef("nodes reserve: layout %s has the nodes 0 to %d", p.Name, p.Layout.MaxNode())
	}
	store, err := openStore(ctx, e, o, true)
	if err != nil {
		return err
	}
	before, err := nodeIn(ctx, store, node)
	if err != nil {
		return err
	}
	if before != nil && before.SecondsLeft < 0 && !o.force {
		return fmt.Errorf("%w: node %d was leased before, so the tables may have IDs of it: choose a number "+
			"that was never leased, or use --force", errRefused, node)
	}
	if err := lease.Reserve(ctx, store, p.Layout, node, o.purpose); err != nil {
		if errors.Is(err, lease.ErrNodeHeld) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		return err
	}
	after, err := nodeIn(ctx, store, node)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, after)
	}
	say(e.out, "Node %d is %s. No process leases it.\n", node, plain(after.Owner))
	return nil
}

// nodeIn returns nil if the node has no record.
func nodeIn(ctx context.Context, store lease.Store, node int64) (*nodeInfo, error) {
	nodes, err := listNodes(ctx, store)
	for _, n := range nodes {
		if n.Node == node {
			return &n, err
		}
	}
	return nil, err
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

"show" prints the authority of the database, and the tables of leases that lie in it. A table that was
dropped, emptied or replaced grants nothing; then "show" prints the statement that leads back.

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
			set.BoolVar(&o.force, "force", false, "move although numbers may be in use")
			set.StringVar(&o.authority.target, "to", "", "\"own\", \"next\", or the `DSN` with the new leases")
			set.StringVar(&o.authority.targetTable, "to-table", defaultTable, "the `TABLE` of the new leases")
			set.StringVar(&o.authority.source, "from", "", "the `DSN` with the old leases, if they are elsewhere")
			set.StringVar(&o.authority.sourceTable, "from-table", defaultTable, "the `TABLE` of the old leases")
			set.BoolVar(&o.authority.anotherLayout, "another-layout", false,
				"the new leases have another layout, whose IDs are greater than all that are there")
		},
		run: runAuthority,
	}
}

func runAuthority(ctx context.Context, e *env, o *options, args []string) error {
	if len(args) != 1 || args[0] != verbShow && args[0] != verbMove {
		return usagef("nodes authority: exactly one argument is needed, \"show\" or \"move\"")
	}
	o.authority.target = cmp.Or(o.authority.target, e.getenv(toVariable))
	o.authority.source = cmp.Or(o.authority.source, e.getenv(fromVariable))
	if args[0] == verbMove && o.authority.target == "" {
		return usagef("nodes authority move: say where the IDs come from with --to: own, next or a DSN; for " +
			"leases in etcd, ZooKeeper or Redis, see \"snowflake help nodes authority\"")
	}
	db, pool, err := openGORM(e, o.database(e))
	if err != nil {
		return err
	}
	rows := authority.In(db.Name(), pool)
	if args[0] == verbMove {
		return moveAuthority(ctx, e, o, db, rows)
	}
	return showAuthority(ctx, e, o, db, rows)
}

// authorityInfo is a row in JSON.
type authorityInfo struct {
	authority.Note

	Table string `json:"table,omitempty"`
	// Lost says why the table grants nothing, if it was dropped, emptied or replaced.
	Lost string `json:"lost,omitempty"`
}

func showAuthority(
	ctx context.Context, e *env, o *options, db *gorm.DB, rows authority.Database,
) error {
	noted, own, err := rows.Show(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(own, func(a, b authority.Row) int { return cmp.Compare(a.Subject, b.Subject) })
	shown := struct {
		Rows   *authorityInfo   `json:"rows"`
		Leases []*authorityInfo `json:"leases"`
	}{Leases: []*authorityInfo{}}
	if noted != nil {
		shown.Rows = &authorityInfo{Note: *noted}
	}
	for _, row := range own {
		shown.Leases = append(shown.Leases,
			&authorityInfo{Note: row.Note, Table: row.Subject, Lost: lostLeases(ctx, e, db, row.Subject)})
	}
	if o.json {
		return printJSON(e.out, shown)
	}
	if noted == nil {
		say(e.out, "Nothing is noted: the next program that calls db.Use notes where its IDs come from.\n")
	} else {
		say(e.out, "The IDs come from %s.\nNoted at %s by %s.\n", plain(noted.String()), plain(noted.At),
			plain(noted.By))
	}
	for _, l := range shown.Leases {
		say(e.out, "The table %s in this database has the leases %s.\n", plain(l.Table), plain(l.ID))
	}
	for _, l := range shown.Leases {
		if l.Lost != "" {
			say(e.out, "\n%s\n", plainLines(l.Lost))
		}
	}
	return nil
}

// lostLeases returns the error of a program that leases from a table which was dropped, emptied or replaced,
// and nothing for any other table.
func lostLeases(ctx context.Context, e *env, db *gorm.DB, table string) string {
	store, err := leasesIn(ctx, e, db, table)
	if err == nil {
		_, err = authority.Leased(ctx, store)
	}
	if errors.Is(err, snowflakeplugin.ErrAuthority) {
		return err.Error()
	}
	return "" // whatever else is wrong with the table is not what was asked
}

func moveAuthority(
	ctx context.Context, e *env, o *options, db *gorm.DB, rows authority.Database,
) (err error) {
	m := authority.Move{Force: o.force, AnotherLayout: o.authority.anotherLayout}
	if m.From, err = oldLeases(ctx, e, o, db, rows); err != nil {
		return err
	}
	switch o.authority.target {
	case toNext:
	case toOwn:
		m.To, err = leasesIn(ctx, e, db, o.authority.targetTable)
	default:
		m.To, err = leasesAt(ctx, e, o.authority.target, o.authority.targetTable)
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

// oldLeases opens the leases that the database has: those that --from names, or else those that lie in the
// database itself. It returns nil if there are none.
func oldLeases(
	ctx context.Context, e *env, o *options, db *gorm.DB, rows authority.Database,
) (lease.Store, error) {
	if o.authority.source != "" {
		return leasesAt(ctx, e, o.authority.source, o.authority.sourceTable)
	}
	noted, own, err := rows.Show(ctx)
	if err != nil {
		return nil, err
	}
	if noted == nil {
		// A database of an earlier version has leases without a note.
		there, err := dialect.Kind(db.Name()).HasTable(ctx, db.ConnPool, o.authority.sourceTable)
		if err != nil || !there {
			return nil, err
		}
		return leasesIn(ctx, e, db, o.authority.sourceTable)
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
	return leasesIn(ctx, e, db, tables[0])
}

func leasesAt(ctx context.Context, e *env, dsn, table string) (lease.Store, error) {
	db, _, err := openGORM(e, dsn)
	if err != nil {
		return nil, err
	}
	return leasesIn(ctx, e, db, table)
}
