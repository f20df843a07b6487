package lease_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// simWaits are the longest times that a simulation had to wait for something.
type simWaits struct {
	id   time.Duration // a process for an ID, while it did not stand still
	idle time.Duration // a number for somebody to take it
}

// judge looks at all that was issued when everything is over.
func (w *simWorld) judge() simResult {
	result := simResult{seed: w.seed, tally: w.tally, hash: w.hash, trace: w.trace}
	tenures, breaches := w.store.tenures()
	w.breaches = append(w.breaches, breaches...)
	w.checkWindows(tenures)
	result.duplicates = w.duplicates()
	result.breaches = w.breaches

	w.tally["seeds"] = 1
	w.tally["processes"] = len(w.processes)
	w.tally["holders"] = len(tenures)
	w.tally["duplicates"] = result.duplicates
	for _, t := range tenures {
		switch t.after {
		case simExpired:
			w.tally["holders of a number that was not given back"]++
		case simReleased:
			w.tally["holders of a number that was given back"]++
		case simNew:
		}
	}
	for _, p := range w.processes {
		result.waits.id = max(result.waits.id, p.longest)
		w.tally["generators"] += min(len(p.runs), 1)
	}
	result.waits.idle = w.store.idle(w.length)
	return result
}

// duplicates counts the IDs that were issued twice.
func (w *simWorld) duplicates() int {
	var runs []simRun
	for _, p := range w.processes {
		runs = append(runs, p.runs...)
	}
	slices.SortFunc(runs, func(a, b simRun) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last))
	})
	found := 0
	for i, run := range runs {
		w.tally["ids"] += int(run.last - run.first + 1)
		if i == 0 {
			continue
		}
		// What overlaps run overlaps the one that reaches furthest.
		if before := runs[i-1]; before.last >= run.first {
			found += int(min(before.last, run.last) - run.first + 1)
			if before.last > run.last {
				runs[i] = before
			}
			w.note("judge", fmt.Sprintf("%s and %s both made %d", before.p.name, run.p.name, run.first))
		}
	}
	return found
}

// checkWindows holds all IDs, and all windows that keepers had, against what the store's history
// grants to their holders. The grants of one number have no time in common by their making: each
// begins where the one before ends.
func (w *simWorld) checkWindows(tenures []simTenure) {
	type key struct {
		holder string
		node   int64
	}
	granted := map[key][]simTenure{}
	for _, t := range tenures {
		k := key{t.holder, t.node}
		granted[k] = append(granted[k], t)
	}
	for _, p := range w.processes {
		for _, window := range p.windows {
			if !slices.ContainsFunc(granted[key{p.name, window.Node}], func(t simTenure) bool {
				return !window.From.Before(t.from) && !window.Until.After(t.peak)
			}) {
				w.breaches = append(w.breaches, fmt.Sprintf("%s had a window of node %d that nobody granted: %v to %v",
					p.name, window.Node, window.From, window.Until))
			}
		}
		for _, run := range p.runs {
			parts, err := w.layout.Decompose(run.first)
			if err != nil {
				w.breaches = append(w.breaches, err.Error())
				continue
			}
			end := parts.Time.Add(w.layout.Tick)
			if !slices.ContainsFunc(granted[key{p.name, parts.Node}], func(t simTenure) bool {
				return !parts.Time.Before(t.from) && !end.After(t.until)
			}) {
				w.breaches = append(w.breaches, fmt.Sprintf("%s made %d of node %d, and the tick of %v was not granted to it",
					p.name, run.first, parts.Node, parts.Time))
			}
		}
	}
}
