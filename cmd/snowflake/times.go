package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
)

func rangeCommand() command {
	return command{
		name: "range", args: "FROM TO", short: "find the IDs of a span of time",
		help: `
Prints the first ID of FROM and the first ID of TO: what was made from FROM up to, not including, TO
lies between. A time is a date (2026-11-21), a date and time (2026-11-21T08:00, or with seconds),
RFC 3339 with a zone, "now", or a duration from now (-24h, +90m). Without a zone it is UTC.

With TO "now" the condition has no upper end: in a burst IDs run some ticks ahead of the clock.

  snowflake range -1h now
  snowflake range 2026-11-20 2026-11-21
  snowflake range --layout Game 2026-11-01T00:00:00+08:00 now`,
		flags: func(set *flag.FlagSet, o *options) {
			layoutFlag(set, o)
			jsonFlag(set, o)
		},
		run: runRange,
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
	if len(args) != 2 {
		return usagef("range: two times are needed, FROM and TO")
	}
	p, err := layoutOf(o.layout)
	if err != nil {
		return err
	}
	now := time.Now()
	from, err := parseTime(args[0], now)
	if err != nil {
		return err
	}
	to, err := parseTime(args[1], now)
	if err != nil {
		return err
	}
	if to.Before(from) {
		return usagef("range: %s is before %s: the earlier time comes first", stamp(to), stamp(from))
	}
	first, end, err := p.layout.Range(from, to)
	if err != nil {
		return err
	}
	info := rangeInfo{
		Layout: p.name, From: from, To: to, First: snowflakeplugin.ID(first), End: snowflakeplugin.ID(end),
		Where: fmt.Sprintf("id >= %d AND id < %d", first, end),
	}
	if strings.EqualFold(args[1], "now") {
		info.Where = fmt.Sprintf("id >= %d", first)
	}
	if o.json {
		return printJSON(e.out, info)
	}
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	say(table, "from\t%s\tfirst ID %d\n", stamp(from), first)
	say(table, "to\t%s\tfirst ID %d, not included\n", stamp(to), end)
	say(table, "where\t%s\n", info.Where)
	return table.Flush()
}

// parseTime reads a time as the help describes it.
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
	return time.Time{}, usagef("%.60q is no time: write 2026-11-21, 2026-11-21T08:00, "+
		"2026-11-21T08:00:00Z, now or -24h", text)
}
