package segmenttest_test

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

const (
	identity = "a store has one identity for all"
	emptied  = "an emptied store grants nothing to those who knew it"
)

// identified is a store whose claims and identity may be altered.
type identified struct {
	*segmenttest.Memory

	claim func(ctx context.Context, m *segmenttest.Memory, name string, n int64) (int64, error)
	id    func() string
}

func (i *identified) Claim(ctx context.Context, name string, n int64) (int64, error) {
	if i.claim == nil {
		return i.Memory.Claim(ctx, name, n)
	}
	return i.claim(ctx, i.Memory, name, n)
}

func (i *identified) Identity(ctx context.Context) (segment.Identity, error) {
	if i.id == nil {
		return i.Memory.Identity(ctx)
	}
	return segment.Identity{ID: i.id()}, nil
}

// identifying returns a storage whose handles are altered.
func identifying(alter func(*identified)) func() func() segment.Store {
	return func() func() segment.Store {
		m := segmenttest.NewMemory()
		return func() segment.Store {
			i := &identified{Memory: m.Handle()}
			alter(i)
			return i
		}
	}
}

// mutantsOfIdentities do not know themselves.
func mutantsOfIdentities() []mutant {
	type claim = func(ctx context.Context, m *segmenttest.Memory, name string, n int64) (int64, error)
	forgiving := func(forgives func(name string) bool, sentinel error) claim {
		return func(ctx context.Context, m *segmenttest.Memory, name string, n int64) (int64, error) {
			first, err := m.Claim(ctx, name, n)
			if errors.Is(err, segment.ErrWentBack) && forgives(name) {
				if sentinel != nil {
					return 0, sentinel
				}
				return m.Handle().Claim(ctx, name, n)
			}
			return first, err
		}
	}
	always := func(string) bool { return true }
	return []mutant{
		{
			name:    "has an identity for each handle",
			storage: identifying(func(i *identified) { own := rand.Text(); i.id = func() string { return own } }),
			breaks:  []string{identity},
		},
		{
			name:    "has a name for an identity",
			storage: identifying(func(i *identified) { i.id = func() string { return "counters" } }),
			breaks:  []string{identity},
		},
		{
			name:    "begins again",
			storage: identifying(func(i *identified) { i.claim = forgiving(always, nil) }),
			breaks:  []string{emptied},
		},
		{
			name: "begins again with counters that are new",
			storage: identifying(func(i *identified) {
				i.claim = forgiving(func(name string) bool { return name != "orders" }, nil)
			}),
			breaks: []string{emptied},
		},
		{
			name:    "calls it a failure that passes",
			storage: identifying(func(i *identified) { i.claim = forgiving(always, segment.ErrStore) }),
			breaks:  []string{emptied},
		},
	}
}
