package chaos

import "syscall"

// attributes make a child end with its parent, however that ends, and keep the signals of a
// terminal from it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
