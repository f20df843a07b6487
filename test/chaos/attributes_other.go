//go:build unix && !linux

package chaos

import "syscall"

// attributes keep the signals of a terminal from a child, which ends when its standard input does.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
