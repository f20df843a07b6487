package dbtest_test

import (
	"os"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// TestMain lets tests take over databases from each other in the process that is about that.
func TestMain(m *testing.M) {
	if os.Getenv(spareVariable) != "" {
		os.Exit(dbtest.Main(m))
	}
	os.Exit(m.Run())
}
