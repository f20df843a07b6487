package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// patienceWithOne is how long a call waits for one ticket server before it asks the next one, too.
const patienceWithOne = 50 * time.Millisecond

// Tickets returns a source that takes numbers from several others in turn, each with a counter in a store of
// its own. A source whose store does not answer is skipped. Calls that pass it over make it try again, so it
// is back in its turn about half a second after its store answers, and at most 1.3 s if that is no [Prober].
// All sources need one modulus and different remainders (see [WithResidue]), so that no two of them give out
// the same number. Numbers of different sources are in no order.
//
//	a, err := segment.New(first, "orders", segment.WithResidue(0, 2))
//	b, err := segment.New(second, "orders", segment.WithResidue(1, 2))
//	tickets, err := segment.Tickets(a, b)
//
// Close closes the sources, too. Tickets returns an error wrapping [ErrInvalidOption] without sources, or
// [ErrResidue] for sources that could give out equal numbers.
func Tickets(sources ...*Source) (*Source, error) {
	if len(sources) == 0 {
		return nil, fmt.Errorf("%w: Tickets: at least one source is needed", ErrInvalidOption)
	}
	t := &tickets{}
	remainders := make(map[int64]int)
	var modulus int64
	for i, source := range sources {
		if source == nil {
			return nil, fmt.Errorf("%w: Tickets: source %d is nil", ErrInvalidOption, i)
		}
		lane, ok := source.supply.(*lane)
		if !ok {
			return nil, fmt.Errorf("%w: Tickets: source %d is not one of New", ErrInvalidOption, i)
		}
		c := lane.config
		if i == 0 {
			modulus = c.modulus
		}
		other, taken := remainders[c.remainder]
		switch {
		case c.modulus != modulus:
			return nil, fmt.Errorf("%w: Tickets: source 0 has the modulus %d and source %d has %d: give all "+
				"sources one modulus", ErrResidue, modulus, i, c.modulus)
		case taken:
			return nil, fmt.Errorf("%w: Tickets: sources %d and %d have the numbers %s: give each source a "+
				"remainder of its own", ErrResidue, other, i, residue(c.remainder, c.modulus))
		}
		remainders[c.remainder] = i
		t.lanes = append(t.lanes, lane)
	}
	source := &Source{text: sources[0].text, supply: t}
	source.current.Store(&block{})
	return source, nil
}

// tickets supplies numbers of several lanes in turn.
type tickets struct {
	lanes  []*lane
	turn   atomic.Uint64
	closed atomic.Bool
}

func (t *tickets) refill() {}

// fill takes what is there, from one lane after the other, and waits only if all of them have too little. A
// lane that has too little is reminded, so that it takes its turn next time: nobody else would make it claim
// its first block, or try again after its store has failed.
func (t *tickets) fill(ctx context.Context, ids []int64) error {
	first := int(t.turn.Add(1) % uint64(len(t.lanes)))
	rest := ids
	for i := range t.lanes {
		l := t.lanes[(first+i)%len(t.lanes)]
		l.mu.Lock()
		rest = rest[l.take(rest):]
		if len(rest) > 0 {
			l.remind()
		}
		l.mu.Unlock()
		if len(rest) == 0 {
			return nil
		}
	}
	return t.ask(ctx, rest, first)
}

func (t *tickets) refused(number int64) {
	for _, l := range t.lanes {
		if number%l.config.modulus == l.config.remainder {
			l.refused(number)
		}
	}
}

func (t *tickets) counters() (all []Origin) {
	for _, l := range t.lanes {
		all = append(all, l.counters()...)
	}
	return all
}

// answer is what one lane said.
type answer struct {
	ids []int64
	err error
}

// ask waits for the lanes. It begins with one whose store answers, and asks the next one when that fails or
// is slow. The first answer counts. What a lane answers later goes back to the lane's own callers as far as
// that is possible, or is lost.
func (t *tickets) ask(ctx context.Context, ids []int64, first int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	order := t.order(first)
	answers := make(chan answer, len(order))
	next, open := 0, 0
	begin := func() {
		l := order[next]
		next++
		open++
		go func() {
			fresh := make([]int64, len(ids))
			err := l.fill(ctx, fresh)
			answers <- answer{fresh, err}
		}()
	}
	begin()
	timer := time.NewTimer(patienceWithOne)
	defer timer.Stop()
	var faults []error
	for open > 0 {
		select {
		case a := <-answers:
			open--
			if a.err == nil {
				copy(ids, a.ids)
				return nil
			}
			faults = append(faults, a.err)
			if next < len(order) && ctx.Err() == nil {
				begin()
			}
		case <-timer.C:
			if next < len(order) {
				begin()
				timer.Reset(patienceWithOne)
			}
		}
	}
	return t.fault(ctx, faults)
}

// order returns the lanes in turn, with those at the end whose store does not answer.
func (t *tickets) order(first int) []*lane {
	var well, failing []*lane
	for _, l := range slices.Concat(t.lanes[first:], t.lanes[:first]) {
		l.mu.Lock()
		fails := !l.fetch.failingSince.IsZero()
		l.mu.Unlock()
		if fails {
			failing = append(failing, l)
		} else {
			well = append(well, l)
		}
	}
	return append(well, failing...)
}

// fault is the error when no lane has a number. It is temporary if that of one lane is.
func (t *tickets) fault(ctx context.Context, faults []error) error {
	switch {
	case t.closed.Load():
		return fmt.Errorf("%w: the source of %s", ErrClosed, t.counterNames())
	case ctx.Err() != nil:
		return canceled(ctx)
	}
	var temporary []error
	for _, err := range faults {
		if !lasting(err) {
			temporary = append(temporary, err)
		}
	}
	if len(temporary) > 0 {
		faults = temporary
	}
	return errors.Join(faults...)
}

func (t *tickets) counterNames() string {
	var names []string
	for _, l := range t.lanes {
		names = append(names, l.name)
	}
	return strings.Join(names, ", ")
}

func (t *tickets) stats() Stats {
	parts := make([]Stats, len(t.lanes))
	for i, l := range t.lanes {
		parts[i] = l.stats()
	}
	return sum(t.counterNames(), parts, t.closed.Load())
}

func (t *tickets) close() {
	t.closed.Store(true)
	for _, l := range t.lanes {
		l.close()
	}
}
