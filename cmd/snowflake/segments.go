package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
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
	stateBack   = "went back" // it is frozen until it was raised
	stateNote   = "note"      // no counter: the days before its next number are closed
)

// counterInfo is a counter in JSON. Its numbers are texts, because JavaScript rounds large ones.
type counterInfo struct {
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Next      int64     `json:"next,string"`
	Left      *int64    `json:"left,string,omitempty"` // not claimed yet, of any residue; nil if unknown
	Remainder int64     `json:"remainder"`
	Modulus   int64     `json:"modulus"`
	Kind      string    `json:"kind"`                     // segment, daily, or empty if it is not known yet
	Claimed   int64     `json:"claimed,string,omitempty"` // the greatest known of one that went back
	UpdatedAt time.Time `json:"updated_at"`
}

func newCounterInfo(c segment.Counter) *counterInfo {
	info := &counterInfo{
		Name: c.Name, State: stateOpen, Next: c.Next, Remainder: c.Remainder, Modulus: c.Modulus,
		UpdatedAt: c.UpdatedAt.UTC(),
	}
	left := lastNumber - c.Next + 1
	info.Kind, _, _ = strings.Cut(c.Kind, ":")
	claimed, wentBack := c.WentBack()
	switch {
	case wentBack:
		info.State, info.Claimed = stateBack, claimed
	case info.Kind == "closed":
		info.State = stateNote
	case c.Modulus == 0:
		info.State = stateFrozen
	case left < 1:
		info.State = stateFull
	}
	// How many numbers a day has is an option of the programs, which the database does not know.
	if info.Kind != "daily" && info.State != stateNote {
		info.Left = &left
	}
	return info
}

// residue is the residue as the lists show it.
func (c counterInfo) residue() string {
	switch {
	case c.State == stateBack, c.State == stateNote:
		return c.State
	case c.Modulus == 0:
		return stateFrozen
	case c.Modulus == 1:
		return "none"
	}
	return fmt.Sprintf("%d mod %d", c.Remainder, c.Modulus)
}

func segmentsListCommand() command {
	return command{
		name: "segments list", args: "[PREFIX]", short: "list the counters and their next numbers",
		needs: "at most one prefix is accepted", most: 1,
		help: `
Lists the counters, or those whose names begin with PREFIX. "next" is the first number that no process has
claimed. Processes hold blocks of numbers below it that they have not given out yet. "residue" is which
numbers the counter gives: "1 mod 2" is every odd one. "frozen" is a counter whose residue is being changed;
if that was interrupted, run "snowflake segments residues" again. "went back" is a counter that was found
below numbers that it had given: nobody gets one until "snowflake segments raise" has raised it. "note" is no
counter: it says that the daily counters of the name behind "closed" were removed, up to the day before
"next".

A database without the table has an empty list. It is an error if --table names the table and it is not
there.
` + dsnHelp + `

  snowflake segments list --dsn "$DSN"
  snowflake segments list invoice/ --json
  snowflake segments list --dsn shop.db --table eu_segments`,
		flags: segmentFlags,
		run:   runSegmentsList,
	}
}

func runSegmentsList(ctx context.Context, e *env, o *options, args []string) error {
	store, err := openCounters(ctx, e, o.database(e), o.table, false)
	if errors.Is(err, errNoTable) && o.table == defaultCounters {
		return answerNone(e, o, err)
	}
	if err != nil {
		return err
	}
	prefix := ""
	if len(args) == 1 {
		prefix = args[0]
	}
	counters, err := store.Counters(ctx, prefix)
	if err != nil {
		return err
	}
	infos := make([]*counterInfo, 0, len(counters))
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
		needs: "exactly one name of a counter is needed", least: 1, most: 1,
		help: `
Shows the next number of a counter, how many numbers are left, its residue, and when it was last changed, by
the clock of the process that changed it. How many are left of a daily counter is not shown: that depends on
the digits, which the programs know. It is an error if there is no such counter.
` + dsnHelp + `

  snowflake segments show orders --dsn "$DSN"
  snowflake segments show orders --json`,
		flags: segmentFlags,
		run:   runSegmentsShow,
	}
}

