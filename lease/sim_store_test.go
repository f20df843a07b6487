package lease_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// simStore is the truth: one record a number, changed by compare-and-swap at an instant. All that
// can happen to a request on its way is the business of simLink.
type simStore struct {
	clock   *simClock
	applied func(lease.Record) // is told of every change

	mu      sync.Mutex
	records map[int64]lease.Record
	history map[int64][]simEntry // of each number, all that was ever stored
}

// simEntry is one change of a record.
type simEntry struct {
	at     time.Duration
	record lease.Record
	forced bool // without a comparison
}

func newSimStore(clock *simClock, applied func(lease.Record)) *simStore {
	return &simStore{
		clock: clock, applied: applied, records: map[int64]lease.Record{}, history: map[int64][]simEntry{},
	}
}

func (s *simStore) list() []lease.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []lease.Record
	for _, r := range s.records {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b lease.Record) int { return cmp.Compare(a.Node, b.Node) })
	return records
}

func (s *simStore) swap(prev, next lease.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.holds(prev, next.Node) {
		return false
	}
	s.put(next, false)
	return true
}

// matches is the swap of a store that acknowledges and does not commit.
func (s *simStore) matches(prev, next lease.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds(prev, next.Node)
}

// holds tells whether the record of a node is prev. The caller holds s.mu.
func (s *simStore) holds(prev lease.Record, node int64) bool {
	stored, found := s.records[node]
	return found == (prev.Version != 0) &&
		(!found || stored.Owner == prev.Owner && stored.Version == prev.Version)
}

func (s *simStore) within(earliest, latest time.Time) bool {
	now := s.clock.now()
	return !now.Before(earliest) && !now.After(latest)
}

// force is the swap of a protocol that has forgotten to compare.
func (s *simStore) force(next lease.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(next, true)
	return true
}

func (s *simStore) put(next lease.Record, forced bool) {
	s.records[next.Node] = next
	s.history[next.Node] = append(s.history[next.Node], simEntry{s.clock.elapsed(), next, forced})
	s.applied(next)
}

// holder is the process that a record belongs to: the name without the random part.
func holder(r lease.Record) string {
	name, _, _ := strings.Cut(r.Owner, " #")
	return name
}

// simTenure is what the history of the store grants to one holder of a number: no tick that begins
// before from, none that ends after until. What was granted for a time, before a release took the
// rest back, goes up to peak.
type simTenure struct {
	node              int64
	holder            string
	from, until, peak time.Time
	after             simEnd
}

// simEnd is how the tenure before one ended.
type simEnd int

const (
	simNew      simEnd = iota // there was none
	simReleased               // it was given back
	simExpired                // its window had run out
)

// tenures are those of all numbers, in the order in which each was held. A breach is what the
// history of a number may not hold.
func (s *simStore) tenures() (tenures []simTenure, breaches []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, entries := range s.history {
		var last lease.Record
		for _, e := range entries {
			r := e.record
			released := r.Owner == "" && last.Owner != ""
			switch {
			case r.Version != last.Version+1 && !e.forced:
				breaches = append(breaches, fmt.Sprintf("node %d: version %d after %d", node, r.Version, last.Version))
			case r.Until.Before(last.Until) && !released:
				breaches = append(breaches, fmt.Sprintf("node %d: its end fell from %v to %v", node, last.Until, r.Until))
			}
			if r.Owner != "" && r.Owner != last.Owner {
				t := simTenure{node: node, holder: holder(r), from: last.Until, peak: r.Until}
				switch {
				case last.Version == 0:
				case last.Owner == "":
					t.after = simReleased
				default:
					t.after = simExpired
				}
				tenures = append(tenures, t)
			}
			if n := len(tenures) - 1; n >= 0 && tenures[n].node == node {
				t := &tenures[n]
				t.until = r.Until
				if r.Until.After(t.peak) {
					t.peak = r.Until
				}
			}
			last = r
		}
	}
	return tenures, breaches
}

// idle is the longest time for which a number could have been taken and was not, up to the end of
// the simulation. It is right for a store whose clock has no steps.
func (s *simStore) idle(end time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	for _, entries := range s.history {
		for i, e := range entries {
			next := end
			if i+1 < len(entries) {
				next = min(entries[i+1].at, end)
			}
			longest = max(longest, next-max(e.at, s.clock.when(e.record.Until)))
		}
	}
	return longest
}
