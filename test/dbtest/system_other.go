//go:build !unix

package dbtest

import "net"

// hasTooMany is not known on this system.
func hasTooMany(net.Conn) bool { return false }

// alive is not known on this system, so every process counts as one that runs.
func alive(int) bool { return true }
