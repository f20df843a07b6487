// Package resharding_test tests what the router promises during a resharding: rows are found in
// spite of concurrent writes, killed processes and repeated steps.
package resharding_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

var (
	must   = suite.Must
	leased = suite.Leased
)

// each runs fn on the databases of dbtest.EachShared. All tests of this package get their databases from here,
// because tests of resharding make triggers.
func each(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		t.Helper()
		fn(t, mayMakeTriggers(target))
	})
}

// mayMakeTriggers returns a target that logs in as a user who may create triggers.
func mayMakeTriggers(target dbtest.Target) dbtest.Target { return target.Privileged() }

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	suite.Same(t, what, got, want)
}
