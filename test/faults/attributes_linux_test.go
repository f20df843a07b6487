package faults_test

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// attributes make a child end with its parent, however that ends, and keep the signals of a
// terminal from it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// isStopped tells whether a process is stopped by a signal. The state stands behind the name of the
// program, which is in parentheses and may contain some itself.
func isStopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // the process has ended
	}
	state := text[bytes.LastIndexByte(text, ')')+1:]
	return bytes.HasPrefix(state, []byte(" T"))
}
