package servers

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for an event that must happen, even on a busy machine, or for anything
// that shows that it still may.
const Patience = 60 * time.Second

// Absent ends a test whose server does not answer. It skips the test and names the variable that
// points to the server. If the server is required, it fails the test instead.
func Absent(tb testing.TB, server, variable string, err error) {
	tb.Helper()
	if required(tb, server) {
		tb.Fatalf("%s is in SNOWFLAKE_REQUIRE but does not answer; is %s right? %v", server, variable, err)
	}
	tb.Skipf("%s does not answer; set %s to a server that does: %v", server, variable, err)
}

// Program returns the path of a program that the test starts itself. If the program is missing, the test ends
// as by [NoProgram].
func Program(tb testing.TB, server, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		NoProgram(tb, server, err)
	}
	return path
}

// NoProgram ends a test that lacks a program which it would start itself. The test is skipped, because the
// server that answers may run in a container, or belong to another user. On a machine for continuous
// integration (CI=true), the program of a required server is required, too.
func NoProgram(tb testing.TB, server string, err error) {
	tb.Helper()
	if required(tb, server) && os.Getenv("CI") != "" {
		tb.Fatalf("%s is in SNOWFLAKE_REQUIRE, and this test starts servers of its own: %v", server, err)
	}
	tb.Skipf("this test starts servers of its own: %v", err)
}

// RequireVariable is the environment variable that lists the servers which must answer.
const RequireVariable = "SNOWFLAKE_REQUIRE"

// Required reports whether SNOWFLAKE_REQUIRE names a server. An unknown word in the list is an
// error, because a typing error would otherwise turn failures into skips.
func Required(server string) (bool, error) {
	known := []string{"sqlite", "postgres", "mariadb", "mysql", "tidb", "redis", "etcd", "zookeeper",
		"languages"}
	found := false
	for word := range strings.SplitSeq(os.Getenv(RequireVariable), ",") {
		word = strings.TrimSpace(word)
		if word != "" && !slices.Contains(known, word) {
			return false, fmt.Errorf("%s: %q is none of %s", RequireVariable, word, strings.Join(known, ", "))
		}
		found = found || word == server
	}
	return found, nil
}

func required(tb testing.TB, server string) bool {
	tb.Helper()
	is, err := Required(server)
	if err != nil {
		tb.Fatal(err)
	}
	return is
}

// Eventually waits until f returns nil. It fails the test if f has returned the same error for [Patience]: as
// long as the error changes, something is going on.
func Eventually(tb testing.TB, f func() error) {
	tb.Helper()
	before, since := "", time.Now()
	for {
		err := f()
		if err == nil {
			return
		}
		if err.Error() != before {
			before, since = err.Error(), time.Now()
		}
		if time.Since(since) > Patience {
			tb.Fatalf("for %v nothing has changed: %v", Patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
