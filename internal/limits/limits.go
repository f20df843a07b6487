// Package limits has the bounds on which the generator, the leases and those who read their records agree.
package limits

import "time"

const (
	// Ahead is the longest time that a generator may stamp ahead of its clock.
	Ahead = 24 * time.Hour
	// Span is the longest window that a keeper asks for, apart from the lead of its generator.
	Span = 24 * time.Hour
	// Skew is how far apart the clocks of a process and of its store may be.
	Skew = 5 * time.Second
	// Far is the longest time by which the window of a keeper ends after the time of its store. A record that
	// ends later was altered, or a clock was wrong.
	Far = Span + Ahead + Skew
)
