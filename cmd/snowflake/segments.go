package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"text/tabwriter"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

const (
	// defaultCounters is the table of gormsegment and sqlsegment.
	defaultCounters = "snowflake_segments"
	// lastNumber is the last number that a counter can give out.
	lastNumber = math.MaxInt64 - 1
)

func segmentsGroup() group {
	return group{
		name: "segments", short: "show and raise counters, and set their residues",
		help: `
Shows the counters of package segment in a database, raises a counter above numbers that it does not know of,
and changes how many ticket servers share one.
` + dsnHelp + `

  snowflake segments list --dsn "$DSN"`,
	}
}

func segmentFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.dsn, "dsn", "", "the `DSN` of the database with the counters (default $"+dsnVariable+")")
	counterTableFlag(set, o)
	jsonFlag(set, o)
}

func counterTableFlag(set *flag.FlagSet, o *options) {
	set.StringVar(&o.table, "table", defaultCounters,
		"the `TABLE` of the counters, with its schema if it needs one")
}

func dryRunFlag(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.dryRun, "dry-run", false, "only show what would change")
}

// The states of a counter.
const (
	stateOpen   = "open"
	stateFrozen = "frozen" // its residue is being changed
	stateFull   = "full"
)

// counterInfo is a counter in JSON. Its numbers are texts, because JavaScript rounds large ones.
type counterInfo struct {
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Next      int64     `json:"next,string"`
	Left      int64     `json:"left,string"` // numbers that are not claimed yet, whatever their residue
	Remainder int64     `json:"remainder"`
	Modulus   int64     `json:"modulus"`
	UpdatedAt time.Time `json:"updated_at"`
}

func newCounterInfo(c segment.Counter) counterInfo {
	info := counterInfo{
		Name: c.Name, State: stateOpen, Next: c.Next, Left: lastNumber - c.Next + 1, Remainder: c.Remainder,
		Modulus: c.Modulus, UpdatedAt: c.UpdatedAt.UTC(),
	}
	switch {
	case c.Modulus == 0:
		info.State = stateFrozen
	case info.Left < 1:
		info.State = stateFull
	}
	return info
}

// residue is the residue as the lists show it.
func (c counterInfo) residue() string {
	switch c.Modulus {
	case 0:
		return stateFrozen
	case 1:
		return "none"
	}
	return fmt.Sprintf("%d mod %d", c.Remainder, c.Modulus)
}

func segmentsListCommand() command {
	return command{
		name: "segments list", args: "[PREFIX]", short: "list the counters and their next numbers",
		help: `
Lists the counters, or those whose names begin with PREFIX. "next" is the first number that no process has
claimed. Processes hold blocks of numbers below it that they have not given out yet. "residue" is which
numbers the counter gives: "1 mod 2" is every odd one. "frozen" is a counter whose residue is being changed;
if that was interrupted, run "snowflake segments residues" again.

A database without the table has an empty list. It is an error if --table names the table and it is not
there.
` + dsnHelp + `

  snowflake segments list --dsn "$DSN"
  snowflake segments list invoice: --json
  snowflake segments list --dsn shop.db --table eu_segments`,
		flags: segmentFlags,
		run:   runSegmentsList,
	}
}

