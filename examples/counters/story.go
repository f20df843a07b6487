package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"
)

// story holds what the chapters share.
type story struct {
	w      io.Writer
	dir    string
	now    atomic.Pointer[time.Time] // by which invoices have their day
	ada    *process
	bob    *process
	faults int // checks that failed
}

func tell(ctx context.Context, w io.Writer, dir string) (err error) {
	s := &story{w: w, dir: dir}
	s.clock(time.Date(2026, 12, 31, 23, 59, 0, 0, time.UTC))
	clock := func() time.Time { return *s.now.Load() }
	if s.ada, err = newProcess(ctx, dir, clock); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.ada.close()) }()
	if err := s.ada.db.AutoMigrate(&Order{}, &Invoice{}); err != nil {
		return err
	}
	if s.bob, err = newProcess(ctx, dir, clock); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.bob.close()) }()
	for _, chapter := range []func(context.Context) error{s.orders, s.invoices, s.tickets} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	if s.faults > 0 {
		return fmt.Errorf("%d checks failed", s.faults)
	}
	return nil
}

func (s *story) clock(t time.Time) { s.now.Store(&t) }

// orders have a number from a block beside their key.
func (s *story) orders(context.Context) error {
	fmt.Fprint(s.w, `Orders have a key from the clock, and a short number from a counter. Each process claims a
block of numbers, and asks the database again only when it needs the next one.

`)
	var all []Order
	for _, p := range []*process{s.ada, s.bob, s.ada} {
		batch := make([]Order, 3)
		if err := p.db.Create(&batch).Error; err != nil {
			return err
		}
		for _, o := range batch {
			fmt.Fprintf(s.w, "  %s  order %d with the key %d\n", s.name(p), o.Number, o.ID)
		}
		all = append(all, batch...)
	}
	fmt.Fprintln(s.w)
	s.check(all[0].Number == 1 && all[6].Number == 4, "Ada goes on in her own block")
	s.check(all[3].Number > all[6].Number, "Bob has another block")
	byKey := func(a, b Order) int { return cmp.Compare(a.ID, b.ID) }
	s.check(slices.IsSortedFunc(all[:3], byKey), "the keys of a process increase")
	return nil
}

// invoices are numbered without gaps by both processes, day by day.
func (s *story) invoices(ctx context.Context) error {
	fmt.Fprint(s.w, `
Invoices have the date in their number, and each day begins with 1. A block has one number,
so nothing is left over when a process ends.

`)
	var orders []Order
	if err := s.ada.db.Order("id").Find(&orders).Error; err != nil {
		return err
	}
	var numbers []string
	bill := func(p *process, order Order) error {
		invoice := Invoice{OrderID: order.ID}
		err := p.db.Create(&invoice).Error
		if err == nil {
			fmt.Fprintf(s.w, "  %s  %s\n", s.name(p), invoice.Number)
			numbers = append(numbers, invoice.Number)
		} else {
			fmt.Fprintf(s.w, "  %s  no invoice\n", s.name(p))
			s.check(invoice.Number == "" && invoice.ID == 0, "the struct keeps neither a number nor a key")
		}
		return err
	}
	for i, p := range []*process{s.ada, s.bob, s.bob, s.ada} {
		if err := bill(p, orders[i]); err != nil {
			return err
		}
	}
	fmt.Fprint(s.w, "\nAn order has one invoice, so a second one fails:\n\n")
	if bill(s.bob, orders[0]) == nil {
		return errors.New("an order has two invoices")
	}
	if err := bill(s.ada, orders[4]); err != nil {
		return err
	}
	fmt.Fprint(s.w, "\nThe number that was claimed for it is the gap. Then it is midnight:\n\n")
	s.clock(s.now.Load().Add(time.Minute))
	for i, p := range []*process{s.bob, s.ada} {
		if err := bill(p, orders[5+i]); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.w)
	s.check(slices.Equal(numbers, []string{
		"SO-20261231-000001", "SO-20261231-000002", "SO-20261231-000003", "SO-20261231-000004",
		"SO-20261231-000006", "SO-20270101-000001", "SO-20270101-000002",
	}), "the series is as it should be")
	sources := s.ada.plugin.Health(ctx).Sources
	s.check(sources["order"].Left > 0 && sources["invoice"].LastError == nil,
		"the plugin's health shows %d numbers left for orders", sources["order"].Left)
	return nil
}

// tickets go on while one of two databases does not answer.
func (s *story) tickets(ctx context.Context) (err error) {
	fmt.Fprint(s.w, "\nTwo ticket databases give numbers in turn: one the even numbers, one the odd.\n\n")
	t, err := newTickets(ctx, s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	before, err := t.take(ctx, someTickets)
	if err != nil {
		return err
	}
	s.show("both answer", before)

	start, err := stop(ctx, t.dbs[0])
	if err != nil {
		return err
	}
	// The numbers that the database had given before it stopped are used up first.
	last, err := t.take(ctx, 2*lastTickets)
	var during []int64
	if err == nil {
		during, err = t.take(ctx, someTickets)
	}
	if err := errors.Join(err, start()); err != nil {
		return err
	}
	s.show("one is silent", last)
	s.show("... still", during)

	back, err := t.takeUntilEven(ctx)
	if err != nil {
		return err
	}
	s.show("it answers again", back)
	after, err := t.take(ctx, someTickets)
	if err != nil {
		return err
	}
	s.show("both answer", after)

	fmt.Fprintln(s.w)
	s.check(even(before) > 0 && even(before) < someTickets, "both have their turn")
	s.check(even(during) == 0, "the one that is silent is skipped, and no call fails")
	s.check(even(after) > 0, "the one that came back has its turn again")
	all := slices.Concat(before, last, during, back, after)
	slices.Sort(all)
	s.check(len(slices.Compact(slices.Clone(all))) == len(all), "no number was given twice")
	return nil
}

func (s *story) show(when string, numbers []int64) {
	fmt.Fprintf(s.w, "  %-17s %3d numbers:", when, len(numbers))
	for _, n := range numbers[:min(len(numbers), 10)] {
		fmt.Fprintf(s.w, " %d", n)
	}
	if len(numbers) > 10 {
		fmt.Fprint(s.w, " ...")
	}
	fmt.Fprintln(s.w)
}

func even(numbers []int64) (count int) {
	for _, n := range numbers {
		if n%2 == 0 {
			count++
		}
	}
	return count
}

func (s *story) name(p *process) string {
	if p == s.ada {
		return "Ada"
	}
	return "Bob"
}

func (s *story) check(ok bool, format string, args ...any) {
	word := "yes"
	if !ok {
		word = "NO "
		s.faults++
	}
	fmt.Fprintf(s.w, "  %s  %s\n", word, fmt.Sprintf(format, args...))
}