func runSegmentsShow(ctx context.Context, e *env, o *options, args []string) error {
	store, err := openCounters(ctx, e, o.database(e), o.table, false)
	if err != nil {
		return err
	}
	info, err := counterOf(ctx, store, args[0])
	switch {
	case err != nil:
		return err
	case info == nil:
		return noCounter(args[0], o.table)
	case o.json:
		return printJSON(e.out, info)
	}
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	say(table, "counter\t%s\n", plain(info.Name))
	say(table, "state\t%s\n", info.State)
	say(table, "next\t%d\n", info.Next)
	if info.Left != nil {
		say(table, "left\t%d\n", *info.Left)
	}
	say(table, "residue\t%s\n", info.residue())
	if info.Kind != "" {
		say(table, "kind\t%s\n", plain(info.Kind))
	}
	if info.State == stateBack {
		say(table, "claimed\tup to %d; \"snowflake segments raise\" has to raise it above\n", info.Claimed)
	}
	say(table, "changed\t%s, %s\n", stamp(info.UpdatedAt), ago(info.UpdatedAt, now))
	return table.Flush()
}

func noCounter(name, table string) error {
	return fmt.Errorf("the table %s has no counter %q; \"snowflake segments list\" shows those that it has",
		table, plain(name))
}

// counterOf returns nil if there is no counter of that name.
func counterOf(ctx context.Context, s segment.Ledger, name string) (*counterInfo, error) {
	if err := segment.CheckName(name); err != nil {
		return nil, usagef("%s", err)
	}
	counters, err := s.Counters(ctx, name)
	for _, c := range counters {
		if c.Name == name {
			return newCounterInfo(c), err
		}
	}
	return nil, err
}

// openCounters opens the store of counters in a database. Unless makeTable is set, the table must exist
// already, and the error wraps errNoTable if it does not.
func openCounters(
	ctx context.Context, e *env, dsn, table string, makeTable bool,
) (*gormsegment.Store, error) {
	db, err := openTable(ctx, e, dsn, table, makeTable, "name", "nothing has claimed a number from a counter")
	if err != nil {
		return nil, err
	}
	store, err := gormsegment.New(db.WithContext(ctx), gormsegment.WithTable(table))
	if err == nil {
		e.opened = append(e.opened, store)
	}
	return store, err
}

func segmentsRaiseCommand() command {
	return command{
		name: "segments raise", args: "NAME [NEXT]", short: "make a counter go on from a higher number",
		help: `
Makes a counter go on from NEXT, so that no number below NEXT is claimed any more. A counter that is beyond
NEXT already is left as it is. Use it when numbers are in use that the counter does not know of: the database
was restored from an older backup, it failed over to a replica that lagged behind, or rows were imported.

Find the greatest number in use in every table that has numbers of the counter, in logs and in other systems,
and give a NEXT above it. A counter can never be lowered again, so look with --dry-run first. Processes that
run go on with the numbers that they have claimed. If those can be numbers that are in use, restart the
processes after the counter was raised.

A counter that went back is frozen for every process, until this command has raised it. With --above
TABLE.COLUMN the counter goes on above the greatest number in a column of integers of the same database, and
above all numbers that are known to be claimed; give the flag once for each column that has numbers of the
counter. The processes then go on by themselves. Numbers that running processes hold and have not stored yet
are in no column. So stop them first, or give a NEXT that is above those as well. It does not work for daily
counters, whose numbers begin with a date in the column.

A counter that is not there is an error, because its name may be mistyped. --create makes it.
` + dsnHelp + `

  snowflake segments raise orders 5000 --dsn "$DSN" --dry-run
  snowflake segments raise orders 5000 --dsn "$DSN"
  snowflake segments raise orders --above orders.serial --above old_orders.serial
  snowflake segments raise receipts 1 --create`,
		flags: func(set *flag.FlagSet, o *options) {
			segmentFlags(set, o)
			dryRunFlag(set, o)
			set.BoolVar(&o.create, "create", false, "make the counter if it is not there, and its table")
			set.Var(&o.columns, "above", "raise it above the greatest number of `TABLE.COLUMN`, too")
		},
		run: runSegmentsRaise,
	}
}

// raised is the result of "segments raise" in JSON.
type raised struct {
	Before  *counterInfo `json:"before"` // null if there was no counter
	After   *counterInfo `json:"after"`  // null if nothing was changed, because it was only a look
	Changes bool         `json:"changes"`
	DryRun  bool         `json:"dry_run"`
}

