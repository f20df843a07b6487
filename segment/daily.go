package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxDigits = 10
	// keptDays is how many days a counter is kept after its own.
	keptDays = 7
	// keptSources is how many days have a source at a time: today, yesterday, and one more for a process
	// whose clock steps back and forth.
	keptSources = 3
	// sweepTimeout limits the removal of old counters.
	sweepTimeout = 30 * time.Second
)

// Daily returns a source of numbers that begin with a date and count from 1 again each day:
//
//	number = date x 10^digits + n    20261121 000042 with 6 digits
//
// The date is that of the clock in the zone loc. A day has 10^digits - 1 numbers. The next call fails with
// [ErrDayFull] and never gives out a number of the next day. If the clock goes back over midnight, the
// source continues the counter of the day before.
//
// Each day has a counter of its own, with the name and the date: invoice/20261121. By default each number
// is one trip to the store, so there are no gaps, except when an answer of the store is lost or a process
// dies between the claim and its use. [WithBlock] claims more at once. Counters that are older than a week
// are removed, if the store is a [Ledger]. Their days are closed for good: the store notes that in a
// counter whose name no source can have. A source of [New] may have the name of daily numbers.
//
// The digits are from 1 to 10. Daily returns an error wrapping [ErrInvalidOption].
func Daily(s Store, name string, digits int, loc *time.Location, opts ...Option) (*Source, error) {
	c, err := configure(s, name, 1, 1, opts)
	if digits < 1 || digits > maxDigits {
		err = errors.Join(err, fmt.Errorf("%w: Daily: %d digits: from 1 to %d", ErrInvalidOption, digits,
			maxDigits))
		digits = 1
	}
	if loc == nil {
		err = errors.Join(err, fmt.Errorf("%w: Daily: the zone is nil: use time.UTC, or the zone of those who "+
			"read the numbers", ErrInvalidOption))
	}
	factor := int64(math.Pow10(digits))
	if c.start >= factor {
		err = errors.Join(err, fmt.Errorf("%w: WithStart(%d): a day has no number with more than %d digits",
			ErrInvalidOption, c.start, digits))
	}
	if err == nil {
		err = CheckName(dayName(name, 0))
	}
	if err != nil {
		return nil, err
	}
	source := &Source{text: c.text}
	source.current.Store(&block{})
	source.supply = &daily{
		store: s, name: name, config: c, factor: factor, zone: loc, days: make(map[int64]*day),
	}
	return source, nil
}

// daily supplies the numbers of a counter for each day.
type daily struct {
	store  Store
	name   string
	config config
	factor int64
	zone   *time.Location

	mu     sync.Mutex
	closed bool
	days   map[int64]*day
	uses   int64
	past   Stats // of days that are over
	sweeps sync.WaitGroup
}

// A day is the source of one date.
type day struct {
	date   int64
	source *Source
	used   int64 // the greater, the later it was used
}

func (d *daily) refill() {}

func (d *daily) fill(ctx context.Context, ids []int64) error {
	date := d.date()
	source, err := d.sourceOf(date)
	if err != nil {
		return err
	}
	if err := source.Fill(ctx, ids); err != nil {
		if errors.Is(err, ErrFull) {
			return fmt.Errorf("%w: counter %q has %d numbers for the day %d in zone %v; use more digits",
				ErrDayFull, d.name, d.factor-1, date, d.zone)
		}
		return err
	}
	for i := range ids {
		ids[i] += date * d.factor
	}
	return nil
}

func (d *daily) refused(number int64) {
	d.mu.Lock()
	day := d.days[number/d.factor]
	d.mu.Unlock()
	if day != nil {
		day.source.Refused(number % d.factor)
	}
}

func (d *daily) counters() []Origin { return originOf(d.store, d.name, kindDaily, d.config) }

// date is the present day as a number: 20261121.
func (d *daily) date() int64 { return dateOf(d.config.now(), d.zone) }

func dateOf(t time.Time, zone *time.Location) int64 {
	year, month, day := t.In(zone).Date()
	return int64(year)*1e4 + int64(month)*1e2 + int64(day)
}

// dayName is the name of the counter of a day.
func dayName(name string, date int64) string { return fmt.Sprintf("%s/%08d", name, date) }

// sourceOf returns the source of a day.
func (d *daily) sourceOf(date int64) (*Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%w: the source of counter %q", ErrClosed, d.name)
	}
	if date < 10_000_101 || date > 99_991_231 {
		return nil, fmt.Errorf("%w: counter %q: the clock says %d, and a date has eight digits", ErrInvalidOption,
			d.name, date)
	}
	d.uses++
	if today, ok := d.days[date]; ok {
		today.used = d.uses
		return today.source, nil
	}
	today := &day{date: date, source: &Source{text: d.config.text}, used: d.uses}
	today.source.current.Store(&block{})
	lane := newLane(d.store, dayName(d.name, date), kindDaily, d.config, &today.source.current)
	lane.last = d.factor - 1
	today.source.supply = lane
	if ledger, ok := d.store.(Ledger); ok {
		lane.vet = func(ctx context.Context) error { return d.open(ctx, ledger, date) }
		d.sweeps.Go(func() { d.sweep(lane.lifetime, ledger) })
	}
	d.days[date] = today
	d.forget()
	return today.source, nil
}

