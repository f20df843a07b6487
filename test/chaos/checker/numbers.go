package checker

import (
	"cmp"
	"slices"
)

// Numbers is what the journals of processes that took numbers from one counter say together.
type Numbers struct {
	Count     int64 // how many numbers were given out
	Twice     int64 // numbers that were given out more than once
	BackSteps int64 // runs that do not lie after the run before, in one process

	Faults []string // descriptions of the first of them
}

// OK tells whether nothing was found.
func (n Numbers) OK() bool { return n.Twice == 0 && n.BackSteps == 0 }

// CheckNumbers compares the journals of all processes, each of which has made one journal.
func CheckNumbers(journals []Journal) Numbers {
	type owned struct {
		Run
		name string
	}
	var (
		v   Verdict // for its list of faults
		n   Numbers
		all []owned
	)
	for _, j := range journals {
		end := int64(0) // of the run before
		for _, r := range j.Runs {
			if r.First < end {
				v.fault(&n.BackSteps, 1, "%s has given out %d after %d", j.Name, r.First, end-1)
			}
			end = r.First + r.Count
			n.Count += r.Count
			all = append(all, owned{r, j.Name})
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.First, b.First) })
	end, owner := int64(0), ""
	for _, r := range all {
		if r.First < end {
			v.fault(&n.Twice, min(r.First+r.Count, end)-r.First, "number %d was given out by %s and by %s",
				r.First, owner, r.name)
		}
		if r.First+r.Count > end {
			end, owner = r.First+r.Count, r.name
		}
	}
	n.Faults = v.Faults
	return n
}
