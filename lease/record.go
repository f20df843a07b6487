package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Record is what a store holds for one node number. The zero Record is none.
type Record struct {
	// Node is the number.
	Node int64 `json:"node"`
	// Owner names the tenure that holds the number, or held it last if Until has passed. No two
	// tenures have the same owner. It is empty once the number was given back.
	Owner string `json:"owner"`
	// Until is the end of the last window that was granted. The ticks before it belong to those
	// who had the number so far, whatever became of them.
	Until time.Time `json:"until"`
	// Version is 1 for the first record of a number and grows by 1 with every change.
	Version int64 `json:"version"`
	// Layout is the [Fingerprint] of the layout that the number is used with, or "none" if all who
	// had the number gave it back before they made an ID.
	Layout string `json:"layout"`
	// UpdatedAt is when the record was written, by the writer's clock. It is for people; nothing
	// is decided by it.
	UpdatedAt time.Time `json:"updated_at"`
}

// Validate returns an error wrapping [ErrInvalidRecord] if r cannot be a record that a keeper
// wrote: its node is negative, it has no version, no layout or no end.
func (r Record) Validate() error {
	switch {
	case r.Node < 0:
		return fmt.Errorf("%w: node %d is negative", ErrInvalidRecord, r.Node)
	case r.Version < 1:
		return fmt.Errorf("%w of node %d: version %d, where 1 is the first", ErrInvalidRecord, r.Node, r.Version)
	case r.Layout == "":
		return fmt.Errorf("%w of node %d: it names no layout", ErrInvalidRecord, r.Node)
	case r.Until.IsZero():
		return fmt.Errorf("%w of node %d: it has no end (until)", ErrInvalidRecord, r.Node)
	}
	return nil
}

// Fingerprint says what of a layout decides which IDs can be equal: the epoch, the tick and the
// number of bits of each part. Names do not matter, nor how the node is divided into fields.
func Fingerprint(l generator.Layout) string {
	return fmt.Sprintf("epoch=%s tick=%v time=%d node=%d sequence=%d",
		l.Epoch.UTC().Format(time.RFC3339Nano), l.Tick, l.TimeBits, l.NodeBits(), l.SequenceBits)
}

// UnboundLayout takes the place of a fingerprint in the record of a number with which no ID was ever
// made. Such a record has no layout, so a process of any layout may take the number.
const UnboundLayout = "none"

// bindsNothing tells whether no ID was ever made with the number of a record. The zero record is that
// of a number which was never taken.
func bindsNothing(r Record) bool { return r.Version == 0 || r.Layout == UnboundLayout }

// same compares what tells two swaps of one node apart.
func same(a, b Record) bool {
	return a.Node == b.Node && a.Version == b.Version && a.Owner == b.Owner && a.Layout == b.Layout &&
		a.Until.Equal(b.Until) && a.UpdatedAt.Equal(b.UpdatedAt)
}

// maxListed is how many holders an error names.
const maxListed = 8

// layoutError says which layout the store is for.
func layoutError(records []Record, fingerprint string) error {
	var nodes []int64
	other := ""
	for _, r := range records {
		if r.Layout == fingerprint || bindsNothing(r) {
			continue
		}
		if other == "" {
			other = r.Layout
		}
		nodes = append(nodes, r.Node)
	}
	if other == "" {
		return nil
	}
	slices.Sort(nodes)
	more := ""
	if len(nodes) > maxListed {
		more = fmt.Sprintf(" and %d more", len(nodes)-maxListed)
		nodes = nodes[:maxListed]
	}
	return fmt.Errorf("%w: this process has %q, but nodes %v%s have %q: all that share a store use one "+
		"layout; to change it, use a new store (another table or prefix), with node numbers or times whose "+
		"IDs cannot be equal to the old ones", ErrLayoutMismatch, fingerprint, nodes, more, other)
}

