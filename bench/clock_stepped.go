//go:build stepped

package main

import "time"

// stepClock sets the wall clock of this process by so much. Its monotonic clock goes on as before, as it does
// when an administrator sets the time.
func stepClock(by time.Duration) error {
	time.StepWallClock(by) // of the overlay, like the other
	return nil
}

// passTime lets so much time pass at once, on both clocks.
func passTime(by time.Duration) error {
	time.PassTime(by)
	return nil
}
