package checker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
)

// id puts an ID together without the library.
func id(tick, node, sequence int64) int64 { return tick<<22 | node<<12 | sequence }

func journal(name string, runs ...checker.Run) checker.Journal {
	return checker.Journal{Name: name, Runs: runs}
}

func run(first, count int64) checker.Run { return checker.Run{First: first, Count: count} }

func TestTheCheckerFindsWhatMustNotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		journals               []checker.Journal
		ticks, ids, back       int64
		takeovers, nodes, many int64
	}{
		"nothing": {},
		"two nodes in the same tick": {
			journals: []checker.Journal{journal("a", run(id(5, 1, 0), 9)), journal("b", run(id(5, 2, 0), 9))},
			nodes:    2, many: 18,
		},
		"a node that changes hands between two ticks": {
			journals: []checker.Journal{journal("a", run(id(5, 1, 7), 9)), journal("b", run(id(6, 1, 7), 9))},
			nodes:    1, many: 18, takeovers: 1,
		},
		"a node that changes hands within a tick, though no ID is made twice": {
			journals: []checker.Journal{journal("a", run(id(5, 1, 0), 9)), journal("b", run(id(5, 1, 9), 9))},
			nodes:    1, many: 18, ticks: 1,
		},
		"the same IDs of two processes": {
			journals: []checker.Journal{journal("a", run(id(5, 1, 0), 9)), journal("b", run(id(5, 1, 6), 9))},
			nodes:    1, many: 18, ticks: 1, ids: 3,
		},
		"a short run within a long one": {
			journals: []checker.Journal{
				journal("a", run(id(5, 1, 0), 90)), journal("b", run(id(5, 1, 7), 2)), journal("c", run(id(5, 1, 80), 1)),
			},
			nodes: 1, many: 93, ticks: 1, ids: 3,
		},
		"the same IDs of one process": {
			journals: []checker.Journal{journal("a", run(id(5, 1, 0), 9), run(id(5, 1, 8), 9))},
			nodes:    1, many: 18, ids: 1, back: 1,
		},
		"IDs of one process that decrease": {
			journals: []checker.Journal{journal("a", run(id(5, 1, 0), 1), run(id(4, 1, 0), 1))},
			nodes:    1, many: 2, back: 1,
		},
		"a run that goes on into the node of another": {
			journals: []checker.Journal{journal("a", run(id(5, 1, 4095), 2)), journal("b", run(id(5, 2, 4), 1))},
			nodes:    2, many: 3, ticks: 1,
		},
	} {
		v := checker.Check(c.journals)
		if v.TicksTwice != c.ticks || v.IDsTwice != c.ids || v.BackSteps != c.back {
			t.Errorf("%s: %+v", name, v)
		}
		if v.IDs != c.many || int64(v.Nodes) != c.nodes || int64(v.Takeovers) != c.takeovers {
			t.Errorf("%s: it is counted wrongly: %+v", name, v)
		}
		if found := c.ticks+c.ids+c.back > 0; v.OK() == found || (len(v.Faults) > 0) != found {
			t.Errorf("%s: OK %t with faults %q", name, v.OK(), v.Faults)
		}
	}
}

// The checker has the widths of the fields in numbers of its own.
func TestTheCheckerReadsTheDefaultLayout(t *testing.T) {
	t.Parallel()
	layout := generator.Default()
	made, err := layout.Compose(generator.Parts{Time: layout.Epoch.Add(77 * time.Millisecond), Node: 9, Sequence: 3})
	if err != nil || made != id(77, 9, 3) {
		t.Errorf("the default layout makes %d of tick 77, node 9, sequence 3, and the checker expects %d: %v",
			made, id(77, 9, 3), err)
	}
}

func TestAJournalIsReadUpToTheLastWholeLine(t *testing.T) {
	t.Parallel()
	j, err := checker.Read("a", strings.NewReader("1 100 20\n3 200 1\n5 30"))
	if err != nil || len(j.Runs) != 2 || j.Runs[1] != (checker.Run{At: 3, First: 200, Count: 1}) {
		t.Errorf("%+v, %v", j, err)
	}
	for _, text := range []string{"1 2\n", "1 2 3 4\n", "a 2 3\n", "1 -2 3\n", "1 2 0\n", "1 9223372036854775807 2\n"} {
		if _, err := checker.Read("a", strings.NewReader(text)); !errors.Is(err, checker.ErrJournal) {
			t.Errorf("%q is taken for a journal: %v", text, err)
		}
	}
}

func TestAGapIsTheLongestTimeWithoutIDs(t *testing.T) {
	t.Parallel()
	j := checker.Journal{Runs: []checker.Run{{At: 5}, {At: 30}, {At: 32}, {At: 90}, {At: 200}}}
	for _, c := range []struct{ from, to, want int64 }{
		{0, 40, 25},    // from 5 to 30
		{31, 95, 58},   // from 32 to 90
		{91, 150, 59},  // all of it
		{85, 300, 110}, // from 90 to 200
	} {
		if got := j.Gap(c.from, c.to); got != c.want {
			t.Errorf("Gap(%d, %d) = %d, want %d", c.from, c.to, got, c.want)
		}
	}
}
