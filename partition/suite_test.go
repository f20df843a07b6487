package partition_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

var (
	must    = suite.Must
	wantErr = suite.WantErr
	says    = suite.Says
	leased  = suite.Leased
)

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	suite.Same(t, what, got, want)
}
