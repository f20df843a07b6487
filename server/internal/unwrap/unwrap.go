// Package unwrap finds a connection inside of others. A connection of TLS has that of TCP inside, and the
// service puts its own around both.
//
//	counted := unwrap.To[*netlimit.Conn](conn)
package unwrap

import "net"

// To returns the connection of type T that conn is or has inside, or nil if there is none. It goes inward by
// the method NetConn, as [crypto/tls.Conn] has it.
func To[T net.Conn](conn net.Conn) (found T) {
	for conn != nil {
		if c, ok := conn.(T); ok {
			return c
		}
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	return found
}
