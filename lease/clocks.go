package lease

import (
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// clocks is one reading of the store's clock and of the local one.
type clocks struct {
	store       time.Time
	early, late time.Time // the earlier and the later of the two
}

// errUncompared is the cause when a reading of the store's clock took too long, or the local clock was
// set during it. The next reading may do better.
var errUncompared = fmt.Errorf("the local clock changed by more than %v during the request", MaxSkew)

func skewed(local, store time.Time) error {
	direction, difference := "behind", store.Sub(local)
	if difference < 0 {
		direction, difference = "ahead of", local.Sub(store) // not -difference: the least one has no negative
	}
	return fmt.Errorf("%w: the clock of this machine shows %s, %v %s the store's, which shows %s; %v is "+
		"allowed, and no window is granted until then: correct the clock that is wrong", ErrClockSkew,
		stamp(local), difference.Round(time.Millisecond), direction, stamp(store), MaxSkew)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// boundaries rounds times to the ticks of a layout.
type boundaries struct {
	layout generator.Layout
	end    time.Time
}

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
