package segment_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

// ticketServers are two stores and the source that takes turns with them: the first has the even numbers.
type ticketServers struct {
	t      *testing.T
	stores [2]*disturbed
	source *segment.Source
	seen   map[int64]bool
}

func newTicketServers(t *testing.T, least, most int64) *ticketServers {
	t.Helper()
	s := &ticketServers{t: t, seen: make(map[int64]bool)}
	var lanes [2]*segment.Source
	for i := range s.stores {
		s.stores[i] = &disturbed{Memory: segmenttest.NewMemory()}
		lanes[i] = newSource(t, s.stores[i], segment.WithResidue(int64(i), 2), segment.WithBlock(least, most))
	}
	var err error
	s.source, err = segment.Tickets(lanes[0], lanes[1])
	must(t, err)
	return s
}

// next takes one number and returns the index of the server that gave it. A program that asks twenty times a
// second is slow enough that nothing but the source itself decides whose turn it is.
func (s *ticketServers) next() int {
	s.t.Helper()
	began := time.Now()
	n, err := s.source.Next(s.t.Context())
	if err != nil || s.seen[n] || time.Since(began) > 200*time.Millisecond {
		s.t.Fatalf("after %v Next returned %d, %v, seen: %t", time.Since(began), n, err, s.seen[n])
	}
	s.seen[n] = true
	time.Sleep(50 * time.Millisecond)
	return int(n & 1)
}

func TestTicketsTakeTurnsFromTheBeginning(t *testing.T) {
	t.Parallel()
	for _, block := range [][2]int64{{1, 1}, {10, 10}, {1_000, 1_000_000}} {
		t.Run(fmt.Sprint(block), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newTicketServers(t, block[0], block[1])
				var gave [2]int
				for range 40 {
					gave[s.next()]++
				}
				if gave[0] < 18 || gave[1] < 18 {
					t.Errorf("of 40 numbers the servers gave %v", gave)
				}
			})
		})
	}
}

func TestTicketsTakeAServerBackWithinHalfASecond(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*disturbed, bool){
		"silent":  func(d *disturbed, on bool) { d.down.Store(on) },
		"refuses": func(d *disturbed, on bool) { d.refuse.Store(on) },
		"loses":   func(d *disturbed, on bool) { d.loses.Store(on) },
	} {
		for _, block := range [][2]int64{{1, 1}, {10, 10}} {
			t.Run(fmt.Sprint(name, block), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newTicketServers(t, block[0], block[1])
					for range 10 {
						s.next()
					}
					set(s.stores[0], true)
					outage := time.Now()
					last := outage
					for time.Since(outage) < 30*time.Second {
						if s.next() == 0 {
							last = time.Now()
						}
					}
					if lasted := last.Sub(outage); lasted > 5*time.Second {
						t.Fatalf("the dead server gave a number %v after it had died", lasted)
					}
					set(s.stores[0], false)
					healed := time.Now()
					for s.next() != 0 {
						if time.Since(healed) > time.Minute {
							break
						}
					}
					if took := time.Since(healed); took > 550*time.Millisecond { // the pause of the loop included
						t.Errorf("the server gave its first number %v after it had come back", took)
					}
					var gave [2]int
					for range 40 {
						gave[s.next()]++
					}
					if gave[0] < 18 || gave[1] < 18 {
						t.Errorf("of 40 numbers after that the servers gave %v", gave)
					}
				})
			})
		}
	}
}
