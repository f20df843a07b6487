package lease_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The simulation runs keepers and generators, the real ones, over simulated machines, clocks,
// networks and stores, and looks for an ID that was made twice. It is the test of the argument in
// the package documentation, whose steps say what it may not find.
//
//	go test ./lease -run Simulation                                  some seeds
//	SNOWFLAKE_SIMULATE=1500 go test ./lease -run Simulation -v       many, and what they were
//	SNOWFLAKE_SEED=17 go test ./lease -run NoDuplicate -v            one, told step by step

// simSeeds is how many seeds to run: a few, unless the environment asks for many.
func simSeeds(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("SNOWFLAKE_SIMULATE")
	switch {
	case text != "":
	case simUnderRace:
		return (few + 3) / 4
	default:
		return few
	}
	seeds, err := strconv.Atoi(text)
	if err != nil || seeds < 1 {
		t.Fatalf("SNOWFLAKE_SIMULATE=%q is no number of seeds", text)
	}
	return seeds
}

// simEach runs seeds on all processors.
func simEach(t *testing.T, seeds int, run func(t *testing.T, seed int)) {
	t.Helper()
	shards := runtime.GOMAXPROCS(0)
	t.Run("seeds", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for seed := shard; seed < seeds; seed += shards {
					run(t, seed)
				}
			})
		}
	})
}

// fail reports what went wrong in a seed.
func (r simResult) fail(t *testing.T) {
	t.Helper()
	if r.duplicates > 0 || len(r.breaches) > 0 {
		const most = 5
		t.Errorf("seed %d: %d duplicates, and %d breaches of the protocol:\n%s\nSNOWFLAKE_SEED=%d tells it step by step",
			r.seed, r.duplicates, len(r.breaches), strings.Join(r.breaches[:min(most, len(r.breaches))], "\n"), r.seed)
	}
}

func TestSimulationMakesNoDuplicate(t *testing.T) {
	t.Parallel()
	if text := os.Getenv("SNOWFLAKE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SNOWFLAKE_SEED: %v", err)
		}
		result := simulate(t, newSimScenario(seed), noMutant, true)
		t.Logf("seed %d:\n%s\n%s", seed, strings.Join(result.trace, "\n"), tallyText(result.tally))
		result.fail(t)
		return
	}
	var mu sync.Mutex
	var results []simResult
	began := time.Now()
	simEach(t, simSeeds(t, 16), func(t *testing.T, seed int) {
		t.Helper()
		result := simulate(t, newSimScenario(uint64(seed)), noMutant, false)
		result.fail(t)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, result)
	})
	sum := simSum(results)
	t.Logf("in %v:\n%s", time.Since(began).Round(time.Second), tallyText(sum))
	for _, what := range []string{"ids", "crashes", "pauses", "pauses inside of a call", "swaps that arrived late"} {
		if sum[what] < len(results) {
			t.Errorf("%d %s in %d seeds do not test much", sum[what], what, len(results))
		}
	}
}

func TestSimulationRepeatsItself(t *testing.T) {
	t.Parallel()
	for seed := range uint64(min(simSeeds(t, 5), 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			first := simulate(t, newSimScenario(seed), noMutant, true)
			again := simulate(t, newSimScenario(seed), noMutant, true)
			if first.hash != again.hash || len(first.trace) != len(again.trace) {
				t.Errorf("%d steps with the sum %x, then %d with %x", len(first.trace), first.hash,
					len(again.trace), again.hash)
			}
		})
	}
}
