package checker_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
)

func TestTheCheckerFindsNumbersThatWereGivenTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		journals           []checker.Journal
		count, twice, back int64
	}{
		"nothing": {},
		"blocks of two processes, one between those of the other": {
			journals: []checker.Journal{journal("a", run(1, 10), run(21, 10)), journal("b", run(11, 10))},
			count:    30,
		},
		"numbers that nobody used": {
			journals: []checker.Journal{journal("a", run(1, 10)), journal("b", run(1000, 1))},
			count:    11,
		},
		"the same block of two processes": {
			journals: []checker.Journal{journal("a", run(1, 10)), journal("b", run(1, 10))},
			count:    20, twice: 10,
		},
		"a number at the border of two blocks": {
			journals: []checker.Journal{journal("a", run(1, 10)), journal("b", run(10, 10))},
			count:    20, twice: 1,
		},
		"short runs within a long one": {
			journals: []checker.Journal{journal("a", run(1, 100)), journal("b", run(5, 2), run(90, 1))},
			count:    103, twice: 3,
		},
		"the same number of one process": {
			journals: []checker.Journal{journal("a", run(1, 10), run(10, 1))},
			count:    11, twice: 1, back: 1,
		},
		"numbers of one process that decrease": {
			journals: []checker.Journal{journal("a", run(11, 10), run(1, 10))},
			count:    20, back: 1,
		},
	} {
		n := checker.CheckNumbers(c.journals)
		if n.Count != c.count || n.Twice != c.twice || n.BackSteps != c.back {
			t.Errorf("%s: %+v; want %d numbers, %d twice, %d back", name, n, c.count, c.twice, c.back)
		}
		if (len(n.Faults) > 0) != (c.twice+c.back > 0) {
			t.Errorf("%s: the faults are %q", name, n.Faults)
		}
	}
}
