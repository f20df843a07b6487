package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/layouts"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

const (
	// maxIDs limits one call of "new", so that a typing mistake does not fill a disk.
	maxIDs = 10_000_000
	// base62Width is how many letters and digits ID.Base62 returns.
	base62Width = 11
	// noNode is the default of --node, which the help does not print.
	noNode = "-1"
)

func newCommand() command {
	return command{
		name: "new", short: "generate IDs",
		help: `
Generates IDs and prints them in ascending order, one per line. An ID needs a node number, which comes
from one of two places:

  --dsn   The command leases a free node number from the table of that database while it runs. No other
          process can generate the same IDs.
  --node  The command uses this node number. You must make sure that no other process uses it.
` + dsnHelp + `

  snowflake new --dsn "$DSN"
  snowflake new -n 1000 --node 7
  snowflake new --node 17 --layout Game --json`,
		flags: func(set *flag.FlagSet, o *options) {
			set.IntVar(&o.count, "n", 1, "how many IDs: a `COUNT` from 1 to 10000000")
			set.Int64Var(&o.node, "node", -1, "the node `NUMBER`, from 0; the largest depends on the layout")
			dsnFlags(set, o)
			layoutFlag(set, o)
		},
		run: runNew,
	}
}

func runNew(ctx context.Context, e *env, o *options, _ []string) (err error) {
	switch {
	case o.count < 1 || o.count > maxIDs:
		return usagef("new: -n %d is out of range: it must be from 1 to %d", o.count, maxIDs)
	case o.node >= 0 && o.dsn != "":
		return usagef("new: --node and --dsn exclude each other")
	}
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	if o.node > p.Layout.MaxNode() || o.node < -1 {
		return usagef("new: --node %d is out of range: layout %s has the nodes 0 to %d", o.node, p.Name,
			p.Layout.MaxNode())
	}
	tenure := generator.FixedNode(o.node)
	if o.node < 0 {
		if o.database(e) == "" {
			return usagef("new: a node number is needed: give --dsn or --node, or set %s", dsnVariable)
		}
		store, err := openStore(ctx, e, o, true)
		if err != nil {
			return err
		}
		keeper, err := lease.Acquire(ctx, store, p.Layout, lease.WithOwner("snowflake new"),
			lease.WithSpan(max(15*time.Second, 15*p.Layout.Tick)), lease.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keeper.Close(context.WithoutCancel(ctx))) }()
		tenure = keeper
	}
	g, err := generator.New(p.Layout, tenure, generator.WithMaxWait(time.Minute))
	if err != nil {
		return err
	}
	ids := make([]int64, o.count)
	if err := g.Fill(ctx, ids); err != nil {
		return err
	}
	return printIDs(e.out, ids, o.json)
}

func printIDs(w io.Writer, ids []int64, asJSON bool) error {
	if asJSON {
		texts := make([]snowflakeplugin.ID, len(ids))
		for i, id := range ids {
			texts[i] = snowflakeplugin.ID(id)
		}
		return printJSON(w, texts)
	}
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&b, id)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func inspectCommand() command {
	return command{
		name: "inspect", args: "ID...", short: "show the time, the node and the bits of IDs",
		needs: "at least one ID is needed, or - to read them from standard input", least: 1,
		help: `
Shows when an ID was generated and by which node, and draws its bits. An ID does not say which layout it
has, so --layout must name the layout of the generator.

An ID is a decimal number or its base62 form, which is 11 letters and digits, as ID.Base62 returns it.
An argument of digits only is a decimal number. In the rare case that a base62 form has digits only, say
--base62; then every argument is a base62 form. The argument "-" stands for the IDs on standard input, with
blanks or line ends between them.

"shard" is the number of the shard that a router with 2, 4, 16 or 64 shards chooses, counted from 0.

  snowflake inspect 249168410316800512
  snowflake inspect 0IPC1akZNCq
  snowflake inspect --layout Game 639568234718184507
  snowflake inspect --base62 00000000017
  snowflake inspect --json -`,
		flags: func(set *flag.FlagSet, o *options) {
			set.BoolVar(&o.base62, "base62", false, "read every argument as a base62 form, even one of digits only")
			layoutFlag(set, o)
		},
		run: runInspect,
	}
}

// idInfo is an ID in JSON.
type idInfo struct {
	ID       snowflakeplugin.ID `json:"id"`
	Base62   string             `json:"base62"`
	Layout   string             `json:"layout"`
	Time     time.Time          `json:"time"`
	Node     int64              `json:"node"`
	Fields   map[string]int64   `json:"fields"`
	Sequence int64              `json:"sequence"`
}

func runInspect(_ context.Context, e *env, o *options, args []string) error {
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	infos := make([]idInfo, 0, len(args))
	first := true
	err = eachID(args, e.input, func(text string) error {
		info, err := inspect(p, text, o.base62)
		switch {
		case err != nil:
			return err
		case o.json:
			infos = append(infos, info)
			return nil
		case !first:
			say(e.out, "\n")
		}
		first = false
		return draw(e.out, p.Layout, info)
	})
	if err != nil || !o.json {
		return err
	}
	return printJSON(e.out, infos)
}

