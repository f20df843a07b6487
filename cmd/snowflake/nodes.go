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

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func listCommand() command {
	return command{
		name: "nodes list", args: "", short: "show who holds which node number",
		help: `
Lists the node numbers that were ever used, and who has them. A number is held until the end of its
window by the database's clock; its holder extends the window long before. It is free when the window
has ended, because its process died ("expired") or gave it back ("free"). One of a server that was
merged into another is "retired": nobody gets it again.
` + dsnHelp + `

  snowflake nodes list --dsn postgres://app@db/shop
  SNOWFLAKE_DSN="$DSN" snowflake nodes list --json
  snowflake nodes list --dsn shop.db --table eu_snowflake_nodes`,
		flags: func(set *flag.FlagSet, o *options) {
			dsnFlags(set, o)
			jsonFlag(set, o)
		},
		run: runList,
	}
}

// The states of a node.
const (
	stateHeld    = "held"
	stateDistant = "held too far" // into the future
	stateRetired = "retired"      // its server was merged into another
	stateEnding  = "ending"       // given back, but not yet over
	stateExpired = "expired"
	stateFree    = "free"
)

// nodeInfo is a record in JSON.
type nodeInfo struct {
	lease.Record
	State string
	Left  time.Duration // of the window, by the store's clock; negative when it is over
}

