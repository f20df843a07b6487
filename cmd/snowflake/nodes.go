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

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
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
  held too far  the window ends more than 49 hours from now; see "snowflake help nodes release"
  reserved      "nodes reserve" keeps the number out of the leases
  retired       the server with this number was merged into another one: the number is never leased again
  moved         the leases were moved to another store; see "snowflake help nodes authority"

"until" is the end of the window, in UTC. "changes" counts how often the record was written. A database
without the table has an empty list. It is an error if --table names the table and it is not there.
` + dsnHelp + `

  snowflake nodes list --dsn "$DSN"
  snowflake nodes list --json
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
	stateHeld     = "held"
	stateDistant  = "held too far" // into the future
	stateReserved = "reserved"     // by lease.Reserve
	stateRetired  = "retired"      // its server was merged into another
	stateMoved    = "moved"        // with the whole store
	stateEnding   = "ending"       // given back, but the window has not ended
	stateExpired  = "expired"
	stateFree     = "free"
)

// nodeInfo is a node in JSON: its state, and then the fields of its record.
type nodeInfo struct {
	State       string    `json:"state"`
	SecondsLeft float64   `json:"seconds_left"` // of the window, by the store's clock; negative when it is over
	Node        int64     `json:"node"`
	Owner       string    `json:"owner"`
	Until       time.Time `json:"until"`
	Version     int64     `json:"version"`
	Layout      string    `json:"layout"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// newNodeInfo describes a record at an instant of the store's clock.
func newNodeInfo(r lease.Record, now time.Time) nodeInfo {
	return nodeInfo{
		State: stateOf(r, now), SecondsLeft: float64(r.Until.Sub(now).Milliseconds()) / 1000, Node: r.Node,
		Owner: r.Owner, Until: r.Until.UTC(), Version: r.Version, Layout: r.Layout, UpdatedAt: r.UpdatedAt.UTC(),
	}
}

// left is the rest of the window. It is negative when the window is over.
func (n nodeInfo) left() time.Duration { return time.Duration(n.SecondsLeft * float64(time.Second)) }

func runList(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) > 0 {
		return usagef("nodes list: unexpected argument %q: there are only flags", args[0])
	}
	store, done, err := openStore(ctx, e, o, false)
	if errors.Is(err, errNoTable) && o.table == defaultTable {
		// This is an answer and not a failure: many games have never leased a number.
		say(e.err, "snowflake: %s\n", err)
		if o.json {
			return printJSON(e.out, []nodeInfo{})
		}
		return nil
	}
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
		say(e.out, "No process has ever leased a node number from the table %s.\n", o.table)
		return nil
	}
	return printNodes(e.out, nodes)
}

// listNodes reads all records, and determines their states by the store's clock.
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
		nodes = append(nodes, newNodeInfo(r, now))
	}
	return nodes, nil
}

// farAhead is longer than any window that a keeper asks for: a span and the lead of a generator are at
// most one day each.
const farAhead = 49 * time.Hour

func stateOf(r lease.Record, now time.Time) string {
	switch held := r.Until.After(now); {
	case merge.Retired(r.Owner, r.Until):
		return stateRetired
	case strings.HasPrefix(r.Layout, authority.MovedLayout):
		return stateMoved
	case lease.Reserved(r, now):
		return stateReserved
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
	distant, moved := false, false
	for _, n := range nodes {
		left := "in " + spell(n.left())
		switch {
		case n.State == stateRetired || n.State == stateReserved:
			left = "for good"
		case n.left() < 0:
			left = spell(-n.left()) + " ago"
		}
		say(table, "%d\t%s\t%s\t%s\t%d\t%s\n", n.Node, n.State, stamp(n.Until), left, n.Version, plain(n.Owner))
		layouts[n.Layout]++
		distant = distant || n.State == stateDistant
		moved = moved || n.State == stateMoved
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
			jsonFlag(set, o)
			set.BoolVar(&o.force, "force", false, "release the number even if a live process may hold it")
			set.StringVar(&o.until, "until", "", "with --force, end the window `now`; \"now\" is the only value")
		},
		run: runRelease,
	}
}

func runRelease(ctx context.Context, e *env, o *options, args []string) (err error) {
	node, err := nodeOf("release", args)
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
	say(e.out, "Node %d is released.", node)
	if left := released.left(); left > 0 {
		say(e.out, " It can be leased when its window has ended, at %s, in %s.", stamp(released.Until),
			spell(left))
	}
	say(e.out, "\n")
	return nil
}

func nodeOf(command string, args []string) (int64, error) {
	if len(args) != 1 {
		return 0, usagef("nodes %s: exactly one node number is needed", command)
	}
	var node int64
	if _, err := fmt.Sscanf(args[0], "%d", &node); err != nil || fmt.Sprint(node) != args[0] || node < 0 {
		return 0, usagef("nodes %s: %q is not a node number", command, args[0])
	}
	return node, nil
}

// release replaces the record of a node with one that has no owner.
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
