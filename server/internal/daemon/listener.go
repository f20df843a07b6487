package daemon

import (
	"errors"
	"net"
	"os"
	"time"
)

const (
	// lastRound is how long a listener that ends waits for a connection that the kernel has made already, and
	// lastRounds how often, if there are always more. A listener that is closed resets those that are left.
	lastRound  = 5 * time.Millisecond
	lastRounds = 20
)

// listener ends without losing the connections that were made before.
type listener struct {
	*net.TCPListener

	ending chan struct{} // closed by end
	came   bool          // a connection, since the last round began
	rounds int
}

func newListener(tcp *net.TCPListener) *listener {
	return &listener{TCPListener: tcp, ending: make(chan struct{}), came: true}
}

// end makes Accept return what is there already, and then net.ErrClosed. It is called once.
func (l *listener) end() {
	close(l.ending)
	_ = l.SetDeadline(time.Now().Add(lastRound)) // if that fails, the listener is closed
}

// Accept implements net.Listener. One goroutine calls it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.TCPListener.Accept()
		if err == nil {
			l.came = true
			return conn, nil
		}
		select {
		case <-l.ending:
		default:
			return nil, err
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && l.came && l.rounds < lastRounds {
			// While the deadline is over nothing is accepted, even if it is there.
			l.came = false
			l.rounds++
			if l.SetDeadline(time.Now().Add(lastRound)) == nil {
				continue
			}
		}
		_ = l.Close()
		return nil, net.ErrClosed
	}
}
