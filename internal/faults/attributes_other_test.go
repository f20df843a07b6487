//go:build unix && !linux

package faults_test

import "syscall"

// attributes keep the signals of a terminal from a child.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
