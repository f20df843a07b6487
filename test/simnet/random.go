// Package simnet carries the requests of simulated processes to a simulated store, over a network on which
// requests and answers take time, get lost, and arrive late. The simulations of leases and of counters share
// it. They run in bubbles of testing/synctest, so a simulated hour takes as long as there is something to do.
package simnet

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Random is a stream of random choices, which its seed repeats. It is safe for concurrent use. Make one with
// [NewRandom].
type Random struct {
	mu sync.Mutex
	r  *rand.Rand
}

// NewRandom returns a stream of a seed.
func NewRandom(seed, stream uint64) *Random {
	const spread = 0x9e3779b97f4a7c15 // neighbors begin far apart
	return &Random{r: rand.New(rand.NewPCG((seed+1)*spread, (stream+1)*spread))}
}

// Below returns a number from 0 on that is less than n.
func (r *Random) Below(n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Int64N(n)
}

// Chance returns true with a probability.
func (r *Random) Chance(p float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.Float64() < p
}

// UpTo returns a time from 1 ns to d.
func (r *Random) UpTo(d time.Duration) time.Duration {
	return time.Duration(1 + r.Below(max(int64(d), 1)))
}

// Within returns a time from -d to d.
func (r *Random) Within(d time.Duration) time.Duration { return r.UpTo(2*d+1) - d - 1 }

// About returns a time that is mean on average, mostly shorter, and at most five times as long. Practically
// no two of them are equal.
func (r *Random) About(mean time.Duration) time.Duration {
	r.mu.Lock()
	times := r.r.ExpFloat64()
	r.mu.Unlock()
	return time.Duration(min(times, 5)*float64(mean)) + r.UpTo(time.Microsecond)
}
