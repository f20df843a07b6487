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
		name: "range", args: "FROM TO", short: "find the IDs of a time range",
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
		return usagef("range: exactly two times are needed, FROM and TO")
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
		return usagef("range: the earlier time comes first, but TO %s is before FROM %s", stamp(to), stamp(from))
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
