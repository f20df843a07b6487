package sqllease_test

import (
	"os"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// TestMain lets the tests take over databases of PostgreSQL from each other.
func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