func runSegmentsRaise(ctx context.Context, e *env, o *options, args []string) (err error) {
	if len(args) != 2 && (len(args) != 1 || len(o.columns) == 0) {
		return usagef("segments raise: exactly two arguments are needed: the name of the counter and its next " +
			"number, or --above in place of the number")
	}
	name, next := args[0], int64(1)
	if len(args) == 2 {
		if next, err = strconv.ParseInt(args[1], 10, 64); err != nil || next < 1 || next > lastNumber {
			return usagef("segments raise: %q is not a number from 1 to %d", args[1], int64(lastNumber))
		}
	}
	if err := segment.CheckName(name); err != nil {
		return usagef("segments raise: %s", err)
	}
	for _, column := range o.columns {
		greatest, err := greatestIn(ctx, e, o.database(e), column)
		if err != nil {
			return fmt.Errorf("segments raise: --above %s: %w", plain(column), err)
		}
		next = max(next, greatest+1)
	}
	store, err := openCounters(ctx, e, o.database(e), o.table, o.create && !o.dryRun)
	if errors.Is(err, errNoTable) && o.create {
		return raised{Changes: true, DryRun: true}.print(e, o, name, next) // the table would be made, too
	}
	if err != nil {
		return err
	}
	result := raised{DryRun: o.dryRun}
	if result.Before, err = counterOf(ctx, store, name); err != nil {
		return err
	}
	var before counterInfo
	if result.Before != nil {
		before = *result.Before
	} else if !o.create {
		return fmt.Errorf("%w; --create makes it", noCounter(name, o.table))
	}
	if len(o.columns) > 0 {
		if before.Kind == "daily" {
			return usagef("segments raise: %q is a daily counter, whose numbers begin with a date in a column: "+
				"give its next number within the day", plain(name))
		}
		next = max(next, before.Claimed+1)
	}
	wentBack := before.State == stateBack
	if wentBack {
		next = max(next, before.Next) // it goes on where it is, if that is above
	}
	result.Changes = wentBack || next > before.Next
	if !o.dryRun {
		if err := segment.Raise(ctx, store, name, next); err != nil {
			return err
		}
		if result.After, err = counterOf(ctx, store, name); err != nil {
			return err
		}
	}
	return result.print(e, o, name, next)
}

// greatestIn returns the greatest number in a column, which is named with its table, or 0 if there is none.
func greatestIn(ctx context.Context, e *env, dsn, column string) (greatest int64, err error) {
	dot := strings.LastIndexByte(column, '.')
	if dot < 1 || dot == len(column)-1 {
		return 0, usagef("a table and its column are needed, with a dot between them")
	}
	db, pool, err := openGORM(e, dsn)
	if err != nil {
		return 0, err
	}
	d, _ := dialect.Of(db.Name())
	rows, err := pool.QueryContext(ctx, "SELECT MAX("+d.Quote(column[dot+1:])+") FROM "+d.Quoted(column[:dot]))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	types, err := rows.ColumnTypes()
	if err != nil || !rows.Next() {
		return 0, errors.Join(err, rows.Err())
	}
	var value any
	if err := rows.Scan(&value); err != nil || value == nil {
		return 0, err
	}
	// Digits are a number only in a column of numbers: as texts, "9" is greater than "10".
	kind := strings.ToUpper(types[0].DatabaseTypeName())
	numeric := slices.ContainsFunc([]string{"INT", "NUMERIC", "DECIMAL"}, func(word string) bool {
		return strings.Contains(kind, word)
	})
	if digits, ok := value.([]byte); ok {
		value = string(digits)
	}
	_, whole := value.(int64)
	greatest, err = strconv.ParseInt(fmt.Sprint(value), 10, 64)
	if err != nil || !whole && !numeric || greatest >= lastNumber {
		return 0, fmt.Errorf("%.40q is no number that a counter can be above: give the next number in place of "+
			"the column", fmt.Sprint(value))
	}
	return max(greatest, 0), rows.Err()
}