// forget closes the sources of days that are over. The caller holds mu.
func (d *daily) forget() {
	if len(d.days) <= keptSources {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Values(d.days)), func(a, b *day) int {
		return cmp.Compare(a.used, b.used)
	})
	delete(d.days, oldest.date)
	old := oldest.source.Stats()
	d.past.Issued += old.Issued
	d.past.Claims += old.Claims
	d.past.Failures += old.Failures
	d.sweeps.Go(oldest.source.supply.close) // which waits for a claim that is under way
}

// open returns an error if the counters of that day were removed. It is asked after the counter of the day
// has given its first number. A counter is removed only after the store has noted that, so one that began
// again because it was removed finds the note.
func (d *daily) open(ctx context.Context, ledger Ledger, date int64) error {
	note, err := counterOf(ctx, ledger, closedDays+d.name)
	closed := note.Next
	if err == nil && closed <= date {
		closed, err = d.closedEarlier(ctx, ledger)
	}
	if err == nil && date < closed {
		err = fmt.Errorf("%w: counter %q: the counters of the days before %d were removed, and this process has "+
			"the date %d: correct its clock", ErrDayFull, d.name, closed, date)
	}
	return err
}

// closedEarlier is the first day that is not closed, by the note of an earlier version, or 0. It lies under
// the name alone, which may be that of a counter of another kind now.
func (d *daily) closedEarlier(ctx context.Context, ledger Ledger) (int64, error) {
	c, err := counterOf(ctx, ledger, d.name)
	if c.Modulus != 0 || c.Kind != "" {
		return 0, err
	}
	return c.Next, err
}

// sweep removes counters that are older than a week. It does nothing if the local clock and the one of the
// store are not on the same day, give or take one: a wrong clock must not close days that are to come.
func (d *daily) sweep(ctx context.Context, ledger Ledger) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if err := d.trySweep(ctx, ledger); err != nil && ctx.Err() == nil {
		d.config.log.Warn("segment: old counters were not removed; the next day tries again", "counter", d.name,
			"error", err)
	}
}

func (d *daily) trySweep(ctx context.Context, ledger Ledger) error {
	theirs, err := ledger.Now(ctx)
	if err != nil {
		return err
	}
	ours := d.config.now()
	if ours.Sub(theirs).Abs() > 24*time.Hour {
		return nil
	}
	oldest := dateOf(ours.AddDate(0, 0, -keptDays), d.zone)
	counters, err := ledger.Counters(ctx, d.name+"/")
	if err != nil {
		return err
	}
	counters = slices.DeleteFunc(counters, func(c Counter) bool {
		date, ok := d.dateIn(c.Name)
		kind, _, _ := c.halt()
		return !ok || date >= oldest || kind != kindDaily && kind != "" // an earlier version noted none
	})
	if len(counters) == 0 {
		return nil
	}
	note, err := counterOf(ctx, ledger, closedDays+d.name)
	if err != nil {
		return err
	}
	if note.Next < oldest {
		next := note
		next.Next, next.Modulus, next.Kind = oldest, 0, kindClosed // frozen, as such a note always was
		if ok, err := ledger.Change(ctx, note, next); err != nil || !ok {
			return err // somebody else is at work
		}
	}
	for _, c := range counters {
		if _, err := ledger.Remove(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// dateIn returns the date in the name of a counter.
func (d *daily) dateIn(name string) (int64, bool) {
	digits, ok := strings.CutPrefix(name, d.name+"/")
	if !ok || len(digits) != len("20261121") {
		return 0, false
	}
	date, err := strconv.ParseInt(digits, 10, 64)
	return date, err == nil && date > 0
}

func (d *daily) stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	parts := make([]Stats, 0, len(d.days))
	for _, day := range d.days {
		parts = append(parts, day.source.Stats())
	}
	slices.SortFunc(parts, func(a, b Stats) int { return strings.Compare(a.Name, b.Name) })
	s := sum(d.name, parts, d.closed)
	s.Issued += d.past.Issued
	s.Claims += d.past.Claims
	s.Failures += d.past.Failures
	return s
}

func (d *daily) close() {
	d.mu.Lock()
	d.closed = true
	days := slices.Collect(maps.Values(d.days))
	d.mu.Unlock()
	for _, day := range days {
		day.source.supply.close()
	}
	d.sweeps.Wait()
}
