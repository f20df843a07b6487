package lease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/simnet"
)

// simLongest runs healthy seeds and returns the longest time, in spans, that something took.
func simLongest(
	t *testing.T, seeds simnet.Seeds, slots int, numbers int64, wait func(simWaits) time.Duration,
) float64 {
	t.Helper()
	var mu sync.Mutex
	var longest float64
	simEach(t, seeds.Choose(t), func(t *testing.T, seed uint64) {
		t.Helper()
		s := newHealthyScenario(seed, slots, numbers)
		result := simulate(t, s, noMutant, false)
		result.fail(t)
		spans := wait(result.waits).Seconds() / s.span.Seconds()
		if spans > 1 {
			t.Errorf("seed %d: it took %.2f spans of %v", seed, spans, s.span)
		}
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, spans)
	})
	return longest
}

// With a healthy store and a number that is free, an ID comes within a span, whatever the process
// has been through: a start, a crash, or a pause after which its number is somebody else's.
func TestSimulationGivesAnIDWithinASpan(t *testing.T) {
	t.Parallel()
	longest := simLongest(t, simnet.Seeds{Known: []uint64{1}, Night: 48}, 4, 16, func(w simWaits) time.Duration { return w.id })
	t.Logf("the longest wait for an ID was %.2f spans", longest)
}

// Where numbers are scarce, one that falls free is taken by somebody within a span. There are so many
// processes that never all of those without a number stand still.
func TestSimulationLeavesNoNumberIdle(t *testing.T) {
	t.Parallel()
	longest := simLongest(t, simnet.Seeds{Known: []uint64{1}, Night: 48}, 12, 3, func(w simWaits) time.Duration { return w.idle })
	t.Logf("the longest time that a free number was idle was %.2f spans", longest)
}