// print says what was done, or what would be.
func (r raised) print(e *env, o *options, name string, next int64) error {
	if o.json {
		return printJSON(e.out, r)
	}
	name = plain(name)
	verb := "now goes"
	if r.DryRun {
		verb = "would go"
	}
	text := fmt.Sprintf("Counter %s %s on from %d", name, verb, next)
	switch {
	case !r.Changes:
		text = fmt.Sprintf("Counter %s is at %d already. Nothing is to be done", name, r.Before.Next)
	case r.Before == nil:
		text += ". It is new"
	default:
		text += fmt.Sprintf(". It was at %d", r.Before.Next)
		if next > r.Before.Next {
			text += fmt.Sprintf(", so it skips %d numbers", next-r.Before.Next)
		}
	}
	if r.Before != nil && r.Before.State == stateBack {
		text += ". It had gone back, and every process gets numbers from it again"
	}
	if r.Before != nil && r.Before.State == stateFrozen {
		text += ". It is frozen: no number is claimed before \"snowflake segments residues\" has succeeded"
	}
	say(e.out, "%s.\n", text)
	return nil
}

func segmentsResiduesCommand() command {
	return command{
		name: "segments residues", args: "NAME DSN...", short: "share a counter between several databases",
		needs: "the name of the counter and at least one DSN are needed", least: 2,
		help: `
Makes the databases ticket servers for the counter NAME. The first gives the numbers with remainder 0, the
second those with remainder 1, and so on; the modulus is the number of databases. This is how two ticket
servers become three. Name all old databases and the new ones. A DSN that begins with $ is the name of an
environment variable that holds the DSN, which hides the password: '$TICKETS_A'.

Look with --dry-run first. The command freezes the counter in every database, raises it above all numbers
that were claimed anywhere, and sets the residues, so no number is given twice. If it is interrupted, the
counters that are not finished stay frozen: run it again with the same databases. Programs that use the
counter go on with the numbers that they have claimed, and then fail until they are restarted with the new
residues.

A database that you forget would give numbers that the others give too. The command refuses (exit code 3)
if the databases do not have all the remainders of their old modulus. Use --force if the one that is missing
never gave a number, or is out of use for good. DSNs of one and the same database are refused always, and so
is a copy of one, which has the counters of the first.
` + dsnHelp + `

  snowflake segments residues tickets a.db b.db --dry-run
  snowflake segments residues tickets a.db b.db`,
		flags: func(set *flag.FlagSet, o *options) {
			counterTableFlag(set, o)
			dryRunFlag(set, o)
			set.BoolVar(&o.force, "force", false, "go on although a remainder of the old modulus is missing")
		},
		run: runSegmentsResidues,
	}
}

// ticketServer is one of the databases that share a counter, and what JSON says of it. It is named by its
// place, because a DSN may hold a password.
type ticketServer struct {
	Database  string       `json:"database"`
	Before    *counterInfo `json:"before"` // null if there was no counter
	After     *counterInfo `json:"after"`  // null if the command only looked
	Remainder int          `json:"remainder"`
	Modulus   int          `json:"modulus"`

	dsn   string
	store *gormsegment.Store // nil if the table is not there, and the command only looks
}

func runSegmentsResidues(ctx context.Context, e *env, o *options, args []string) error {
	name := args[0]
	if err := segment.CheckName(name); err != nil {
		return usagef("segments residues: %s", err)
	}
	servers, err := ticketServers(e, args[1:])
	if err != nil {
		return err
	}
	for i := range servers {
		if err := servers[i].look(ctx, e, o.table, name); err != nil {
			return fmt.Errorf("%s: %w", servers[i].Database, err)
		}
	}
	if err := forgotten(name, servers); err != nil && (!o.force || !errors.Is(err, errRefused)) {
		return err
	}
	if !o.dryRun {
		if err := setResidues(ctx, e, o.table, name, servers); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(e.out, servers)
	}
	return printResidues(e.out, servers, o.dryRun)
}

