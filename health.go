package snowflakeplugin

import (
	"encoding/json"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// The states of [Health].
const (
	stateIdle      = "idle"
	stateLeased    = "leased"
	stateByHand    = "by_hand"
	stateContested = "contested"
	stateSource    = "source"
	stateOverdue   = "overdue"
	stateLost      = "lost"
	stateClosed    = "closed"
)

// Health says whether a plugin can make IDs, and why not. It marshals to JSON under the names in the tags,
// errors as text; times that are zero and empty texts are left out.
type Health struct {
	// State says it in a word:
	//
	//	idle       the plugin was not used yet, so it has no node number
	//	leased     it holds a window of a leased node
	//	by_hand    the node number was set with WithNode
	//	contested  it has a node number, and a row shows that somebody else makes IDs with the same one; see
	//	           Contested
	//	source     the numbers come from WithSource
	//	overdue    the window has ended, and the store has not extended it
	//	lost       the store has given the node to somebody else, and the plugin takes another one
	//	closed     the plugin was closed
	State string `json:"state"`
	// Ready says whether an ID can be made now.
	Ready bool `json:"ready"`
	// Node is the node number, if the state has one.
	Node int64 `json:"node"`
	// Owner is the name under which the store of the leases knows the plugin.
	Owner string `json:"owner,omitempty"`
	// WindowFrom and WindowUntil bound the window of the leased node, in UTC.
	WindowFrom  time.Time `json:"window_from,omitzero"`
	WindowUntil time.Time `json:"window_until,omitzero"`
	// LastError is the error of the last extension, if that failed.
	LastError error `json:"last_error,omitempty"`
	// FailingSince is when the first of the failures in a row began.
	FailingSince time.Time `json:"failing_since,omitzero"`
	// Contested names the table, the key and the node of the last row of somebody else that had a key which was
	// just made here. Such a key is refused with [ErrContested], so no row is lost. It is empty ten minutes
	// after the last of them, and once the plugin has another node: after two with different keys it gives a
	// leased number up for another one, at most once a span.
	Contested string `json:"contested,omitempty"`
	// Sources has what the sources of [WithNumbers] have done, by their names, and under the empty name that
	// of [WithSource], with "left", "lasts", "last_error" and "failing_since". It leaves out
	// sources without a method Stats() segment.Stats; those of package segment have it. A source whose store
	// does not answer leaves Ready alone: rows without its numbers can be created, and another process would
	// not get any either.
	Sources map[string]segment.Stats `json:"sources,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (h Health) MarshalJSON() ([]byte, error) {
	type source struct {
		Left         int64     `json:"left"`
		Lasts        string    `json:"lasts,omitempty"`
		LastError    string    `json:"last_error,omitempty"`
		FailingSince time.Time `json:"failing_since,omitzero"`
	}
	sources := make(map[string]source)
	for name, s := range h.Sources {
		shown := source{Left: s.Left, LastError: text(s.LastError), FailingSince: s.FailingSince}
		if s.Lasts > 0 {
			shown.Lasts = s.Lasts.Round(time.Second).String()
		}
		sources[name] = shown
	}
	type plain Health // without this method
	return json.Marshal(struct {
		plain
		LastError string            `json:"last_error,omitempty"`
		Sources   map[string]source `json:"sources,omitempty"`
	}{plain(h), text(h.LastError), sources})
}

// text is that of an error, or none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
