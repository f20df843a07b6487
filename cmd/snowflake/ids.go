package main

import (
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
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// mostIDs bounds what one call of new makes, so that a slip does not fill a disk.
const mostIDs = 10_000_000

func newCommand() command {
	return command{
		name: "new", args: "", short: "make IDs",
		help: `
Makes IDs and prints them, one a line, in ascending order. With --dsn the node number is leased from
the table of that database for the moment of the call, so they cannot be equal to any other's. With
--node it is the number that you give; then see to it that nobody else has it.

  snowflake new --dsn "$DSN"
  snowflake new -n 1000 --node 7
  snowflake new --node 17 --layout Game --json`,
		flags: func(set *flag.FlagSet, o *options) {
			set.IntVar(&o.count, "n", 1, "how many, a `COUNT` up to 10000000")
			set.Int64Var(&o.node, "node", -1, "the `NUMBER` of the node")
			dsnFlags(set, o)
			layoutFlag(set, o)
			jsonFlag(set, o)
		},
		run: runNew,
	}
}

func runNew(ctx context.Context, e *env, o *options, args []string) (err error) {
	switch {
	case len(args) > 0:
		return usagef("new: what is %q for? It takes flags only", args[0])
	case o.count < 1 || o.count > mostIDs:
		return usagef("new: -n %d is not from 1 to %d", o.count, mostIDs)
	case o.node >= 0 && o.dsn != "":
		return usagef("new: --node and --dsn exclude each other")
	}
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	tenure := generator.Node(o.node)
	if o.node < 0 {
		if o.dsn == "" && e.getenv(dsnVariable) == "" {
			return usagef("new: where does the node number come from? Say --dsn or --node")
		}
		store, done, err := openStore(ctx, e, o, true)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		keeper, err := lease.Acquire(ctx, store, p.layout, lease.Owner("snowflake new"),
			lease.Span(shortLease(p.layout)), lease.Logger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keeper.Close(context.WithoutCancel(ctx))) }()
		tenure = keeper
	}
	g, err := generator.New(p.layout, tenure, generator.WithMaxWait(time.Minute))
	if err != nil {
		return err
	}
	ids := make([]int64, o.count)
	if err := g.Fill(ctx, ids); err != nil {
		return err
	}
	return printIDs(e.out, ids, o.json)
}

// shortLease is a span for the moment of a call.
func shortLease(l generator.Layout) time.Duration { return max(15*time.Second, 15*l.Tick) }

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
		name: "inspect", args: "ID...", short: "take IDs apart and draw their bits",
		help: `
Says when an ID was made, by which node, and draws its bits. IDs are decimal, or with --base62 of
eleven letters and digits, as ID.Base62 writes them. The layout has to be that of the generator: an
ID does not tell.

  snowflake inspect 249168410316800512
  snowflake inspect --layout Game 639568234718184507
  snowflake inspect --base62 0IPC1akZNCq`,
		flags: func(set *flag.FlagSet, o *options) {
			set.BoolVar(&o.base62, "base62", false, "read the short form")
			layoutFlag(set, o)
			jsonFlag(set, o)
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
	if len(args) == 0 {
		return usagef("inspect: which ID?")
	}
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	infos := make([]idInfo, 0, len(args))
	for _, arg := range args {
		info, err := inspect(p, arg, o.base62)
		if err != nil {
			return err
		}
		infos = append(infos, info)
	}
	if o.json {
		return printJSON(e.out, infos)
	}
	for i, info := range infos {
		if i > 0 {
			say(e.out, "\n")
		}
		if err := draw(e.out, p.layout, info); err != nil {
			return err
		}
	}
	return nil
}

func inspect(p preset, arg string, short bool) (idInfo, error) {
	read := snowflakeplugin.ParseID
	if short {
		read = snowflakeplugin.ParseBase62
	}
	id, err := read(arg)
	if err != nil {
		return idInfo{}, usagef("inspect: %s", err)
	}
	parts, err := p.layout.Decompose(id.Int64())
	if err != nil {
		return idInfo{}, err
	}
	info := idInfo{
		ID: id, Base62: id.Base62(), Layout: p.name, Time: parts.Time.UTC(), Node: parts.Node,
		Fields: make(map[string]int64), Sequence: parts.Sequence,
	}
	for i, value := range p.layout.UnpackNode(parts.Node) {
		info.Fields[p.layout.Node[i].Name] = value
	}
	return info, nil
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
