// Package routing_test tests what the router promises: rows go to the shard of their ID, a
// statement sees all rows or is refused, and a handle of the router works like an ordinary handle.
package routing_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type behavior = suite.Behavior

var (
	run     = suite.Run
	must    = suite.Must
	wantErr = suite.WantErr
	says    = suite.Says
	leased  = suite.Leased
)

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	suite.Same(t, what, got, want)
}
