// Package resharding_test tests what the router promises during a resharding: rows are found in
// spite of concurrent writes, killed processes and repeated steps.
package resharding_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/integration/suite"
)

var (
	must    = suite.Must
	wantErr = suite.WantErr
	says    = suite.Says
	silent  = suite.Silent
	leased  = suite.Leased
)

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	suite.Same(t, what, got, want)
}
