// Package model_test proves the protocol of the leases, of the notes and of the counters on a small model,
// which shares no code with the product. A search visits every state that a few processes and two databases
// can come to, whatever the order of their requests, and whichever faults come in between. It finds the
// shortest way to a step that breaks a clause. Each mechanism of the protocol can be taken away from the
// model, and then a clause falls: so the mechanism is needed, and the search notices if it is missing.
//
// The words are those of lease/doc.go. A step is one request to a database, an act of an operator, or the
// passing of time. There is no clock but the tick that it is.
package model_test

import (
	"hash/maphash"
	"slices"
	"strings"
	"testing"
)

// A kind says when a step happens in the run without faults, which follows a state to see how it ends.
type kind int8

const (
	chance   kind = iota // never: it is a fault, or nobody waits for it
	progress             // at once
)

// A step leads to another state.
type step[S comparable] struct {
	next             S
	who, does, about string
	kind             kind
	breaks           string // the clause that does not hold in this step; empty if all hold
}

func (s step[S]) String() string { return strings.TrimSpace(s.who + " " + s.does + " " + s.about) }

// A world is a model: a first state, and the steps that lead away from a state.
type world[S comparable] interface {
	start() S
	steps(s S) []step[S]
	// patience is the step when nobody can do anything at once: time passes, or an operator does what the
	// documents ask for. It returns false if all is well as it is.
	patience(s S) (step[S], bool)
	// verdict names the clause that does not hold if a run without faults ends in s.
	verdict(s S) string
}

// resting is the clause of every world about its runs without faults.
const resting = "Without faults, everybody comes to rest."

// A finding is how a search has ended.
type finding struct {
	states int
	breaks string   // the clause that is broken; empty if all hold
	trace  []string // the steps to there
}

// search visits all states of a world, breadth first. If live, it follows each of them to its end, too.
func search[S comparable](t *testing.T, w world[S], live bool) finding {
	t.Helper()
	type visit struct {
		from             int32
		who, does, about string
	}
	type entry struct {
		state S
		index int32
	}
	const most = 30_000_000
	seed := maphash.MakeSeed()
	seen, followed := map[uint64]struct{}{}, map[uint64]int32{}
	visits := []visit{}
	layer, below := []entry{}, []entry{}
	arrive := func(s S, v visit) {
		hash := maphash.Comparable(seed, s)
		if _, known := seen[hash]; !known {
			seen[hash] = struct{}{}
			visits = append(visits, v)
			below = append(below, entry{s, int32(len(visits) - 1)})
		}
	}
	found := func(index int32, broken string, last []string) finding {
		var trace []string
		for ; index > 0; index = visits[index].from {
			v := visits[index]
			trace = append(trace, step[S]{who: v.who, does: v.does, about: v.about}.String())
		}
		slices.Reverse(trace)
		return finding{len(visits), broken, append(trace, last...)}
	}
	arrive(w.start(), visit{})
	for len(below) > 0 {
		layer, below = below, layer[:0]
		for _, e := range layer {
			for _, s := range w.steps(e.state) {
				if s.breaks != "" {
					return found(e.index, s.breaks, []string{s.String()})
				}
				arrive(s.next, visit{e.index, s.who, s.does, s.about})
			}
			if !live {
				continue
			}
			hash := func(s S) uint64 { return maphash.Comparable(seed, s) }
			if broken, how := follow(w, e.state, hash, followed, e.index); broken != "" {
				return found(e.index, broken, append([]string{"... and without faults from here on:"}, how...))
			}
		}
		if len(visits) > most {
			t.Fatalf("more than %d states", most)
		}
	}
	return finding{states: len(visits)}
}

// follow follows a state as long as nothing goes wrong, and returns the clause that does not hold where this
// ends. It stops at a state that was followed before from another one.
func follow[S comparable](
	w world[S], s S, hash func(S) uint64, followed map[uint64]int32, from int32,
) (broken string, how []string) {
	for {
		if before, known := followed[hash(s)]; known && before == from {
			return resting, how
		} else if known {
			return "", nil
		}
		followed[hash(s)] = from
		steps := w.steps(s)
		var next step[S]
		if i := slices.IndexFunc(steps, func(s step[S]) bool { return s.kind == progress }); i >= 0 {
			next = steps[i]
		} else if patient, is := w.patience(s); is {
			next = patient
		} else {
			return w.verdict(s), how
		}
		how = append(how, next.String())
		s = next.next
	}
}

// prove fails unless all clauses of a world hold, or the one that is expected to be broken is broken.
func prove[S comparable](t *testing.T, w world[S], want string) {
	t.Helper()
	f := search(t, w, slices.Contains([]string{"", resting, numbered, leaves}, want))
	trace := "\n\t" + strings.Join(f.trace, "\n\t")
	switch {
	case f.breaks == want && want == "":
		t.Logf("%d states, and all clauses hold", f.states)
	case f.breaks == want:
		t.Logf("after %d states these steps break %q:%s", f.states, f.breaks, trace)
	case f.breaks == "":
		t.Errorf("%d states, and all clauses hold, but %q should be broken", f.states, want)
	default:
		t.Errorf("after %d states these steps break %q, and not %q:%s", f.states, f.breaks, want, trace)
	}
}
