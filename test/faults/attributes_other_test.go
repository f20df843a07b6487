//go:build unix && !linux

package faults_test

import (
	"bytes"
	"os/exec"
	"strconv"
	"syscall"
)

// attributes keep the signals of a terminal from a child.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// isStopped tells whether a process is stopped by a signal.
func isStopped(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(state), []byte("T"))
}
