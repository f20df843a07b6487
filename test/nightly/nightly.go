// Package nightly tells tests which of the two tiers runs.
//
// Tier one is what go test runs by itself and what "make test" runs: every contract, on SQLite and on one
// database server that is chosen by the name of the test, with few seeds and one fault of each kind. The
// nightly tier is "make nightly", which sets SNOWFLAKE_NIGHTLY=1: every test on every database server, many
// seeds, many faults, and what takes long. A test that only the nightly tier runs says why.
package nightly

import (
	"os"
	"testing"
)

// Variable is the environment variable that selects the nightly tier if it is not empty.
const Variable = "SNOWFLAKE_NIGHTLY"

// Enabled reports whether the nightly tier runs.
func Enabled() bool { return os.Getenv(Variable) != "" }

// Only skips a test that only the nightly tier runs. The reason says what makes it too dear for tier one, and
// which test of tier one has the same subject.
func Only(tb testing.TB, reason string) {
	tb.Helper()
	if !Enabled() {
		tb.Skipf("nightly: %s; \"make nightly\" runs this test, or %s=1", reason, Variable)
	}
}

// Pick returns the first value in tier one and the second at night, such as a number of rounds or seeds.
func Pick[V any](tierOne, atNight V) V {
	if Enabled() {
		return atNight
	}
	return tierOne
}