// MarshalJSON keeps the form of the record.
func (n nodeInfo) MarshalJSON() ([]byte, error) {
	record, err := n.Record.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"state":%q,"seconds_left":%.3f,%s`, n.State, n.Left.Seconds(),
		strings.TrimPrefix(string(record), "{")), nil
}

func runList(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) > 0 {
		return usagef("nodes list: what is %q for? It takes flags only", args[0])
	}
	store, done, err := openStore(ctx, e, o, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	nodes, err := listNodes(ctx, store)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, nodes)
	}
	if len(nodes) == 0 {
		say(e.out, "No node number was ever leased from table %s.\n", o.table)
		return nil
	}
	return printNodes(e.out, nodes)
}

// listNodes reads all records, with the states that they are in by the store's clock.
func listNodes(ctx context.Context, store lease.Store) ([]nodeInfo, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return nil, err
	}
	records, err := store.List(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b lease.Record) int { return cmp.Compare(a.Node, b.Node) })
	nodes := make([]nodeInfo, 0, len(records))
	for _, r := range records {
		nodes = append(nodes, nodeInfo{Record: r, State: stateOf(r, now), Left: r.Until.Sub(now)})
	}
	return nodes, nil
}

// farAhead is beyond what a keeper grants: a span and a generator's lead, a day each at most.
const farAhead = 49 * time.Hour

func stateOf(r lease.Record, now time.Time) string {
	switch held := r.Until.After(now); {
	case merge.Retired(r.Owner, r.Until):
		return stateRetired
	case r.Until.Sub(now) > farAhead:
		return stateDistant
	case held && r.Owner != "":
		return stateHeld
	case held:
		return stateEnding
	case r.Owner != "":
		return stateExpired
	}
	return stateFree
}

func printNodes(w io.Writer, nodes []nodeInfo) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "NODE\tSTATE\tUNTIL\t\tCHANGES\tOWNER\n")
	layouts := make(map[string]int)
	distant := false
	for _, n := range nodes {
		left := "in " + spell(n.Left)
		switch {
		case n.State == stateRetired:
			left = "for good"
		case n.Left < 0:
			left = spell(-n.Left) + " ago"
		}
		say(table, "%d\t%s\t%s\t%s\t%d\t%s\n", n.Node, n.State, stamp(n.Until), left, n.Version, plain(n.Owner))
		layouts[n.Layout]++
		distant = distant || n.State == stateDistant
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for layout, count := range layouts {
		say(w, "%d of layout %s\n", count, plain(layout))
	}
	if len(layouts) > 1 {
		say(w, "Several layouts share the table, so no process can lease a node: give each a table of its own.\n")
	}
	if distant {
		say(w, "A window ends further ahead than any process asks for: a clock was wrong, or the record\n"+
			"was altered. See \"snowflake help nodes release\".\n")
	}
	return nil
}

func releaseCommand() command {
	return command{
		name: "nodes release", args: "NODE", short: "take a number away from a process that is gone",
		help: `
Marks a number as given back. A number whose window has ended is free anyway; one whose window still
runs may have a live holder, and is refused (exit code 3) unless --force is given.

With --force the holder can no longer extend its window, and takes another number; nobody else gets
this one before the window has ended. So it repeats no ID, whoever is alive.

A window that ends in the far future, because a clock was wrong or the record was altered, keeps the
number out of use until then. "--force --until now" ends it now. This is safe only if no ID of that
node is later than now. Check the tables that have IDs before:

  snowflake range now +1m                      # its first ID is the bound
  SELECT max(id) FROM orders;                  # then "snowflake inspect" on what is greater

Better leave such a number alone: there are others.
` + dsnHelp + `

  snowflake nodes release 17 --dsn "$DSN"
  snowflake nodes release 17 --dsn "$DSN" --force`,
		flags: func(set *flag.FlagSet, o *options) {
			dsnFlags(set, o)
			jsonFlag(set, o)
			set.BoolVar(&o.force, "force", false, "even if the holder may be alive")
			set.StringVar(&o.until, "until", "", "with --force: end the window `now`")
		},
		run: runRelease,
	}
}

func runRelease(ctx context.Context, e *env, o *options, args []string) (err error) {
	node, err := nodeOf(args)
	if err != nil {
		return err
	}
	switch {
	case o.until != "" && o.until != "now":
		return usagef("nodes release: --until takes \"now\" only, not %q", o.until)
	case o.until != "" && !o.force:
		return usagef("nodes release: --until now may repeat IDs, so it needs --force; read the help first")
	}
	store, done, err := openStore(ctx, e, o, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	released, err := release(ctx, store, node, o.force, o.until != "")
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, released)
	}
	say(e.out, "Node %d is given back.", node)
	if released.Left > 0 {
		say(e.out, " It can be taken when its window has ended, at %s, in %s.", stamp(released.Until),
			spell(released.Left))
	}
	say(e.out, "\n")
	return nil
}

func nodeOf(args []string) (int64, error) {
	if len(args) != 1 {
		return 0, usagef("nodes release: one node number is needed")
	}
	var node int64
	if _, err := fmt.Sscanf(args[0], "%d", &node); err != nil || fmt.Sprint(node) != args[0] || node < 0 {
		return 0, usagef("nodes release: %q is no node number", args[0])
	}
	return node, nil
}

// release swaps the record of a node for one without an owner.
func release(ctx context.Context, store lease.Store, node int64, force, endNow bool) (nodeInfo, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return nodeInfo{}, err
	}
	records, err := store.List(ctx)
	if err != nil {
		return nodeInfo{}, err
	}
	at := slices.IndexFunc(records, func(r lease.Record) bool { return r.Node == node })
	if at < 0 {
		return nodeInfo{}, fmt.Errorf("node %d has no record: it was never leased here", node)
	}
	prev := records[at]
	if merge.Retired(prev.Owner, prev.Until) {
		return nodeInfo{}, fmt.Errorf("%w: node %d was %s: its IDs are in the tables there, so nobody may ever "+
			"get the number again", errRefused, node, plain(prev.Owner))
	}
	running := prev.Until.After(now)
	if running && prev.Owner != "" && !force {
		return nodeInfo{}, fmt.Errorf("%w: node %d is held until %s, for another %s, by %q, which may be alive: "+
			"if it is not, the number falls free then by itself; --force takes it away from a live holder, who "+
			"takes another", errRefused, node, stamp(prev.Until), spell(prev.Until.Sub(now)), plain(prev.Owner))
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
	return nodeInfo{Record: next, State: stateOf(next, now), Left: next.Until.Sub(now)}, nil
}