func runSegmentsList(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) > 1 {
		return usagef("segments list: at most one prefix is accepted, but there are %d", len(args))
	}
	store, done, err := openCounters(ctx, cmp.Or(o.dsn, e.getenv(dsnVariable)), o.table, false)
	if errors.Is(err, errNoTable) && o.table == defaultCounters {
		say(e.err, "snowflake: %s\n", err)
		if o.json {
			return printJSON(e.out, []counterInfo{})
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	prefix := ""
	if len(args) == 1 {
		prefix = args[0]
	}
	counters, err := store.Counters(ctx, prefix)
	if err != nil {
		return err
	}
	infos := make([]counterInfo, 0, len(counters))
	for _, c := range counters {
		infos = append(infos, newCounterInfo(c))
	}
	switch {
	case o.json:
		return printJSON(e.out, infos)
	case len(infos) == 0 && prefix == "":
		say(e.out, "The table %s has no counter.\n", o.table)
		return nil
	case len(infos) == 0:
		say(e.out, "The table %s has no counter whose name begins with %q.\n", o.table, plain(prefix))
		return nil
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	say(table, "COUNTER\tNEXT\tRESIDUE\tCHANGED\n")
	for _, c := range infos {
		say(table, "%s\t%d\t%s\t%s\n", plain(c.Name), c.Next, c.residue(), stamp(c.UpdatedAt))
	}
	return table.Flush()
}

func segmentsShowCommand() command {
	return command{
		name: "segments show", args: "NAME", short: "show one counter",
		help: `
Shows the next number of a counter, how many numbers are left, its residue, and when it was last changed, by
the clock of the process that changed it. It is an error if there is no such counter.
` + dsnHelp + `

  snowflake segments show orders --dsn "$DSN"
  snowflake segments show orders --json`,
		flags: segmentFlags,
		run:   runSegmentsShow,
	}
}

func runSegmentsShow(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) != 1 {
		return usagef("segments show: exactly one name of a counter is needed")
	}
	store, done, err := openCounters(ctx, cmp.Or(o.dsn, e.getenv(dsnVariable)), o.table, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	c, found, err := counterOf(ctx, store, args[0])
	switch {
	case err != nil:
		return err
	case !found:
		return noCounter(args[0], o.table)
	case o.json:
		return printJSON(e.out, newCounterInfo(c))
	}
	info := newCounterInfo(c)
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	say(table, "counter\t%s\n", plain(info.Name))
	say(table, "state\t%s\n", info.State)
	say(table, "next\t%d\n", info.Next)
	say(table, "left\t%d\n", info.Left)
	say(table, "residue\t%s\n", info.residue())
	say(table, "changed\t%s, %s\n", stamp(info.UpdatedAt), ago(info.UpdatedAt, now))
	return table.Flush()
}

func noCounter(name, table string) error {
	return fmt.Errorf("the table %s has no counter %q; \"snowflake segments list\" shows those that it has",
		table, plain(name))
}

// counterOf finds a counter by its name.
func counterOf(ctx context.Context, s segment.Ledger, name string) (segment.Counter, bool, error) {
	if err := segment.CheckName(name); err != nil {
		return segment.Counter{}, false, usagef("%s", err)
	}
	counters, err := s.Counters(ctx, name)
	if err != nil {
		return segment.Counter{}, false, err
	}
	for _, c := range counters {
		if c.Name == name {
			return c, true, nil
		}
	}
	return segment.Counter{Name: name}, false, nil
}

// openCounters opens the store of counters in a database, and returns the function that closes it. Unless
// makeTable is set, the table must exist already, and the error wraps errNoTable if it does not.
func openCounters(
	ctx context.Context, dsn, table string, makeTable bool,
) (*gormsegment.Store, func() error, error) {
	db, pool, err := openGORM(dsn)
	if err != nil {
		return nil, nil, err
	}
	db = db.WithContext(ctx)
	if !makeTable {
		// It reads from the table, because a login without the right to read does not find it in the catalog.
		var names []string
		err := db.Table(table).Limit(1).Pluck("name", &names).Error
		if err != nil && authority.IsMissing(err) {
			err = fmt.Errorf("%w %s: nothing has claimed a number from a counter here yet, or the table has "+
				"another name; give it with --table", errNoTable, table)
		}
		if err != nil {
			return nil, nil, errors.Join(err, pool.Close())
		}
	}
	//nolint:contextcheck // it waits under the context of db
	store, err := gormsegment.New(db, gormsegment.WithTable(table))
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return store, func() error { return errors.Join(store.Close(), pool.Close()) }, nil
}
