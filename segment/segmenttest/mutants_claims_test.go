package segmenttest_test

import (
	"context"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

const (
	follow    = "a counter begins at 1 and claims follow each other"
	handles   = "another handle goes on where the first one was"
	names     = "counters are independent, and names are compared byte by byte"
	large     = "a claim may be large"
	nonsense  = "a claim that cannot be is an error and changes nothing"
	full      = "a counter at its end is full and never wraps around"
	racing    = "claims at the same time never overlap"
	creations = "creations at the same time never overlap"
	ended     = "an ended context is an error"
	lost      = "interrupted claims lose numbers and repeat none"
)

// aMoment is long enough that another goroutine comes in between.
const aMoment = 300 * time.Microsecond

// mutantsOfClaims are wrong without any terms.
func mutantsOfClaims() []mutant {
	return []mutant{
		{
			name: "begins at 0",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					first, err := m.ClaimOn(ctx, name, n, t)
					return first - 1, err
				}
			}),
			breaks: []string{follow, names, large},
		},
		{
			name: "returns the last number of a claim",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					first, err := m.ClaimOn(ctx, name, n, t)
					return first + n - 1, err
				}
			}),
			breaks: []string{follow},
		},
		{
			name: "adds 1 whatever is claimed",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, _ int64, t segment.Terms) (int64, error) {
					return m.ClaimOn(ctx, name, 1, t)
				}
			}),
			breaks: []string{follow, racing, creations, lost},
		},
		{
			name: "has counters for each handle",
			storage: func() func() segment.Store {
				return func() segment.Store { return segmenttest.NewMemory() }
			},
			breaks: []string{handles, racing, creations, lost},
		},
		{
			name: "claims more than it is asked for and keeps the rest in the handle",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				var next, end int64
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					if next+n > end {
						first, err := m.ClaimOn(ctx, name, 100*n, t)
						if err != nil {
							return 0, err
						}
						next, end = first, first+100*n
					}
					next += n
					return next - n, nil
				}
			}),
			breaks: []string{handles},
		},
		{name: "folds the case of names", storage: naming(strings.ToLower), breaks: []string{names}},
		{
			name:    "trims names",
			storage: naming(func(name string) string { return strings.TrimRight(name, " ") }),
			breaks:  []string{names},
		},
		{
			name:    "drops accents",
			storage: naming(func(name string) string { return strings.NewReplacer("ö", "o", "é", "e").Replace(name) }),
			breaks:  []string{names},
		},
		{
			name:    "keeps 32 bits",
			storage: keeping(func(next int64) int64 { return int64(uint32(next)) }),
			breaks:  []string{large, full},
		},
		{
			name:    "keeps floating-point numbers",
			storage: keeping(func(next int64) int64 { return int64(float64(next)) }),
			breaks:  []string{large},
		},
		{
			name: "adds without a look at what it adds",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.any = func(ctx context.Context, name string, n int64) (int64, error) {
					c := m.Get(name)
					c.Name, c.Next, c.Modulus = name, max(c.Next, 1)+n, 1
					m.Put(c)
					return c.Next - n, ctx.Err()
				}
			}),
			breaks: []string{nonsense, full},
		},
		{
			name: "moves the counter by a claim that it refuses",
			storage: refusing(func(c *segment.Counter, n int64, _ segment.Terms) {
				if n > 0 && c.Next < 1<<60 {
					c.Next += n
				} else {
					c.Next++
				}
			}),
			breaks: []string{full},
		},
		{
			name: "reads before it writes",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, _ segment.Terms) (int64, error) {
					c := m.Get(name)
					time.Sleep(aMoment)
					c.Name, c.Next, c.Modulus = name, max(c.Next, 1)+n, 1
					m.Put(c)
					return c.Next - n, ctx.Err()
				}
			}),
			breaks: []string{racing, creations, lost},
		},
		{
			name: "creates without a look at what is there by then",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					if m.Get(name).Next != 0 {
						return m.ClaimOn(ctx, name, n, t)
					}
					time.Sleep(aMoment)
					m.Put(segment.Counter{Name: name, Next: 1 + n, Modulus: 1})
					return 1, ctx.Err()
				}
			}),
			breaks: []string{creations},
		},
		{
			name: "does not look at the context",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					return m.ClaimOn(context.WithoutCancel(ctx), name, n, t)
				}
			}),
			breaks: []string{ended},
		},
		{
			name: "takes back what nobody waited for",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					first, err := m.ClaimOn(context.WithoutCancel(ctx), name, n, t)
					time.Sleep(aMoment)
					if err == nil && ctx.Err() != nil {
						c := m.Get(name)
						c.Next -= n
						m.Put(c)
						return 0, ctx.Err()
					}
					return first, err
				}
			}),
			breaks: []string{lost},
		},
	}
}