func ticketServers(e *env, args []string) ([]ticketServer, error) {
	servers := make([]ticketServer, 0, len(args))
	for i, dsn := range args {
		s := ticketServer{
			Database: fmt.Sprintf("database %d", i+1), Remainder: i, Modulus: len(args), dsn: dsn,
		}
		if variable, ok := strings.CutPrefix(dsn, "$"); ok {
			variable = strings.Trim(variable, "{}")
			s.Database += " ($" + plain(variable) + ")"
			if s.dsn = e.getenv(variable); s.dsn == "" {
				return nil, usagef("segments residues: %s: the environment variable is not set", s.Database)
			}
		}
		for j, other := range servers {
			if other.dsn == s.dsn {
				return nil, usagef("segments residues: databases %d and %d are one and the same", j+1, i+1)
			}
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// look opens the store and reads the counter, if they are there.
func (s *ticketServer) look(ctx context.Context, e *env, table, name string) error {
	store, err := openCounters(ctx, e, s.dsn, table, false)
	if errors.Is(err, errNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	s.store = store
	s.Before, err = counterOf(ctx, store, name)
	return err
}

// forgotten returns an error if no database has the counter. It returns one that wraps errRefused if the
// databases lack a remainder of one of their moduli, because another database then gives those numbers.
func forgotten(name string, servers []ticketServer) error {
	have := make(map[int64][]int64)
	frozen, found := 0, false
	for _, s := range servers {
		if s.Before == nil {
			continue
		}
		found = true
		switch c := s.Before; {
		case c.Modulus == 0:
			frozen++
		case !slices.Contains(have[c.Modulus], c.Remainder):
			have[c.Modulus] = append(have[c.Modulus], c.Remainder)
		}
	}
	if !found {
		return fmt.Errorf("none of the databases has a counter %q: the name may be mistyped; a new counter "+
			"needs no preparation, because its first claim notes the residue", plain(name))
	}
	for modulus, remainders := range have {
		// A counter that was frozen by a run that was interrupted does not tell its old residue.
		if modulus > int64(len(remainders)+frozen) {
			slices.Sort(remainders)
			return fmt.Errorf("%w: counter %q has modulus %d, and the databases have only these remainders of it: "+
				"%v; name every database that has the counter, or its numbers repeat; --force is for one that never "+
				"gave a number or is out of use for good", errRefused, plain(name), modulus, remainders)
		}
	}
	return nil
}

// setResidues makes the tables that are not there, and sets the residues.
func setResidues(
	ctx context.Context, e *env, table, name string, servers []ticketServer,
) (err error) {
	ledgers := make([]segment.Ledger, len(servers))
	for i := range servers {
		s := &servers[i]
		if s.store == nil {
			if s.store, err = openCounters(ctx, e, s.dsn, table, true); err != nil {
				return fmt.Errorf("%s: %w", s.Database, err)
			}
		}
		ledgers[i] = s.store
	}
	if err := distinct(ctx, servers); err != nil {
		return err
	}
	if err := segment.SetResidues(ctx, name, ledgers...); err != nil {
		return fmt.Errorf("counters may be frozen, so run the command again with the same databases: %w", err)
	}
	for i, s := range ledgers {
		if servers[i].After, err = counterOf(ctx, s, name); err != nil {
			return fmt.Errorf("%s: %w", servers[i].Database, err)
		}
	}
	return nil
}

// distinct makes sure that no two databases have one table of counters, by the identities of the tables.
func distinct(ctx context.Context, servers []ticketServer) error {
	seen := make(map[string]string) // the label of a database by the identity of its table
	for _, s := range servers {
		is, err := s.store.Identity(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Database, err)
		}
		if first := seen[is.ID]; first != "" {
			return usagef("segments residues: %s and %s have one table of counters, with different DSNs, or one "+
				"of them is a copy of the other; nothing was changed", first, s.Database)
		}
		seen[is.ID] = s.Database
	}
	return nil
}

func printResidues(w io.Writer, servers []ticketServer, dryRun bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "DATABASE\tNEXT BEFORE\tRESIDUE BEFORE\tNEXT\tRESIDUE\n")
	highest := int64(1)
	for _, s := range servers {
		if s.Before != nil {
			highest = max(highest, s.Before.Next)
		}
	}
	for _, s := range servers {
		before, residue, next := "-", "no counter", fmt.Sprint(highest)
		if s.Before != nil {
			before, residue = fmt.Sprint(s.Before.Next), s.Before.residue()
		}
		if s.After != nil {
			next = fmt.Sprint(s.After.Next)
		}
		after := counterInfo{Remainder: int64(s.Remainder), Modulus: int64(s.Modulus)}
		say(table, "%s\t%s\t%s\t%s\t%s\n", s.Database, before, residue, next, after.residue())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if dryRun {
		say(w, "Nothing was changed. The next numbers will be higher if numbers are claimed meanwhile.\n")
		return nil
	}
	say(w, "The residues are set. Restart the programs that use the counter with the new residues.\n")
	return nil
}
