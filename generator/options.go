package generator

import (
	"errors"
	"fmt"
	"time"
)

const (
	// defaultAheadTicks is the default of MaxAhead in ticks: enough to ride over the coarse
	// timers of operating systems without losing a tick's IDs.
	defaultAheadTicks = 10
	// longestAhead keeps the virtual clock within a day of the real one.
	longestAhead = 24 * time.Hour
	// defaultMaxWait is the default of MaxWait for all but very long ticks.
	defaultMaxWait = time.Second
	// mostShards bounds the memory of the deck, at most six bytes a shard.
	mostShards = 1 << 16
	// deckShare is what part of the sequence the default deck covers: drawing a random start
	// costs at most 1/32 of one tick's IDs on average.
	deckShare = 16
)

// Option sets one property of a [Generator].
type Option interface{ apply(*config) error }

// config is what the options say.
type config struct {
	shards   int
	maxAhead time.Duration
	maxWait  time.Duration
	now      func() time.Time
}

// optionFunc makes an Option of a function; the interface stays sealed.
type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// WithShards tells the generator how many shards its IDs are spread over, where the shard of an
// ID is (id & MaxSequence) mod n. At one ID a tick, the counts of any two of the n shards never
// differ by more than 1. The same holds for the products of the first prime factors of n in
// ascending order, and so for every divisor of a power of two; other divisors are even after
// every n ticks. Bursts are spread within 1 for any number of shards.
//
// The number is from 1 to the size of the sequence, 65,536 at most. A tick that follows an idle
// one begins at a random place below n and so loses (n-1)/2 of its IDs on average; an n that does
// not divide the size of the sequence loses the remainder of the division in full ticks as well.
// For several shard counts declare their least common multiple. By default it is a sixteenth of
// the sequence, at least 1: exact for every power of two up to it.
func WithShards(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 || n > mostShards {
			return fmt.Errorf("%w: WithShards(%d) is not between 1 and %d", ErrInvalidOption, n, mostShards)
		}
		c.shards = n
		return nil
	})
}

// WithMaxAhead tells the generator how far its virtual clock may run ahead of the wall clock,
// from 0 to 24 hours. More lets longer bursts, and longer steps back of the clock, pass without
// waiting, at the price of IDs whose time lies in the future by as much. By default it is 10
// ticks. All processes that use a hand-given node one after the other must use the same value,
// because the restart fence relies on it.
func WithMaxAhead(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < 0 || d > longestAhead {
			return fmt.Errorf("%w: WithMaxAhead(%v) is not between 0 and %v", ErrInvalidOption, d, longestAhead)
		}
		c.maxAhead = d
		return nil
	})
}

// WithMaxWait tells the generator how long a call may wait for the clock, or for its tenure,
// before it fails; 0 fails at once. In [Generator.Fill] it bounds the wait for each tick. By
// default it is one second, or two ticks where those are longer.
func WithMaxWait(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < 0 {
			return fmt.Errorf("%w: WithMaxWait(%v) is negative", ErrInvalidOption, d)
		}
		c.maxWait = d
		return nil
	})
}

// WithClock makes the generator read the time from now, for tests and simulations. The function
// is called for every reservation, sometimes under the generator's lock: it must be safe for
// concurrent use and must not call the generator. Waiting still takes real time. By default the
// generator reads the system's clock: the monotonic one for speed, tied to the wall clock anew
// every 50 milliseconds.
func WithClock(now func() time.Time) Option {
	return optionFunc(func(c *config) error {
		if now == nil {
			return fmt.Errorf("%w: WithClock(nil): a clock is needed", ErrInvalidOption)
		}
		c.now = now
		return nil
	})
}

// configure applies the options over the defaults of the layout and reports all faults at once.
func configure(l Layout, opts []Option) (config, error) {
	c := config{
		shards:   int(min(max((l.MaxSequence()+1)/deckShare, 1), mostShards)),
		maxAhead: min(defaultAheadTicks*min(l.Tick, longestAhead), longestAhead),
		maxWait:  max(defaultMaxWait, 2*min(l.Tick, longestAhead)),
	}
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, fmt.Errorf("%w: option %d is nil", ErrInvalidOption, i))
			continue
		}
		faults = append(faults, opt.apply(&c))
	}
	if int64(c.shards)-1 > l.MaxSequence() {
		faults = append(faults, fmt.Errorf("%w: WithShards(%d) needs more than the %d sequence bits of layout %s",
			ErrInvalidOption, c.shards, l.SequenceBits, l.label()))
	}
	return c, errors.Join(faults...)
}
