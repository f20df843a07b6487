//go:build !linux

package servers

import "testing"

// Reserve returns a port of 127.0.0.1 that was free a moment ago. Only Linux can keep it for the test.
func Reserve(tb testing.TB) string {
	tb.Helper()
	return Port(tb)
}
