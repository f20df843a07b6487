package lease

import (
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

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

// boundaries rounds times to the ticks of a layout.
type boundaries struct {
	layout generator.Layout
	end    time.Time
}

func boundariesOf(l generator.Layout) boundaries { return boundaries{layout: l, end: l.End()} }

// floor is the beginning of the tick that holds t, or the end of the layout's life if that is
// earlier. It returns an error for a time before the epoch.
func (b boundaries) floor(t time.Time) (time.Time, error) {
	t = t.Round(0)
	if !t.Before(b.end) {
		return b.end, nil
	}
	id, err := b.layout.Compose(generator.Parts{Time: t})
	if err != nil {
		return time.Time{}, err
	}
	parts, err := b.layout.Decompose(id)
	return parts.Time.UTC(), err
}

// ceil is the beginning of the first tick at or after t.
func (b boundaries) ceil(t time.Time) (time.Time, error) {
	floor, err := b.floor(t)
	if err != nil || !floor.Before(t) {
		return floor, err
	}
	// Any instant of the next tick will do, and its beginning is one.
	return b.floor(floor.Add(b.layout.Tick))
}
