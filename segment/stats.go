package segment

import (
	"math"
	"time"
)

// Stats is what a [Source] has done so far, and how it stands with its store. For sources of several
// counters the numbers are sums, and the times and errors are those of the worst.
type Stats struct {
	// Name is the name of the counter.
	Name string
	// Issued is how many numbers were given out.
	Issued int64
	// Left is how many numbers can be given out without the store.
	Left int64
	// Lasts is how long these last at the rate of the last block. It is 0 if the rate is not known yet.
	Lasts time.Duration
	// Block is the size of the next block.
	Block int64
	// Claims and Failures count the trips to the store that returned a block, and those that did not.
	Claims, Failures int64
	// LastClaim is when the last claim began, by the source's clock. It is zero before the first one.
	LastClaim time.Time
	// FailingSince is when the first of the claims began that have failed since the last block came. It is
	// zero if the last claim returned a block.
	FailingSince time.Time
	// LastError is what the last claim failed with. It is nil if it returned a block.
	LastError error
	// Closed tells that the source was closed.
	Closed bool
	// Sources has one element for each counter of a source that has several.
	Sources []Stats
}

// lasts is how long so many numbers last at a rate in numbers a second.
func lasts(left int64, rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(min(float64(left)/rate*float64(time.Second), math.MaxInt64/2))
}

// sum returns the stats of several counters together.
func sum(name string, parts []Stats, closed bool) Stats {
	s := Stats{Name: name, Closed: closed, Sources: parts}
	for _, p := range parts {
		s.Issued += p.Issued
		s.Left += p.Left
		s.Lasts += p.Lasts
		s.Block = max(s.Block, p.Block)
		s.Claims += p.Claims
		s.Failures += p.Failures
		if p.LastClaim.After(s.LastClaim) {
			s.LastClaim = p.LastClaim
		}
		if p.LastError != nil && (s.LastError == nil || p.FailingSince.Before(s.FailingSince)) {
			s.LastError, s.FailingSince = p.LastError, p.FailingSince
		}
	}
	return s
}