// MarshalJSON writes the record as an object of six fields, all of them always there:
//
//	{"node":7,"owner":"web-1 4711","until":"2026-05-01T10:00:15Z","version":3,
//	 "layout":"epoch=2025-01-01T00:00:00Z ...","updated_at":"2026-05-01T10:00:00.123456789Z"}
//
// Times are RFC 3339 in UTC, to the nanosecond. Stores that keep text keep this one. An error,
// which wraps [ErrInvalidRecord], means that a record cannot be written without a change: its
// owner or layout is not UTF-8, or a time is not in the years 0 to 9999.
func (r Record) MarshalJSON() ([]byte, error) {
	r.Until, r.UpdatedAt = r.Until.UTC(), r.UpdatedAt.UTC()
	far := func(t time.Time) bool { return t.Year() < 0 || t.Year() > 9999 }
	switch {
	case !utf8.ValidString(r.Owner) || !utf8.ValidString(r.Layout):
		return nil, fmt.Errorf("%w of node %d: owner %q or layout %q is not UTF-8",
			ErrInvalidRecord, r.Node, r.Owner, r.Layout)
	case far(r.Until) || far(r.UpdatedAt):
		return nil, fmt.Errorf("%w of node %d: until %v or updated_at %v is in a year that RFC 3339 cannot write",
			ErrInvalidRecord, r.Node, r.Until, r.UpdatedAt)
	}
	type plain Record // without this method
	return json.Marshal(plain(r))
}

// UnmarshalJSON reads what [Record.MarshalJSON] writes of a valid record, and nothing else: each
// of the six fields once and no other, whole numbers, times in UTC as they are written there.
// White space and the order of the fields do not matter. Anything else was written by somebody
// who is no keeper, and guessing at it could grant a window twice; the error wraps
// [ErrInvalidRecord] and says which field is wrong. Then r is as it was.
func (r *Record) UnmarshalJSON(text []byte) error {
	fields, err := splitObject(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRecord, err)
	}
	const number, words, instant = "a whole number of 64 bits", "a string",
		"a time like 2026-05-01T10:00:15.25Z, in UTC"
	var read Record
	var faults []string
	for _, field := range []struct {
		name, want string
		read       func(raw []byte) bool
	}{
		{"node", number, integerInto(&read.Node)},
		{"owner", words, textInto(&read.Owner)},
		{"until", instant, timeInto(&read.Until)},
		{"version", number, integerInto(&read.Version)},
		{"layout", words, textInto(&read.Layout)},
		{"updated_at", instant, timeInto(&read.UpdatedAt)},
	} {
		raw, found := fields[field.name]
		switch {
		case !found:
			faults = append(faults, fmt.Sprintf("it has no field %q", field.name))
		case !field.read(raw):
			faults = append(faults, fmt.Sprintf("%s is %s, which is not %s", field.name, raw, field.want))
		}
		delete(fields, field.name)
	}
	for name := range fields {
		faults = append(faults, fmt.Sprintf("%q is no field of a record", name))
	}
	if len(faults) > 0 {
		slices.Sort(faults) // the fields of a map come in any order
		return fmt.Errorf("%w: %s", ErrInvalidRecord, strings.Join(faults, "; "))
	}
	if err := read.Validate(); err != nil {
		return err
	}
	*r = read
	return nil
}

// splitObject returns the fields of a JSON object. Unlike the standard decoder it knows names by
// their exact letters, and refuses one that comes twice.
func splitObject(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	fields := make(map[string]json.RawMessage)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("it is no JSON: %w", err)
		}
		name, _ := token.(string) // before a value the decoder returns nothing else
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("it is no JSON: %w", err)
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("it has the field %q twice", name)
		}
		fields[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return fields, nil
}

// The following return functions that read a field as MarshalJSON writes it, or return false.

func integerInto(n *int64) func(raw []byte) bool {
	return func(raw []byte) bool {
		var err error
		*n, err = strconv.ParseInt(string(raw), 10, 64)
		return err == nil && strconv.FormatInt(*n, 10) == string(raw)
	}
}

func textInto(text *string) func(raw []byte) bool {
	return func(raw []byte) bool { return string(raw) != "null" && json.Unmarshal(raw, text) == nil }
}

func timeInto(t *time.Time) func(raw []byte) bool {
	return func(raw []byte) bool {
		var text string
		if !textInto(&text)(raw) {
			return false
		}
		read, err := time.Parse(time.RFC3339Nano, text)
		*t = read.UTC()
		return err == nil && t.Format(time.RFC3339Nano) == text
	}
}
