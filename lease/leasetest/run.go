package leasetest

import (
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Run tests a store, a sub-test for each clause of the contract, and returns when all are done.
//
// Each clause calls storage once, which returns a function that opens a handle on a storage that is
// empty and that no other clause sees. Handles of one storage stand for processes: what one has
// stored the others find. Both functions are called on the goroutine of the clause's test, so they
// may use its t to fail, to skip and to clean up; clauses run in parallel, so storage must be safe
// for concurrent use.
func Run(t *testing.T, storage func(t *testing.T) (open func() lease.Store)) {
	t.Helper()
	for _, group := range groups() {
		// Clauses in parallel end before their group does, so before what the caller has deferred.
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.clauses {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.hold(t, storage(t), patience)
				})
			}
		})
	}
}

// patience is how long a clause may take. No clause needs it: it is there to tell a store that
// hangs from a slow one.
const patience = 2 * time.Minute

// A group is a number of clauses with the same subject.
type group struct {
	name    string
	clauses []clause
}

// groups is the contract, what is simple first.
func groups() []group {
	return []group{
		{"Store", []clause{
			emptyStore(),
			created(),
			nodes(),
			owners(),
			layouts(),
			instants(),
			creationRefused(),
			replaced(),
			ownerCompared(),
			ownerComparedExactly(),
			versionCompared(),
			absent(),
			onlyOwnerAndVersion(),
			refusalChangesNothing(),
			invalid(),
			neighbors(),
			releasedAndTaken(),
			earlierEnd(),
			late(),
			manyRecords(),
			seenAtOnce(),
			ownCopies(),
			racingSwaps(),
			racingCreations(),
			noLostUpdate(),
			separateCreations(),
			allAtOnce(),
			endedContext(),
			interrupted(),
			clock(),
			within(),
			outside(),
			withinCompares(),
			spanHint(),
		}},
		{"Keeper", []clause{
			distinctNodes(),
			noFreeNode(),
			notBeforeTheEnd(),
			givenBack(),
			renewed(),
			cutOff(),
			lost(),
			lateRelease(),
			otherLayout(),
			nodeHeld(),
		}},
	}
}
