package generator

import (
	"errors"
	"fmt"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/limits"
)

const (
	// defaultAheadTicks is the default of MaxAhead in ticks. It is large enough that the coarse
	// timers of operating systems do not cost the IDs of a tick.
	defaultAheadTicks = 10
	// aheadLimit keeps the virtual clock within one day of the real clock.
	aheadLimit = limits.Ahead
	// defaultMaxWait is the default of MaxWait, except for very long ticks.
	defaultMaxWait = time.Second
	// maxShards limits the memory of the deck, which is at most six bytes per shard.
	maxShards = 1 << 16
	// deckShare defines the default deck as this fraction of the sequence. A random start then
	// costs at most 1/32 of the IDs of a tick on average.
	deckShare = 16
)

// Option sets one property of a [Generator].
type Option func(*config) error

// config holds the values of the options.
type config struct {
	shards   int
	maxAhead time.Duration
	maxWait  time.Duration
	now      func() time.Time
}

// WithShards sets the number of shards over which the IDs are spread. The shard of an ID is (id &
// MaxSequence) mod n. At one ID per tick, the counts of any two of the n shards never differ by
// more than 1. The same holds for every product of the first prime factors of n in ascending order,
// and therefore for every divisor of a power of two. Other divisors are even after every n ticks.
// Bursts are spread within 1 for any number of shards.
//
// The number is between 1 and the size of the sequence, and at most 65,536. A tick that follows an
// idle tick begins at a random place below n, so it loses (n-1)/2 of its IDs on average. If n does
// not divide the size of the sequence, full ticks also lose the remainder of that division. For
// several shard counts, declare their least common multiple. The default is a sixteenth of the
// sequence, and at least 1. It is exact for every power of two up to it.
func WithShards(n int) Option {
	return errs.Option(func(c *config) { c.shards = n }, n < 1 || n > maxShards, ErrInvalidOption,
		"WithShards(%d) is not between 1 and %d", n, maxShards)
}

// WithMaxAhead sets how far the virtual clock may run ahead of the wall clock, between 0 and 24
// hours. With a larger value, longer bursts and larger steps back of the clock cause no waiting,
// but the time of an ID may be in the future by that much. The default is 10 ticks. All processes
// that use a fixed node one after the other must use the same value, because the restart fence
// relies on it.
func WithMaxAhead(d time.Duration) Option {
	return errs.Option(func(c *config) { c.maxAhead = d }, d < 0 || d > aheadLimit, ErrInvalidOption,
		"WithMaxAhead(%v) is not between 0 and %v", d, aheadLimit)
}

// WithMaxWait sets how long a call may wait for the clock or for its tenure before it fails. With
// 0, a call fails at once. In [Generator.Fill] it limits the wait for each tick. The default is one
// second, or two ticks if they are longer.
func WithMaxWait(d time.Duration) Option {
	return errs.Option(func(c *config) { c.maxWait = d }, d < 0, ErrInvalidOption,
		"WithMaxWait(%v) is negative", d)
}

// WithClock makes the generator read the time from now, for tests and simulations. The generator
// calls the function for every reservation, sometimes while it holds its lock. The function must be
// safe for concurrent use and must not call the generator. Waiting still takes real time. By
// default the generator reads the monotonic clock of the system, which is faster, and synchronizes
// it with the wall clock every 50 milliseconds.
func WithClock(now func() time.Time) Option {
	return errs.Option(func(c *config) { c.now = now }, now == nil, ErrInvalidOption,
		"WithClock(nil): pass a clock")
}

// configure applies the options to the defaults of the layout and reports all faults at once.
func configure(l Layout, opts []Option) (config, error) {
	c := config{
		shards:   int(min(max((l.MaxSequence()+1)/deckShare, 1), maxShards)),
		maxAhead: min(defaultAheadTicks*min(l.Tick, aheadLimit), aheadLimit),
		maxWait:  max(defaultMaxWait, 2*min(l.Tick, aheadLimit)),
	}
	faults := []error{errs.Options(&c, opts, ErrInvalidOption)}
	if int64(c.shards)-1 > l.MaxSequence() {
		faults = append(faults, fmt.Errorf("%w: WithShards(%d) needs more than the %d sequence bits of layout %s",
			ErrInvalidOption, c.shards, l.SequenceBits, l.label()))
	}
	return c, errors.Join(faults...)
}
