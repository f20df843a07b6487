package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func clausesOfKeepers() []clause {
	return []clause{
		{
			name: "keepers that start together get different nodes",
			why: "Every keeper takes a node with one swap and gets a node that no other keeper has. " +
				"Sixteen keepers that start at the same time get sixteen different nodes. No two IDs of " +
				"their generators are equal.",
			check: func(p *probe) {
				const keepers, each = 16, 500
				stores := p.handles(4)
				held := make([]*lease.Keeper, keepers)
				ids := make([][]int64, keepers)
				p.together(keepers, func(i int) error {
					k, err := p.acquire(stores[i%len(stores)], layout(),
						lease.WithNodes(0, keepers-1), lease.WithSpan(long))
					if err != nil {
						return err
					}
					held[i], ids[i] = k, make([]int64, each)
					g, err := generator.New(layout(), k)
					if err != nil {
						return err
					}
					return g.Fill(p.ctx, ids[i])
				})
				nodes, all := make(map[int64]bool), make(map[int64]bool)
				for i, k := range held {
					nodes[k.Window().Node] = true
					for _, id := range ids[i] {
						all[id] = true
					}
				}
				if len(nodes) != keepers || len(all) != keepers*each {
					p.failf("%d keepers have %d nodes, and %d of %d IDs are different",
						keepers, len(nodes), len(all), keepers*each)
				}
				for _, r := range p.list(stores[0]) {
					if err := r.Validate(); err != nil || r.Version != 1 || r.Layout != lease.Fingerprint(layout()) {
						p.failf("a keeper's first record is %s", fmt.Sprintf("%+v (%v)", r, err))
					}
				}
			},
		},
		{
			name: "when all nodes are held the next keeper is told by whom",
			why: "A node whose record ends in the future is not free. If List shows that no node is free, " +
				"Acquire returns ErrNoFreeNode with the records and takes no node.",
			check: func(p *probe) {
				const nodes = 3
				for range nodes {
					p.keeper(p.open(), lease.WithNodes(10, 10+nodes-1), lease.WithSpan(long))
				}
				before := p.list(p.open())
				_, err := p.acquire(p.open(), layout(), lease.WithNodes(10, 10+nodes-1))
				var full *lease.NoFreeNodeError
				if !errors.As(err, &full) || !errors.Is(err, lease.ErrNoFreeNode) {
					p.failf("with all %d nodes held, Acquire returned the error %v, want a NoFreeNodeError", nodes, err)
				}
				if len(full.Holders) != nodes {
					p.failf("of %d holders the error names %d: %v", nodes, len(full.Holders), err)
				}
				p.holds(p.open(), before...)
			},
		},
		{
			name: "the node of a holder that is gone is taken when its window has ended",
			why: "Nobody tells the store that a process has died. Its node becomes free when the store's " +
				"clock has reached the end of the record, and not earlier. The window of the next holder " +
				"begins at that time or later.",
			check: func(p *probe) {
				s := p.open()
				gone := first(5, "gone")
				gone.Until = p.now(s).Add(short).Truncate(time.Millisecond)
				p.create(s, gone)
				k := p.keeper(p.open(), lease.WithNodes(5, 5), lease.WithSpan(long))
				if now := p.now(s); now.Before(gone.Until) {
					p.failf("the node was taken, but the store's clock shows %v, and the window ends at %v",
						now, gone.Until)
				}
				w := k.Window()
				if w.From.Before(gone.Until) {
					p.failf("the window of the next holder begins at %v, that of the last ends at %v", w.From,
						gone.Until)
				}
				_, parts := p.next(p.generator(k))
				if parts.Node != 5 || parts.Time.Before(gone.Until) {
					p.failf("an ID has node %d and the time %v, want node 5 and %v or later",
						parts.Node, parts.Time, gone.Until)
				}
				if r := p.find(s, 5); r.Version < 2 || r.Owner == "gone" {
					p.failf("the record has not changed hands: %+v", r)
				}
			},
		},
		{
			name: "a node that was given back is free from the last tick on",
			why: "Close ends the generator and moves the end of the record back to the end of the last tick that " +
				"the generator used. The next holder need not wait for the window, and uses no earlier tick.",
			check: func(p *probe) {
				s := p.open()
				k := p.keeper(s, lease.WithNodes(5, 5), lease.WithSpan(long))
				g := p.generator(k)
				ids := make([]int64, 20_000) // a few ticks
				p.must("no IDs", g.Fill(p.ctx, ids))
				last, err := layout().Decompose(ids[len(ids)-1])
				p.must("the last ID", err)
				p.must("Close", k.Close(p.ctx))
				r := p.find(s, 5)
				if want := last.Time.Add(layout().Tick); r.Owner != "" || !r.Until.Equal(want) {
					p.failf("after Close the record has the owner %q and ends at %v, want none and %v",
						r.Owner, r.Until, want)
				}
				successor := p.keeper(p.open(), lease.WithNodes(5, 5), lease.WithSpan(long))
				if begin := successor.Window().From; begin.Before(r.Until) {
					p.failf("the next window begins at %v, before the end %v that Close has written", begin, r.Until)
				}
				if id, _ := p.next(p.generator(successor)); id <= ids[len(ids)-1] {
					p.failf("the next holder's ID %d is not after the last one, %d", id, ids[len(ids)-1])
				}
			},
		},
		{
			name: "a keeper extends its window before it ends",
			why: "Three times in a span, a keeper swaps its record for one that ends later. Each record is a new " +
				"version of the same owner. The stored record never ends before the window that the generator sees.",
			check: func(p *probe) {
				s := p.open()
				k := p.keeper(p.open(), lease.WithNodes(5, 9), lease.WithSpan(short))
				begin := k.Window()
				taken := p.find(s, begin.Node)
				// On a slow machine, it was extended before; one extension may be stored and not yet counted.
				before := k.Extensions()
				p.eventually("the window was not extended three times", func() bool {
					w := k.Window()
					if w.Node != begin.Node {
						p.failf("the keeper moved from node %d to %d", begin.Node, w.Node)
					}
					if r := p.find(s, begin.Node); r.Until.Before(w.Until) {
						p.failf("the window ends at %v, but its record at %v", w.Until, r.Until)
					}
					return k.Extensions() >= before+3
				})
				r := p.find(s, begin.Node)
				if r.Owner != taken.Owner || r.Version < taken.Version+2 || !r.Until.After(begin.Until) {
					p.failf("the extensions made %+v from %+v", r, taken)
				}
			},
		},
		{
			name: "a holder that cannot reach the store stops before the next one begins",
			why: "A generator uses only the ticks of its window, and the windows of one node never " +
				"overlap. A process that is cut off from the store reaches the end of its window, and " +
				"another process takes the node from there.",
			check: func(p *probe) {
				line := &line{Store: p.open()}
				k := p.keeper(line, lease.WithNodes(5, 5), lease.WithSpan(short))
				g := p.generator(k)
				last, _ := p.next(g)
				line.cut()
				// It issues IDs for as long as it can while the other keeper waits for the node.
				stopped := make(chan error, 1)
				go func() {
					for {
						id, err := g.Next(p.ctx)
						if err != nil {
							stopped <- err
							return
						}
						last = id
						time.Sleep(time.Millisecond)
					}
				}()
				successor := p.keeper(p.open(), lease.WithNodes(5, 5), lease.WithSpan(long))
				id, _ := p.next(p.generator(successor))
				if err := <-stopped; !errors.Is(err, generator.ErrOutsideWindow) {
					p.failf("the generator that was cut off ended with %v, want ErrOutsideWindow", err)
				}
				if id <= last {
					p.failf("the next holder's first ID %d is not after the last one, %d", id, last)
				}
				if end, begin := k.Window().Until, successor.Window().From; begin.Before(end) {
					p.failf("the next window begins at %v, before the end of the last at %v", begin, end)
				}
			},
		},
		{
			name: "a keeper whose record was taken away goes on with another node",
			why: "A refused extension makes the keeper read its record. If the record has another owner, the " +
				"keeper leaves it unchanged and takes a free node. Its generator continues with increasing IDs.",
			check: func(p *probe) {
				s := p.open()
				k := p.keeper(p.open(), lease.WithNodes(5, 6), lease.WithSpan(short))
				g := p.generator(k)
				id, parts := p.next(g)
				stolen := p.steal(s, parts.Node)
				untouched := func() {
					if d := difference(p.find(s, stolen.Node), stolen); d != "" {
						p.failf("the record that belongs to somebody else was changed: %s", d)
					}
				}
				p.eventually("the keeper did not move to the other node", func() bool {
					untouched() // a keeper that writes it goes on with the number
					w := k.Window()
					return w.Node != parts.Node && w.Until.After(w.From)
				})
				id2, parts2 := p.next(g)
				if parts2.Node == parts.Node || id2 <= id {
					p.failf("the ID %d of node %d was followed by %d of node %d", id, parts.Node, id2, parts2.Node)
				}
				untouched()
			},
		},
		{
			name: "a release that comes late does not free the next holder's node",
			why: "Close gives back a node with a swap of the owner's own record. If the node has a new " +
				"holder, that swap is refused and the new holder's record stays unchanged.",
			check: func(p *probe) {
				s := p.open()
				k := p.keeper(p.open(), lease.WithNodes(5, 5), lease.WithSpan(long))
				p.next(p.generator(k))
				stolen := p.steal(s, 5)
				p.must("Close, of a node that belongs to somebody else already", k.Close(p.ctx))
				p.holds(s, stolen)
			},
		},
		{
			name: "a keeper of another layout is turned away",
			why: "IDs of two layouts can be equal even if their nodes differ, so all users of a storage " +
				"must use one layout. The records contain it, and a keeper with another layout gets " +
				"ErrLayoutMismatch and stores nothing.",
			check: func(p *probe) {
				s := p.open()
				p.keeper(s, lease.WithSpan(long))
				before := p.list(s)
				for _, l := range []generator.Layout{generator.Twitter(), generator.Game()} {
					_, err := p.acquire(p.open(), l)
					if !errors.Is(err, lease.ErrLayoutMismatch) {
						p.failf("Acquire for layout %s, where %s is in use, returned the error %v, want "+
							"ErrLayoutMismatch", l.Name, layout().Name, err)
					}
				}
				p.holds(s, before...)
			},
		},
		{
			name: "a node is reserved only in a store of its layout, even if a keeper of another one is faster",
			why: "Reserve looks at all records, writes its own and looks again. The second look sees a keeper of " +
				"another layout that took a node in between, and the reservation is undone. No keeper takes a node " +
				"from a store that has two layouts.",
			check: func(p *probe) {
				s := p.open()
				faster := func() { p.keeper(p.open(), lease.WithNodes(1, 1), lease.WithSpan(long)) }
				err := lease.Reserve(p.ctx, &overtaken{s, faster}, generator.Game(), 7, "an import")
				if !errors.Is(err, lease.ErrLayoutMismatch) {
					p.failf("beside a keeper of another layout a reservation ended with the error %v", err)
				}
				p.keeper(p.open(), lease.WithNodes(2, 2), lease.WithSpan(long))
				for range 2 {
					p.must("the node could not be reserved", lease.Reserve(p.ctx, p.open(), layout(), 7, "an import"))
				}
				if r := p.find(p.open(), 7); !lease.Reserved(r, p.now(s)) {
					p.failf("the reserved node has the record %+v", r)
				}
			},
		},
		{
			name: "a keeper that wants one node is told who holds it",
			why: "A keeper that asks for exactly one node gets ErrNodeHeld with the record of the holder, " +
				"if the node is held for longer than the keeper would wait. It changes nothing.",
			check: func(p *probe) {
				s := p.open()
				k := p.keeper(s, lease.WithNodes(3, 3), lease.WithSpan(long), lease.WithOwner("the holder"))
				before := p.find(s, 3)
				_, err := p.acquire(p.open(), layout(), lease.WithNodes(3, 3), lease.WithSpan(short))
				var held *lease.NodeHeldError
				if !errors.As(err, &held) || !errors.Is(err, lease.ErrNodeHeld) {
					p.failf("Acquire of a node that is held returned the error %v, want a NodeHeldError", err)
				}
				if d := difference(held.Record, before); d != "" || held.Record.Node != k.Window().Node {
					p.failf("the error is about node %d, not as it is stored: %s", held.Record.Node, d)
				}
				p.holds(s, before)
			},
		},
		{
			name: "a store that has lost its records grants nothing",
			why: "Nothing tells which windows run when the records are gone, so a handle that has met them " +
				"grants no first record: Swap returns false. List returns an error that wraps " +
				"snowflakeplugin.ErrAuthority and says what to do, so keepers end their attempts with it.",
			check: func(p *probe) {
				s, other := p.open(), p.open()
				able, ok := s.(Emptier)
				if !ok {
					p.t.Skipf("the test of the store has no method Empty")
				}
				if s, identified := s.(lease.Identifier); identified {
					if _, err := s.Identity(p.ctx); err != nil {
						p.failf("Identity: %v", err)
					}
				}
				k := p.keeper(s, lease.WithNodes(5, 5), lease.WithSpan(short))
				p.list(other)
				held := p.find(s, 5)
				p.must("the records could not be taken away", able.Empty(p.ctx))
				for _, s := range []lease.Store{other, s} {
					p.refuse(s, held, following(held, held.Owner), "the record is gone")
					p.grantsNothing(s)
				}
				p.eventually("the keeper went on as if its record was there", func() bool {
					return errors.Is(k.Status().Failure, errs.ErrAuthority)
				})
				p.grantsNothing(s)
			},
		},
	}
}

// line is a connection to a store that a clause can cut.
type line struct {
	lease.Store
	mu  sync.RWMutex
	end bool // guarded by mu
}

var errCut = errors.New("the line to the store is cut")

// cut waits for the requests in progress.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = true
}

func (l *line) Now(ctx context.Context) (now time.Time, err error) {
	err = l.pass(func() error { now, err = l.Store.Now(ctx); return err })
	return now, err
}

func (l *line) List(ctx context.Context) (records []lease.Record, err error) {
	err = l.pass(func() error { records, err = l.Store.List(ctx); return err })
	return records, err
}

func (l *line) Swap(ctx context.Context, prev, next lease.Record) (ok bool, err error) {
	err = l.pass(func() error { ok, err = l.Store.Swap(ctx, prev, next); return err })
	return ok, err
}

func (l *line) pass(request func() error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.end {
		return errCut
	}
	return request()
}

// overtaken is a store before whose first swap something else happens.
type overtaken struct {
	lease.Store
	overtakes func()
}

func (o *overtaken) Swap(ctx context.Context, prev, next lease.Record) (bool, error) {
	if overtakes := o.overtakes; overtakes != nil {
		o.overtakes = nil
		overtakes()
	}
	return o.Store.Swap(ctx, prev, next)
}
