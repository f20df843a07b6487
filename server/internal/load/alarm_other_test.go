//go:build !linux

package load_test

import "time"

// An alarm waits. Only Linux has an exact one.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) wait(d time.Duration) error {
	time.Sleep(d)
	return nil
}

func (*alarm) close() error { return nil }
