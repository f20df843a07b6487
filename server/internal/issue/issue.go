// Package issue is the desk at which every protocol of the service asks for IDs. It finds the source, checks
// the count, limits the time, and turns every error into a [Fault], which says in public
// words what happened. What the database said stays in the log.
//
//	ids, err := desk.Issue(ctx, issue.Caller{Client: client, Token: token}, "", 100)
package issue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/access"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
)

// Source makes IDs. Fill sets every element of ids, or returns an error. It is safe for concurrent use.
type Source interface {
	Fill(ctx context.Context, ids []int64) error
}

// Caller is who asks, and the token that it has shown.
type Caller struct {
	// Client can be compared, because each client has its turn: it is the connection as a rule. It may be nil.
	Client any
	Token  *access.Token // nil where none is required
}

// DefaultSource is the name of the generator of the service.
const DefaultSource = "snowflake"

// Desk issues IDs. Make one with [New]. Its methods are safe for concurrent use.
type Desk struct {
	sources  map[string]Source
	maxCount int64
	maxTime  time.Duration
	metrics  *metrics.Set
	log      *QuietLog
	turns    turns // of the generator
}

// New returns a desk for these sources. MaxCount is how many IDs a request may ask for, maxTime how long
// it may take.
func New(
	sources map[string]Source, maxCount int64, maxTime time.Duration, m *metrics.Set, log *slog.Logger,
) *Desk {
	return &Desk{
		sources: maps.Clone(sources), maxCount: maxCount, maxTime: maxTime, metrics: m,
		log: NewQuietLog(log),
	}
}

// MaxTime is how long a request may take.
func (d *Desk) MaxTime() time.Duration { return d.maxTime }

// Issue returns count IDs of a source to a caller; an empty name means the generator. Every error is a
// *[Fault].
func (d *Desk) Issue(ctx context.Context, caller Caller, name string, count int64) ([]int64, error) {
	name = cmp.Or(name, DefaultSource)
	if count < 1 || count > d.maxCount {
		return nil, &Fault{Kind: Invalid, Text: fmt.Sprintf(
			"the count is %d, but a request may ask for 1 to %d IDs", count, d.maxCount)}
	}
	if d.sources[name] == nil {
		return nil, &Fault{Kind: Unknown, Text: fmt.Sprintf("there is no source %q; there are %s",
			shorten(name), strings.Join(slices.Sorted(maps.Keys(d.sources)), ", "))}
	}
	who := caller.Token.Name()
	if !caller.Token.Opens(name) {
		d.log.Warn(string(Denied)+" "+who, "snowflaked: a client may not have IDs of this source", "client", who,
			"source", name)
		return nil, &Fault{Denied, fmt.Sprintf("the token of %s does not open the source %s", who, name)}
	}
	ctx, end := withLimit(ctx, d.maxTime)
	defer end()
	ids := make([]int64, count)
	if err := d.fill(ctx, caller.Client, name, ids); err != nil {
		fault := explain(ctx, err)
		if fault.Kind != Canceled && fault.Kind != Deadline {
			d.log.Warn(string(fault.Kind), "snowflaked: no IDs could be made", "client", who, "source", name,
				"error", err)
		}
		return nil, fault
	}
	d.metrics.Issued(name, who, len(ids))
	return ids, nil
}

// fill makes the IDs. The generator makes many of them in portions, between which other clients have their
// turn. A counter makes them at once, because what it has made of an answer that fails would be a gap.
func (d *Desk) fill(ctx context.Context, client any, name string, ids []int64) error {
	source := d.sources[name]
	if name != DefaultSource || len(ids) <= portion {
		return source.Fill(ctx, ids)
	}
	for len(ids) > 0 {
		n := min(len(ids), portion)
		turn, err := d.turns.take(ctx, client)
		if err != nil {
			return err
		}
		err = source.Fill(ctx, ids[:n])
		d.turns.end(turn)
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// shorten keeps a text of a request from filling an answer.
func shorten(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// AsFault returns err as a Fault. An error that is none is an internal one.
func AsFault(err error) *Fault {
	var fault *Fault
	if errors.As(err, &fault) {
		return fault
	}
	return &Fault{Kind: Internal, Text: "the service failed; its log says why"}
}
