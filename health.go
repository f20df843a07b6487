package snowflakeplugin

import (
	"encoding/json"
	"time"
)

// HealthState says in a word how a plugin is.
type HealthState string

const (
	// HealthIdle means that the plugin was not used yet, so it has no node number.
	HealthIdle HealthState = "idle"
	// HealthLeased means that the plugin holds a window of a leased node.
	HealthLeased HealthState = "leased"
	// HealthByHand means that the node number was set with [WithNode].
	HealthByHand HealthState = "by_hand"
	// HealthSource means that the numbers come from [WithSource].
	HealthSource HealthState = "source"
	// HealthOverdue means that the window has ended, and the store has not extended it.
	HealthOverdue HealthState = "overdue"
	// HealthLost means that the store has given the node to somebody else, and the plugin takes another one.
	HealthLost HealthState = "lost"
	// HealthClosed means that the plugin was closed.
	HealthClosed HealthState = "closed"
)

// Health says whether a plugin can make IDs, and why not. It marshals to JSON under the names that
// its fields say; times that are zero and empty texts are left out.
type Health struct {
	// State says it in a word ("state").
	State HealthState
	// Ready says whether an ID can be made now ("ready").
	Ready bool
	// Node is the node number, if the state has one ("node").
	Node int64
	// Owner is the name under which the store of the leases knows the plugin ("owner").
	Owner string
	// WindowFrom and WindowUntil bound the window of the leased node, in UTC ("window_from",
	// "window_until").
	WindowFrom, WindowUntil time.Time
	// LastError is the error of the last extension, if that failed ("last_error", as text).
	LastError error
	// FailingSince is when the first of the failures in a row began ("failing_since").
	FailingSince time.Time
	// Sources has what is known of the sources of [WithNumbers], and under the empty name of that of
	// [WithSource], if they have a method Stats() segment.Stats ("sources"). A source whose store does not
	// answer leaves Ready alone: rows without its numbers can be created, and another process would not get
	// any either.
	Sources map[string]SourceHealth
}

// MarshalJSON implements json.Marshaler.
func (h Health) MarshalJSON() ([]byte, error) {
	var last string
	if h.LastError != nil {
		last = h.LastError.Error()
	}
	return json.Marshal(struct {
		State        HealthState             `json:"state"`
		Ready        bool                    `json:"ready"`
		Node         int64                   `json:"node"`
		Owner        string                  `json:"owner,omitempty"`
		WindowFrom   time.Time               `json:"window_from,omitzero"`
		WindowUntil  time.Time               `json:"window_until,omitzero"`
		LastError    string                  `json:"last_error,omitempty"`
		FailingSince time.Time               `json:"failing_since,omitzero"`
		Sources      map[string]SourceHealth `json:"sources,omitempty"`
	}{h.State, h.Ready, h.Node, h.Owner, h.WindowFrom, h.WindowUntil, last, h.FailingSince, h.Sources})
}

// SourceHealth says how a source of numbers stands with its store.
type SourceHealth struct {
	// Left is how many numbers can be given out without the store ("left").
	Left int64
	// Lasts is how long these last at the rate of the last block, or 0 if that is not known ("lasts", as
	// text).
	Lasts time.Duration
	// LastError is the error of the last claim, if that failed ("last_error", as text).
	LastError error
	// FailingSince is when the first of the failures in a row began ("failing_since").
	FailingSince time.Time
}

// MarshalJSON implements json.Marshaler.
func (h SourceHealth) MarshalJSON() ([]byte, error) {
	var last, lasts string
	if h.LastError != nil {
		last = h.LastError.Error()
	}
	if h.Lasts > 0 {
		lasts = h.Lasts.Round(time.Second).String()
	}
	return json.Marshal(struct {
		Left         int64     `json:"left"`
		Lasts        string    `json:"lasts,omitempty"`
		LastError    string    `json:"last_error,omitempty"`
		FailingSince time.Time `json:"failing_since,omitzero"`
	}{h.Left, lasts, last, h.FailingSince})
}
