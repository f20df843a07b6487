//go:build unix

package servers

import (
	"os"
	"syscall"
)

// Pause suspends the program.
func (d *Daemon) Pause() { d.signal(syscall.SIGSTOP) }

// Resume continues a suspended program.
func (d *Daemon) Resume() { d.signal(syscall.SIGCONT) }

func (d *Daemon) signal(s os.Signal) {
	d.tb.Helper()
	if err := d.command.Process.Signal(s); err != nil {
		d.tb.Fatalf("%s: %v", d.program, err)
	}
}
