package checker

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// sequenceBits and nodeBits are those of the default layout.
	sequenceBits = 12
	nodeBits     = 10

	// maxFaults is how many faults of a kind are described.
	maxFaults = 10
)

// A Verdict is what the journals say together.
type Verdict struct {
	IDs       int64 // how many were made
	Ticks     int64 // how many ticks of a node were used
	Nodes     int   // how many nodes were used
	Takeovers int   // how often a node went from one process to another

	TicksTwice int64 // ticks of a node that two processes have used
	IDsTwice   int64 // IDs that were made more than once
	BackSteps  int64 // runs that do not lie after the run before, in one process

	Faults []string // descriptions of the first of them
}

// OK tells whether nothing was found.
func (v Verdict) OK() bool { return v.TicksTwice == 0 && v.IDsTwice == 0 && v.BackSteps == 0 }

func (v *Verdict) fault(count *int64, by int64, format string, args ...any) {
	if *count < maxFaults {
		v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
	}
	*count += by
}

// A piece is the part of a run that lies in one tick of a node.
type piece struct {
	first, end int64 // the first ID, and the one behind the last
	journal    int
}

func (p piece) tick() int64 { return p.first >> sequenceBits }

func (p piece) node() int64 { return p.tick() & (1<<nodeBits - 1) }

// Check compares the journals of all processes, each of which has made one journal.
func Check(journals []Journal) Verdict {
	var v Verdict
	pieces := v.cut(journals)
	slices.SortFunc(pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.journal, b.journal))
	})
	last := make(map[int64]int) // the journal that used each node last
	for i := 0; i < len(pieces); {
		n := i + 1
		for n < len(pieces) && pieces[n].tick() == pieces[i].tick() {
			n++
		}
		v.checkTick(journals, pieces[i:n])
		node := pieces[i].node()
		if before, used := last[node]; used && before != pieces[i].journal {
			v.Takeovers++
		}
		last[node] = pieces[n-1].journal
		i = n
	}
	v.Nodes = len(last)
	return v
}

// cut divides the runs at the borders of ticks, and checks that the IDs of each process increase.
func (v *Verdict) cut(journals []Journal) []piece {
	var pieces []piece
	for number, j := range journals {
		end := int64(0) // of the run before
		for _, r := range j.Runs {
			if r.First < end {
				v.fault(&v.BackSteps, 1, "%s has made ID %d after %d", j.Name, r.First, end-1)
			}
			first := r.First
			end = first + r.Count
			v.IDs += r.Count
			for first < end {
				border := (first>>sequenceBits + 1) << sequenceBits
				pieces = append(pieces, piece{first, min(end, border), number})
				first = min(end, border)
			}
		}
	}
	return pieces
}

// checkTick checks the pieces of one tick of one node, which are sorted.
func (v *Verdict) checkTick(journals []Journal, pieces []piece) {
	v.Ticks++
	first := pieces[0]
	for _, p := range pieces[1:] {
		if p.journal != first.journal {
			v.fault(&v.TicksTwice, 1, "tick %d of node %d was used by %s and by %s", p.tick()>>nodeBits, p.node(),
				journals[first.journal].Name, journals[p.journal].Name)
			break
		}
	}
	end, owner := first.end, first.journal
	for _, p := range pieces[1:] {
		if p.first < end {
			v.fault(&v.IDsTwice, min(p.end, end)-p.first, "ID %d was made by %s and by %s", p.first,
				journals[owner].Name, journals[p.journal].Name)
		}
		if p.end > end {
			end, owner = p.end, p.journal
		}
	}
}

// Gap returns the longest time without IDs between two moments, all in microseconds. A time without
// any run is as long as all of it.
func (j Journal) Gap(from, to int64) int64 {
	longest, last := int64(0), from
	for _, r := range j.Runs {
		if r.At > from && r.At <= to {
			longest = max(longest, r.At-last)
			last = max(last, r.At)
		}
	}
	return max(longest, to-last)
}
