package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func drawn(seed uint64, server bool) []fault {
	return plan(rand.New(rand.NewPCG(seed, 0)), 8, 3*time.Minute, 2*time.Second, server)
}

func TestASeedDrawsTheSamePlanAgain(t *testing.T) {
	t.Parallel()
	if !slices.Equal(drawn(7, true), drawn(7, true)) {
		t.Error("seed 7 drew two plans")
	}
	if slices.Equal(drawn(7, true), drawn(8, true)) {
		t.Error("seeds 7 and 8 drew one plan")
	}
}

func TestAPlanHasEveryFaultAndNoTwoOfOneWorkerAtATime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		for _, server := range []bool{false, true} {
			var counts [kinds]int
			ends := map[int]time.Duration{}
			longest, farthest := time.Duration(0), time.Duration(0)
			for _, f := range drawn(seed, server) {
				counts[f.kind]++
				if f.from < ends[f.worker] || f.until < f.from || f.until > 3*time.Minute {
					t.Errorf("seed %d: %+v overlaps, or lies outside the time", seed, f)
				}
				ends[f.worker] = f.until
				if f.kind == step && onSystemClock(f.worker) {
					t.Errorf("seed %d: the clock of worker %d, which is that of the system, is wrong", seed, f.worker)
				}
				if f.kind == pause {
					longest = max(longest, f.until-f.from)
				}
				farthest = max(farthest, f.offset.Abs())
			}
			for k, n := range counts {
				if forServer := kind(k) >= cut; (n < 10) != (forServer && !server) {
					t.Errorf("seed %d: %d %v (server: %t)", seed, n, kind(k), server)
				}
			}
			if longest < 4*time.Second || longest > 6*time.Second || farthest < 5*time.Second || farthest > 8*time.Second {
				t.Errorf("seed %d: pauses of up to %v, clocks off by up to %v", seed, longest, farthest)
			}
		}
	}
}
