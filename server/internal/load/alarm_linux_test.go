package load_test

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm waits as exactly as the kernel can, which is some tens of microseconds. time.Sleep waits up to a
// millisecond too long, because the runtime of Go rounds up what it tells epoll(7). That time would count as
// the service's.
type alarm struct {
	descriptor int
	file       *os.File
}

func newAlarm() (*alarm, error) {
	descriptor, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	return &alarm{descriptor, os.NewFile(uintptr(descriptor), "timerfd")}, nil
}

// wait returns after d. It holds up a goroutine and no thread.
func (a *alarm) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if err := unix.TimerfdSettime(a.descriptor, 0, &value, nil); err != nil {
		return fmt.Errorf("timerfd_settime: %w", err)
	}
	var expirations [8]byte
	_, err := a.file.Read(expirations[:])
	return err
}

func (a *alarm) close() error { return a.file.Close() }
