package lease_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Two processes that believe to have the same number.

// On every host the container has the same address, and it is the only thing in its container.
func TestS04_ProcessesOfOneNameHaveDifferentNumbers(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		const address = "172.17.0.2:1"
		a, b := s.process(address), s.process(address)
		a.mustStart(t)
		b.mustStart(t)
		if a.node() == b.node() || s.of(t, a.node()).Owner == s.of(t, b.node()).Owner {
			t.Errorf("one has %+v, the other %+v", s.of(t, a.node()), s.of(t, b.node()))
		}
		for range 100 {
			a.draw(t)
			b.draw(t)
		}
	})
}

// Nor does a name give a right to the number that it once had.
func TestS04_ANameDoesNotBringANumberBack(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a := s.process("172.17.0.2:1")
		a.mustStart(t, lease.WithNodes(5, 5))
		again := s.process("172.17.0.2:1")
		wantError(t, again.start(t, lease.WithNodes(5, 5)), lease.ErrNodeHeld)
		wantError(t, again.start(t, lease.WithNodes(5, 5)), lease.ErrNodeHeld)
		a.draw(t)
	})
}

// Its file, if it had one, would say that the number is its own.
func TestS05_AProcessThatComesBackAsksTheStore(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a, b := s.process("a"), s.process("b")
		a.mustStart(t, lease.WithNodes(5, 6), lease.Random(alwaysFirst))
		a.draw(t)
		a.k.Crash()
		time.Sleep(5 * time.Minute)
		b.mustStart(t, lease.WithNodes(5, 5))
		b.draw(t)
		a.mustStart(t, lease.WithNodes(5, 6), lease.Random(alwaysFirst))
		if a.node() != 6 {
			t.Errorf("a has node %d again", a.node())
		}
		for range 100 {
			a.draw(t)
			b.draw(t)
		}
	})
}

func TestS08_FirstStartsOnAnEmptyStoreHaveDifferentNumbers(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		// All of them have found the store empty when the first one writes.
		const many = 64
		var listed, started sync.WaitGroup
		listed.Add(many)
		processes := make([]*process, many)
		for i := range processes {
			p := s.process(fmt.Sprint("p", i))
			processes[i] = p
			var once sync.Once
			p.beforeSwap(func(request) {
				once.Do(func() {
					listed.Done()
					listed.Wait()
				})
			})
			started.Go(func() {
				if err := p.start(t, lease.WithNodes(0, 99)); err != nil {
					t.Error(err)
				}
			})
		}
		started.Wait()
		numbers := map[int64]bool{}
		for _, p := range processes {
			numbers[p.node()] = true
			p.draw(t)
		}
		if len(numbers) != many {
			t.Errorf("%d processes have %d numbers", many, len(numbers))
		}
	})
}

// The address goes to another container while the old one runs behind a partition.
func TestS11_AnAddressThatIsUsedAgainIsAnotherOwner(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		before := s.process("10.0.0.7:8080")
		before.mustStart(t)
		before.draw(t)
		before.cut()
		after := s.process("10.0.0.7:8080")
		after.mustStart(t)
		if after.node() == before.node() {
			t.Errorf("both have node %d", after.node())
		}
		for range 100 {
			_, _ = before.work(t, 100*time.Millisecond)
			_, _ = after.work(t, 100*time.Millisecond)
		}
	})
}

// A store knows nothing of another one, so the numbers have to be divided between them.
func TestS11_DataCentersWithAStoreEachShareNoNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		east := &site{table: newTable(), ids: map[int64]string{}}
		west := &site{table: newTable(), ids: east.ids} // the IDs meet in one table
		for i := range 20 {
			p, q := east.process(fmt.Sprint("east ", i)), west.process(fmt.Sprint("west ", i))
			p.mustStart(t, lease.WithNodes(0, 511))
			q.mustStart(t, lease.WithNodes(512, 1023))
			for range 10 {
				p.draw(t)
				q.draw(t)
			}
		}
	})
}

func TestS19_EveryNumberOfEveryLayoutIsInItsIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, l := range []generator.Layout{
			generator.Default(), generator.Twitter(), generator.ShardingSphere(), generator.Business(), generator.JavaScript(),
			generator.Game(), generator.GameLong(), generator.GameSecond(), generator.Game16(), generator.Game16Fast(),
		} {
			s := newTable()
			var nodes []int64
			for node := int64(1); node <= l.MaxNode(); node *= 2 {
				nodes = append(nodes, node-1, node)
			}
			ids := map[int64]bool{}
			for _, node := range append(nodes, l.MaxNode()) {
				k, err := acquireFor(t.Context(), t, s, l, lease.WithNodes(node, node))
				if err != nil && node == 1 {
					continue // it is in the list twice
				}
				if err != nil {
					t.Fatal(err)
				}
				g, err := generator.New(l, k)
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					id := mustNext(t, g)
					parts, err := l.Decompose(id)
					if err != nil || parts.Node != node || ids[id] {
						t.Errorf("%s: node %d made the id %d, of node %d (%v)", l.Name, node, id, parts.Node, err)
					}
					ids[id] = true
				}
				mustClose(t, k)
			}
		}
	})
}

// Containers in which everything looks the same: the host, the process number, the time.
func TestS25S27S30_NothingOfAProcessDecidesItsNumber(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		numbers := map[int64]bool{}
		var keepers []*lease.Keeper
		for range 64 {
			k := acquire(t, s)
			numbers[k.Window().Node] = true
			keepers = append(keepers, k)
		}
		if len(numbers) != len(keepers) {
			t.Errorf("%d processes have %d numbers", len(keepers), len(numbers))
		}
		for i, k := range keepers {
			g := newGenerator(t, k)
			for range 10 {
				s.record(t, fmt.Sprint("p", i), mustNext(t, g))
			}
		}
	})
}

func TestS26_ASecondGeneratorOfOneLeaseIsRefused(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		p := s.process("p")
		p.mustStart(t)
		for range 100 {
			_, err := generator.New(generator.Default(), p.k, p.with...)
			wantError(t, err, lease.ErrTenureTaken, "share the generator")
			p.draw(t)
		}
		// And a lease for each is a number for each.
		for range 20 {
			another := s.process("another")
			another.mustStart(t)
			another.draw(t)
		}
	})
}

// In the same table, in the same millisecond, and on the same shard.
func TestS31_TheShardOfARowDoesNotDecideTheNumber(t *testing.T) {
	onBothStores(t, func(t *testing.T, s *site) {
		a, b := s.process("a"), s.process("b")
		a.mustStart(t)
		b.mustStart(t)
		for shard := range int64(16) {
			for _, p := range []*process{a, b} {
				id, err := p.g.NextLike(t.Context(), shard)
				if err != nil {
					t.Fatal(err)
				}
				if id&15 != shard {
					t.Errorf("the id %d is not on shard %d", id, shard)
				}
				s.record(t, p.name, id)
			}
		}
	})
}
