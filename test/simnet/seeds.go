package simnet

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// Environment variables that choose the seeds of all simulations.
const (
	one  = "SNOWFLAKE_SEED"     // this one alone
	many = "SNOWFLAKE_SIMULATE" // so many, from 0 on
)

// Seeds says which seeds a simulation runs if the environment does not choose them.
type Seeds struct {
	Known []uint64 // in tier one; these once found something, or find something in a protocol that is broken
	Night int      // at night all below this are run
	New   int      // which nobody has run before, in tier one; at night ten times as many
}

// Choose returns the seeds in the order in which to run them, the known ones first. The log of the test names
// the new ones, so that a failure can be repeated.
func (s Seeds) Choose(tb testing.TB) []uint64 {
	tb.Helper()
	if seed, set := variable(tb, one); set {
		return []uint64{seed}
	}
	if n, set := variable(tb, many); set {
		return below(n)
	}
	seeds, fresh := s.Known, make([]uint64, nightly.Pick(s.New, 10*s.New))
	if nightly.Enabled() {
		seeds = below(uint64(s.Night)) //nolint:gosec // a count
	}
	for i := range fresh {
		fresh[i] = 1000 + rand.Uint64N(999_000) //nolint:gosec // no secret
	}
	if len(fresh) > 0 {
		tb.Logf("new seeds, each to be repeated by %s=n: %d", one, fresh)
	}
	return slices.Concat(seeds, fresh)
}

// Alone reports whether the environment wants a single seed, which is then told step by step.
func Alone() bool { return os.Getenv(one) != "" }

func below(n uint64) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i) //nolint:gosec // from 0 on
	}
	return seeds
}

func variable(tb testing.TB, name string) (uint64, bool) {
	tb.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		tb.Fatalf("%s=%q is no number: %v", name, text, err)
	}
	return n, true
}
