// Package model_test proves the protocol of the leases, of the notes and of the counters on a small model of its
// own, which shares no code with the product. A search visits every state that a few processes and two databases
// can come to, whatever the order of their requests, and whichever faults happen in between. It finds the
// shortest way to a state in which a clause does not hold. Each mechanism of the protocol can be taken away, and
// then a clause falls: so the mechanism is needed, and the search would notice that it is missing.
//
// The words are those of the specification in lease/doc.go. A step is one request to a database, an act of an
// operator, or the passing of time. There is no clock but the tick that it is.
package model_test

import (
	"fmt"
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

// A step leads from a state to another one.
type step[S comparable] struct {
	next   S
	who    string
	does   string
	about  string // which node, tick or number
	kind   kind
	breaks string // the clause that does not hold in this step; empty if all hold
}

func (s step[S]) String() string { return strings.TrimSpace(s.who + " " + s.does + " " + s.about) }

// A world is a model: a first state, and the steps that lead away from a state.
type world[S comparable] interface {
	start() S
	steps(s S) []step[S]
	// patience is the step when nobody can do anything at once: the passing of time, or an act of the operator
	// that the documents ask for. It returns false if all is well as it is.
	patience(s S) (step[S], bool)
	// verdict names the clause that does not hold if s is where the run without faults ends.
	verdict(s S) string
}

// A finding is how a search has ended.
type finding struct {
	states int
	breaks string   // the clause that was found broken; empty if none was
	trace  []string // the steps to there
}

// search visits all states of a world, breadth first. If live, it follows each of them to its end, too.
func search[S comparable](t *testing.T, w world[S], live bool) finding {
	t.Helper()
	const most = 20_000_000
	type visit struct {
		from int32
		step step[struct{}]
	}
	type entry struct {
		state S
		index int32
	}
	seed := maphash.MakeSeed()
	seen, ends := map[uint64]struct{}{}, map[uint64]int{}
	var visits []visit
	var layer, below []entry
	found := func(index int32, broken string, more ...string) finding {
		for ; index >= 0; index = visits[index].from {
			more = append([]string{visits[index].step.String()}, more...)
		}
		return finding{len(visits), broken, more}
	}
	arrive := func(s S, v visit) {
		hash := maphash.Comparable(seed, s)
		if _, known := seen[hash]; !known {
			seen[hash] = struct{}{}
			visits = append(visits, v)
			below = append(below, entry{s, int32(len(visits) - 1)})
		}
	}
	arrive(w.start(), visit{from: -1})
	for len(below) > 0 && len(visits) < most {
		layer, below = below, layer[:0]
		for _, e := range layer {
			for _, s := range w.steps(e.state) {
				v := visit{e.index, step[struct{}]{who: s.who, does: s.does, about: s.about}}
				if s.breaks != "" {
					return found(e.index, s.breaks, s.String())
				}
				arrive(s.next, v)
			}
			if !live {
				continue
			}
			if broken, how := follow(w, e.state, seed, ends, int(e.index)); broken != "" {
				return found(e.index, broken, append([]string{"-- and without a fault from here on:"}, how...)...)
			}
		}
	}
	if len(visits) >= most {
		t.Fatalf("more than %d states", most)
	}
	return finding{states: len(visits)}
}

// follow follows a state as long as nothing goes wrong, and returns the clause that does not hold where this
// ends. ends has the states that were followed before, and from which state that was.
func follow[S comparable](
	w world[S], s S, seed maphash.Seed, ends map[uint64]int, from int,
) (broken string, how []string) {
	for {
		hash := maphash.Comparable(seed, s)
		if before, known := ends[hash]; known && before == from {
			return resting, how
		} else if known {
			return "", nil
		}
		ends[hash] = from
		steps := w.steps(s)
		next, is := step[S]{}, true
		if i := slices.IndexFunc(steps, func(s step[S]) bool { return s.kind == progress }); i >= 0 {
			next = steps[i]
		} else if next, is = w.patience(s); !is {
			return w.verdict(s), how
		}
		how = append(how, next.String())
		s = next.next
	}
}

// prove fails unless all clauses of a world hold, or the one that is expected to be broken is broken.
func prove[S comparable](t *testing.T, w world[S], want string) {
	t.Helper()
	f := search(t, w, want == "" || slices.Contains(ends(), want))
	trace := fmt.Sprintf("%d states, %q is broken by these steps:\n\t%s", f.states, f.breaks,
		strings.Join(f.trace, "\n\t"))
	switch {
	case f.breaks == want && want == "":
		t.Logf("%d states, and all clauses hold", f.states)
	case f.breaks == want:
		t.Log(trace)
	case want == "":
		t.Error(trace)
	case f.breaks == "":
		t.Errorf("%d states, and all clauses hold, but %q should be broken", f.states, want)
	default:
		t.Errorf("%q should be broken, but of %s", want, trace)
	}
}
