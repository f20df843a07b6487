package merge_test

import (
	"hash/fnv"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// kindPair is a kind of database from which rows come, and one into which they go.
type kindPair struct{ from, to dbtest.Target }

// kindPairs returns the pairs of kinds of databases on which a test runs in this tier. At night these are all.
// In tier one they are SQLite into SQLite and one more, which the name of the test chooses: the tests of this
// package together meet every kind as a source and as a target.
func kindPairs(name string) (pairs []kindPair) {
	all := dbtest.Servers()
	if !nightly.Enabled() {
		from, to := dbtest.Chosen(name+" from", all[1:]), dbtest.Chosen(name+" into", all[1:])
		return []kindPair{{all[0], all[0]}, {from[0], to[0]}}
	}
	for _, from := range all {
		for _, to := range all {
			pairs = append(pairs, kindPair{from, to})
		}
	}
	return pairs
}

// someDatabases runs a case of a table of cases on SQLite and, in tier one, only every fourth one on a server as
// well.
func someDatabases(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	if !nightly.Enabled() && turn(t.Name(), 4) != 0 {
		dbtest.Run(t, dbtest.ServersOf("sqlite"), fn)
		return
	}
	databases(t, fn)
}

// oneOf returns one of several in tier one, which the name chooses, and all of them at night.
func oneOf[V any](name string, all []V) []V {
	if nightly.Enabled() {
		return all
	}
	at := turn(name, len(all))
	return all[at : at+1]
}

// turn returns a number below n that a name chooses.
func turn(name string, n int) int {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return int(hash.Sum32() % uint32(n)) //nolint:gosec // a handful
}

// skipped reports whether tier one leaves out a case of a large table, of which SQLite meets every one: it takes
// every sixteenth one on a server or between kinds of databases, and the night takes all.
func skipped(name string) bool { return !nightly.Enabled() && turn(name, 16) != 0 }