// eachID calls do with every argument, and with every word of the input in the place of "-". It ends at an
// error.
func eachID(args []string, input io.Reader, do func(text string) error) error {
	for _, arg := range args {
		if arg != "-" {
			if err := do(arg); err != nil {
				return err
			}
			continue
		}
		words := bufio.NewScanner(input)
		words.Split(bufio.ScanWords)
		for words.Scan() {
			if err := do(words.Text()); err != nil {
				return err
			}
		}
		if err := words.Err(); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
	return nil
}

// inspect reads an ID in decimal or base62. With base62 set it takes digits for base62 as well.
func inspect(p layouts.Preset, arg string, base62 bool) (idInfo, error) {
	read := snowflakeplugin.ParseBase62
	switch {
	case base62:
	case isDecimal(arg):
		read = snowflakeplugin.ParseID
	case len(arg) != base62Width:
		return idInfo{}, usagef("inspect: %.60q is neither a decimal ID nor a base62 form, which has %d letters "+
			"and digits", arg, base62Width)
	}
	id, err := read(arg)
	if err != nil {
		return idInfo{}, usagef("inspect: %s", err)
	}
	parts, err := p.Layout.Decompose(id.Int64())
	if err != nil {
		return idInfo{}, err
	}
	info := idInfo{
		ID: id, Base62: id.Base62(), Layout: p.Name, Time: parts.Time.UTC(), Node: parts.Node,
		Fields: make(map[string]int64), Sequence: parts.Sequence,
	}
	for i, value := range p.Layout.UnpackNode(parts.Node) {
		info.Fields[p.Layout.Node[i].Name] = value
	}
	return info, nil
}

// isDecimal tells whether an argument is meant as a decimal number, perhaps one that is out of range.
func isDecimal(arg string) bool {
	return strings.Trim(strings.TrimPrefix(arg, "-"), "0123456789") == ""
}

func draw(w io.Writer, l generator.Layout, info idInfo) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	say(table, "made\t%s, %s\n", stamp(info.Time), ago(info.Time, time.Now()))
	say(table, "node\t%d\n", info.Node)
	say(table, "base62\t%s\n", info.Base62)
	low := info.ID.Int64() & l.MaxSequence()
	say(table, "shard\t%d of 2, %d of 4, %d of 16, %d of 64\n", low%2, low%4, low%16, low%64)
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", l.Diagram(info.ID.Int64()))
	return err
}

func rangeCommand() command {
	return command{
		name: "range", args: "FROM TO", short: "find the IDs of a time range",
		needs: "exactly two times are needed, FROM and TO", least: 2, most: 2,
		help: `
Prints the first ID of FROM, the first ID of TO, and an SQL condition for the rows between them: FROM is
included, TO is not. A time is written in one of these ways:

  2026-11-21            midnight of that day, in UTC
  2026-11-21T08:00      with seconds if you like; in UTC
  2026-11-21T08:00:00Z  RFC 3339, with any time zone
  now                   this moment
  -24h or +90m          relative to now, in the units h, m, s and ms

If TO is "now", the condition has no upper end, because in a burst IDs run a few ticks ahead of the clock.

  snowflake range -1h now
  snowflake range 2026-11-20 2026-11-21
  snowflake range --layout Game 2026-11-01T00:00:00+08:00 now`,
		flags: layoutFlag,
		run:   runRange,
	}
}

// rangeInfo is a range in JSON.
type rangeInfo struct {
	Layout string             `json:"layout"`
	From   time.Time          `json:"from"`
	To     time.Time          `json:"to"`
	First  snowflakeplugin.ID `json:"first"`
	End    snowflakeplugin.ID `json:"end"`
	Where  string             `json:"where"`
}

func runRange(_ context.Context, e *env, o *options, args []string) error {
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	now := time.Now()
	earliest, err := parseTime(args[0], now)
	if err != nil {
		return err
	}
	limit, err := parseTime(args[1], now)
	if err != nil {
		return err
	}
	if limit.Before(earliest) {
		return usagef("range: the earlier time comes first, but TO %s is before FROM %s", stamp(limit),
			stamp(earliest))
	}
	first, end, err := p.Layout.Range(earliest, limit)
	if err != nil {
		return err
	}
	info := rangeInfo{
		Layout: p.Name, From: earliest, To: limit, First: snowflakeplugin.ID(first), End: snowflakeplugin.ID(end),
		Where: fmt.Sprintf("id >= %d AND id < %d", first, end),
	}
	if strings.EqualFold(args[1], "now") {
		info.Where = fmt.Sprintf("id >= %d", first)
	}
	if o.json {
		return printJSON(e.out, info)
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	say(table, "from\t%s\tfirst ID %d\n", stamp(earliest), first)
	say(table, "to\t%s\tfirst ID %d, not included\n", stamp(limit), end)
	say(table, "where\t%s\n", info.Where)
	return table.Flush()
}

// parseTime reads a time in one of the ways that the help lists.
func parseTime(text string, now time.Time) (time.Time, error) {
	if strings.EqualFold(text, "now") {
		return now.UTC(), nil
	}
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		if d, err := time.ParseDuration(text); err == nil {
			return now.Add(d).UTC(), nil
		}
	}
	for _, form := range []string{
		time.RFC3339Nano, time.DateOnly, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05",
		"2006-01-02T15:04",
	} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, usagef("range: %.60q is not a time: write 2026-11-21, 2026-11-21T08:00, "+
		"2026-11-21T08:00:00Z, now or -24h", text)
}
