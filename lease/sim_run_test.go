package lease_test

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/simnet"
)

// The simulation runs keepers and generators, the real ones, over simulated machines, clocks,
// networks and stores, and looks for an ID that was made twice. It is the test of the argument in
// the package documentation, whose steps say what it may not find.
//
//	go test ./lease -run Simulation                                  some seeds
//	SNOWFLAKE_SIMULATE=1500 go test ./lease -run Simulation -v       many, and what they were
//	SNOWFLAKE_SEED=17 go test ./lease -run NoDuplicate -v            one, told step by step

// simEach runs seeds on all processors.
func simEach(t *testing.T, seeds []uint64, run func(t *testing.T, seed uint64)) {
	t.Helper()
	shards := runtime.GOMAXPROCS(0)
	t.Run("seeds", func(t *testing.T) {
		for shard := range shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < len(seeds); i += shards {
					run(t, seeds[i])
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
	seeds := simnet.Seeds{Known: []uint64{6, 8}, New: 2, Night: 64}.Choose(t)
	var mu sync.Mutex
	var results []simResult
	simEach(t, seeds, func(t *testing.T, seed uint64) {
		t.Helper()
		result := simulate(t, newSimScenario(seed), noMutant, simnet.Alone())
		result.fail(t)
		if simnet.Alone() {
			t.Logf("seed %d:\n%s", seed, strings.Join(result.trace, "\n"))
		}
		mu.Lock()
		defer mu.Unlock()
		results = append(results, result)
	})
	sum := simSum(results)
	t.Log(tallyText(sum))
	for _, what := range []string{"ids", "crashes", "pauses", "pauses inside of a call", "swaps that arrived late"} {
		if sum[what] < len(results) && !simnet.Alone() {
			t.Errorf("%d %s in %d seeds do not test much", sum[what], what, len(results))
		}
	}
}

func TestSimulationRepeatsItself(t *testing.T) {
	t.Parallel()
	simEach(t, simnet.Seeds{Known: []uint64{6}, Night: 8}.Choose(t), func(t *testing.T, seed uint64) {
		t.Helper()
		first := simulate(t, newSimScenario(seed), noMutant, true)
		again := simulate(t, newSimScenario(seed), noMutant, true)
		if first.hash != again.hash || len(first.trace) != len(again.trace) {
			t.Errorf("seed %d: %d steps with the sum %x, then %d with %x", seed, len(first.trace), first.hash,
				len(again.trace), again.hash)
		}
	})
}
