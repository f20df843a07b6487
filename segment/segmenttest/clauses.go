package segmenttest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// clauses returns the contract. Simple clauses come first.
func clauses() []clause {
	return slices.Concat(clausesOfClaims(), clausesOfTerms(), clausesOfLedgers(), clausesOfIdentities())
}

func clausesOfClaims() []clause {
	return []clause{
		{
			name: "a counter begins at 1 and claims follow each other",
			why: "Claim returns the first of n consecutive numbers. A counter that does not exist begins at 1. " +
				"Later claims lie above earlier ones, so that the numbers of a process increase.",
			check: func(p *probe) {
				s := p.open()
				p.claim(s, "orders", 10, 1)
				p.claim(s, "orders", 1, 11)
				p.claim(s, "orders", 5, 12)
			},
		},
		{
			name: "another handle goes on where the first one was",
			why: "A claim is durable and visible to every process when it returns. A handle that caches the " +
				"counter, or writes it later, would give out the same numbers again.",
			check: func(p *probe) {
				a, b := p.open(), p.open()
				p.claim(a, "orders", 10, 1)
				p.claim(b, "orders", 10, 11)
				p.claim(a, "orders", 10, 21)
				p.claim(p.open(), "orders", 10, 31)
			},
		},
		{
			name: "counters are independent, and names are compared byte by byte",
			why: "Each name has a counter of its own. A collation that ignores case, accents or blanks at the " +
				"end would mix the counters of two names, so that their series have gaps.",
			check: func(p *probe) {
				s := p.open()
				for round := range int64(2) {
					for _, name := range []string{
						"orders", "Orders", "orders " +
							"", "ördérs", "orders%", "order_", "a/b", "a'b\"c`d", "{x}:*?[y]", "0",
					} {
						p.claim(s, name, 3, 1+3*round)
					}
				}
			},
		},
		{
			name: "a claim may be large",
			why: "Counters are 64 bits wide. One that is kept as a 32-bit number, or as a floating-point number " +
				"with 53 bits, wraps around or loses its last digits.",
			check: func(p *probe) {
				s := p.open()
				p.claim(s, "orders", 1<<53, 1)
				p.claim(s, "orders", 1, 1<<53+1)
				p.claim(s, "orders", 1<<61, 1<<53+2)
				p.claim(s, "orders", 3, 1<<61+1<<53+2)
			},
		},
		{
			name: "a claim that cannot be is an error and changes nothing",
			why: "Claim begins with CheckClaim. A claim of no numbers, or of a negative count, would move the " +
				"counter back, and then numbers repeat.",
			check: func(p *probe) {
				s := p.open()
				p.claim(s, "orders", 10, 1)
				for _, n := range []int64{0, -1, -10, math.MinInt64, math.MaxInt64} {
					_, err := s.Claim(p.ctx, "orders", n)
					p.refuse(err, segment.ErrInvalidOption)
				}
				for _, name := range []string{"", "a\x00b", "\xff", string(make([]byte, 300))} {
					_, err := s.Claim(p.ctx, name, 1)
					p.refuse(err, segment.ErrInvalidOption)
				}
				p.claim(s, "orders", 1, 11)
			},
		},
		{
			name: "a counter at its end is full and never wraps around",
			why: "When the numbers of 64 bits are used up, a claim is an error wrapping ErrFull. A counter that " +
				"wraps around begins with negative numbers.",
			check: func(p *probe) {
				s := p.open()
				p.claim(s, "orders", math.MaxInt64-10, 1)
				for range 2 {
					_, err := s.Claim(p.ctx, "orders", 100)
					p.refuse(err, segment.ErrFull)
				}
				p.claim(s, "orders", 1, math.MaxInt64-9)
			},
		},
		{
			name: "claims at the same time never overlap",
			why: "The store reads and raises the counter in one atomic step. If it reads first and writes later, " +
				"two processes read the same value and get the same numbers.",
			check: func(p *probe) {
				p.race(8, 40, func(i, round int) (string, int64) { return "orders", int64(1 + (i+round)%7) })
			},
		},
		{
			name: "creations at the same time never overlap",
			why:  "Many processes may be the first to use a counter. Only one of them may begin at 1.",
			check: func(p *probe) {
				p.race(8, 6, func(_, round int) (string, int64) { return fmt.Sprint("day ", round), 5 })
			},
		},
		{
			name: "an ended context is an error",
			why: "A request that nobody waits for any longer must not take effect in silence as if it " +
				"had an answer.",
			check: func(p *probe) {
				s := p.open()
				ctx, cancel := context.WithCancel(p.ctx)
				cancel()
				_, err := s.Claim(ctx, "orders", 1)
				p.refuse(err, context.Canceled)
				p.claim(s, "orders", 1, 0)
			},
		},
		{
			name: "interrupted claims lose numbers and repeat none",
			why: "After an error numbers may be lost, but they are never repeated, whenever the context ends. A " +
				"store that gives them back when it believes that a claim has failed repeats them if the claim " +
				"took effect.",
			check: func(p *probe) { p.interrupted() },
		},
	}
}

func clausesOfIdentities() []clause {
	return []clause{
		{
			name: "a store has one identity for all",
			why: "The plugin notes the identity of the store from which a column gets its numbers. If two " +
				"handles on one storage have two of them, it refuses one of the processes. Two stores have two: it " +
				"is a random text of at least 16 letters or digits.",
			check: func(p *probe) {
				first := p.identity(p.open())
				p.claim(p.open(), "orders", 10, 1)
				again := p.identity(p.open())
				if again != first || len(first) < 16 || strings.ContainsAny(first, " \t\n") {
					p.failf("the identity is %q, and then %q", first, again)
				}
			},
		},
		{
			name: "an emptied store grants nothing to those who knew it",
			why: "When the counters are gone, they begin at 1 again, and all numbers repeat. A handle that knows " +
				"the store refuses with ErrWentBack, also from a counter that it has never used, and also when " +
				"somebody else has made the store anew.",
			check: func(p *probe) {
				first, ok := p.open().(Emptier)
				if !ok {
					p.t.Skipf("the store cannot be emptied")
				}
				second := p.open()
				p.claim(first, "orders", 10, 1)
				p.claim(second, "orders", 10, 11)
				p.must(first.Empty(p.ctx))
				refused := func() {
					p.t.Helper()
					for _, s := range []segment.Store{first, second} {
						for _, name := range []string{"orders", "fresh"} {
							_, err := s.Claim(p.ctx, name, 1)
							p.refuse(err, segment.ErrWentBack)
						}
					}
				}
				refused()
				_, _ = p.open().Claim(p.ctx, "fresh", 1) // which may be granted or not
				refused()
			},
		},
	}
}

// A span is what a claim returned.
type span struct{ first, n int64 }
