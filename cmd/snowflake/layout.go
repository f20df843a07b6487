package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/layouts"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func layoutFlag(set *flag.FlagSet, o *options) {
	set.StringVar(&o.layout, "layout", "Default", "the layout of the IDs: a `NAME` from \"snowflake layout\"")
}

// layoutOf finds a preset by its name, in which case does not matter.
func layoutOf(name string) (layouts.Preset, error) {
	p, found := layouts.Named(name)
	if !found {
		return p, usagef("there is no layout %q; there are %s", name, strings.Join(layouts.Names(), ", "))
	}
	return p, nil
}

func layoutCommand() command {
	return command{
		name: "layout", args: "[NAME]", short: "list the layouts, or describe one", values: layouts.Names(),
		needs: "at most one name is accepted", most: 1,
		help: `
A layout defines how many bits of an ID hold the time, the node and the sequence, how long a tick is, and
the epoch at which time 0 is. Without NAME the command lists all layouts. In NAME case does not matter.

The list has the bits of each part, the number of IDs that one node can generate in one tick, the number
of nodes, and the first and the last day, in UTC. A layout has run out when its time bits are used up.

  snowflake layout
  snowflake layout Game
  snowflake layout --json`,
		flags: onlyJSON,
		run:   runLayout,
	}
}

// layoutInfo is a layout in JSON.
type layoutInfo struct {
	Name         string          `json:"name"`
	Epoch        time.Time       `json:"epoch"`
	Tick         string          `json:"tick"`
	TimeBits     int             `json:"time_bits"`
	NodeBits     int             `json:"node_bits"`
	Node         []layoutSegment `json:"node"`
	SequenceBits int             `json:"sequence_bits"`
	Nodes        int64           `json:"nodes"`
	IDsPerTick   int64           `json:"ids_per_tick"`
	End          time.Time       `json:"end"`
	Fingerprint  string          `json:"fingerprint"`
}

type layoutSegment struct {
	Name string `json:"name"`
	Bits int    `json:"bits"`
}

func infoOf(p layouts.Preset) layoutInfo {
	l := p.Layout
	info := layoutInfo{
		Name: p.Name, Epoch: l.Epoch.UTC(), Tick: l.Tick.String(), TimeBits: l.TimeBits, NodeBits: l.NodeBits(),
		SequenceBits: l.SequenceBits, Nodes: l.MaxNode() + 1, IDsPerTick: l.MaxSequence() + 1,
		End: l.End().UTC(), Fingerprint: lease.Fingerprint(l),
	}
	for _, f := range l.Node {
		info.Node = append(info.Node, layoutSegment(f))
	}
	return info
}

func runLayout(_ context.Context, e *env, o *options, args []string) error {
	if len(args) == 1 {
		p, err := layoutOf(args[0])
		if err != nil {
			return err
		}
		return describeLayout(e, o, p)
	}
	var all []layoutInfo
	for _, p := range layouts.All() {
		all = append(all, infoOf(p))
	}
	if o.json {
		return printJSON(e.out, all)
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	say(table, "NAME\tTIME\tNODE\tSEQUENCE\tIDS PER TICK\tNODES\tFROM\tUNTIL\n")
	for _, i := range all {
		say(table, "%s\t%d\t%d\t%d\t%d in %s\t%d\t%s\t%s\n", i.Name, i.TimeBits, i.NodeBits, i.SequenceBits,
			i.IDsPerTick, i.Tick, i.Nodes, i.Epoch.Format(time.DateOnly), i.End.Format(time.DateOnly))
	}
	return table.Flush()
}

func describeLayout(e *env, o *options, p layouts.Preset) error {
	i := infoOf(p)
	if o.json {
		return printJSON(e.out, i)
	}
	segments := make([]string, 0, len(i.Node))
	for _, s := range i.Node {
		segments = append(segments, fmt.Sprintf("%s %d", s.Name, s.Bits))
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	say(table, "layout\tgenerator.%s()\n", i.Name)
	say(table, "bits\ttime %d, %s, sequence %d: %d in all\n", i.TimeBits, strings.Join(segments, ", "),
		i.SequenceBits, i.TimeBits+i.NodeBits+i.SequenceBits)
	say(table, "tick\t%s\n", i.Tick)
	say(table, "from\t%s\n", i.Epoch.Format(time.RFC3339Nano))
	say(table, "until\t%s\n", i.End.Format(time.RFC3339Nano))
	say(table, "nodes\t%d\n", i.Nodes)
	say(table, "IDs\t%d for each node and tick\n", i.IDsPerTick)
	say(table, "shards\t(id & %d) %% N; for N a power of two id %% N\n", i.IDsPerTick-1)
	say(table, "fingerprint\t%s\n", i.Fingerprint)
	return table.Flush()
}
