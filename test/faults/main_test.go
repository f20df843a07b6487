//go:build unix

package faults_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// orderVariable holds the order of a process that a test has started.
const orderVariable = "SNOWFLAKE_FAULT_ORDER"

// An order is what such a process is told to be.
type order struct {
	Role   string // one of the roles below
	Name   string // no two processes of a test have the same
	Target dbtest.Target
	DSN    string

	Lo, Hi   int64         // the numbers that it may lease
	Fixed    bool          // it wants exactly Lo, by WithLeasedNode
	Counts   bool          // it takes numbers from a counter as well
	Narrow   bool          // its IDs are of generator.JavaScript()
	Span     time.Duration // of its lease
	Patience time.Duration // how long one create may take
	Pace     time.Duration // how long a lane rests between two creates
	Plugins  int           // how many a crowd has
}

const (
	roleWorker = "worker" // leases a number, trying until there is one, and creates rows
	roleOnce   = "once"   // the same, but ends with its first refusal
	roleCrowd  = "crowd"  // leases many numbers at the same moment
)

// TestMain makes the test binary a worker where a test has started it as one.
func TestMain(m *testing.M) {
	chaos.Work(openStore)
	chaos.Count(openCounters)
	if text := os.Getenv(orderVariable); text != "" {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			fmt.Fprintln(os.Stderr, "the order cannot be read:", err)
			os.Exit(2)
		}
		os.Exit(obey(o))
	}
	flag.Parse()
	// These tests wait for other processes most of the time, so more of them fit a machine than it
	// has processors, which is what go test goes by.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func obey(o order) int {
	if o.Role == roleCrowd {
		return crowd(o)
	}
	return work(o)
}
