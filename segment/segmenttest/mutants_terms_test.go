package segmenttest_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
)

const (
	start    = "a start raises the counter and never lowers it"
	last     = "a claim beyond the last number is refused and changes nothing"
	residues = "the residue of a counter is noted and another one is refused"
	back     = "a counter that went back refuses whoever knows a greater number, and does not move"
	sources  = "a source whose counter went back has no numbers until somebody raises the counter"
	kinds    = "a counter has one kind"
	apart    = "a counter and daily numbers of one name do not meet"
	terms    = "terms that cannot be are an error"
	listed   = "counters are listed by prefix in the order of their names"
	replaces = "a change replaces exactly the counter that was read"
	creates  = "a change creates a counter only if there is none"
	changes  = "changes beside claims repeat no number"
	frozen   = "a frozen counter refuses every claim until its residue is set"
	removes  = "a removal removes exactly the counter that was read"
	removals = "removals beside claims lose no claim"
	clock    = "the store has one clock"
)

// mutantsOfTerms look at terms wrongly.
func mutantsOfTerms() []mutant {
	return []mutant{
		{
			name: "ignores the start",
			storage: onTerms(func(t segment.Terms) segment.Terms {
				t.Start = 1
				return t
			}),
			breaks: []string{start},
		},
		{
			name: "begins at the start again",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					if c := m.Get(name); t.Start > 1 && c.Next > t.Start {
						c.Next = t.Start
						m.Put(c)
					}
					return m.ClaimOn(ctx, name, n, t)
				}
			}),
			breaks: []string{start},
		},
		{
			name: "ignores the last number",
			storage: onTerms(func(t segment.Terms) segment.Terms {
				t.Last = segment.AnyTerms().Last
				return t
			}),
			breaks: []string{last},
		},
		{
			name: "uses up a counter that has too few numbers",
			storage: refusing(func(c *segment.Counter, _ int64, t segment.Terms) {
				c.Next = max(c.Next, t.Last+1)
			}),
			breaks: []string{last},
		},
		{
			name: "notes no residue",
			storage: onTerms(func(t segment.Terms) segment.Terms {
				t.Remainder, t.Modulus = 0, 1
				return t
			}),
			breaks: []string{residues, terms},
		},
		{
			name: "notes the modulus only",
			storage: onTerms(func(t segment.Terms) segment.Terms {
				t.Remainder = 0
				return t
			}),
			breaks: []string{residues},
		},
		{
			name: "claims for another residue what it refuses",
			storage: refusing(func(c *segment.Counter, n int64, t segment.Terms) {
				if t.Modulus != c.Modulus {
					c.Next += n
				}
			}),
			breaks: []string{residues},
		},
		{
			name: "notes no kind",
			storage: onTerms(func(t segment.Terms) segment.Terms {
				t.Kind = ""
				return t
			}),
			breaks: []string{kinds, terms},
		},
		{
			name: "claims for another kind what it refuses",
			storage: refusing(func(c *segment.Counter, n int64, t segment.Terms) {
				if t.Kind != "" && t.Kind != c.Kind {
					c.Next += n
				}
			}),
			breaks: []string{kinds},
		},
		{
			name: "takes a counter without a kind for one of another kind",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					if c := m.Get(name); c.Next != 0 && c.Kind != t.Kind && t.Kind != "" {
						return 0, segment.ErrKind
					}
					return m.ClaimOn(ctx, name, n, t)
				}
			}),
			breaks: []string{kinds},
		},
		{
			name: "cuts what is not printed off a name",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				cut := func(name string) string { return name[strings.LastIndexByte(name, '\t')+1:] }
				a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
					if prev.Name, next.Name = cut(prev.Name), cut(next.Name); prev.Next == 0 && next.Modulus == 0 {
						prev = m.Get(next.Name)
					}
					return m.Change(ctx, prev, next)
				}
			}),
			breaks: []string{apart},
		},
		{
			name: "keeps no kind in a change",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
					next.Kind = prev.Kind
					return m.Change(ctx, prev, next)
				}
			}),
			breaks: []string{kinds},
		},
		{
			name: "compares no kind in a change",
			storage: matching(func(stored, prev segment.Counter) bool {
				prev.Kind, prev.UpdatedAt = stored.Kind, stored.UpdatedAt
				return stored == prev
			}),
			breaks: []string{kinds},
		},
		{
			name: "does not look whether a counter went back",
			storage: onTerms(func(t segment.Terms) segment.Terms {
				t.Above = min(t.Above, 0)
				return t
			}),
			breaks: []string{back},
		},
		{
			name: "moves a counter that went back",
			storage: refusing(func(c *segment.Counter, n int64, t segment.Terms) {
				if c.Next <= t.Above {
					c.Next += n
				}
			}),
			breaks: []string{back},
		},
		{
			name: "makes a counter anew for whoever knows a greater number",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					if m.Get(name).Next == 0 {
						t.Above = min(t.Above, 0)
					}
					return m.ClaimOn(ctx, name, n, t)
				}
			}),
			breaks: []string{back},
		},
		{
			name: "refuses whoever knows a greater number only until the counter has come to it",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					above := t.Above
					t.Above = min(t.Above, 0)
					first, err := m.ClaimOn(ctx, name, n, t)
					if err == nil && first <= above {
						return 0, fmt.Errorf("%w: %d", segment.ErrWentBack, first)
					}
					return first, err
				}
			}),
			breaks: []string{back},
		},
		{
			name: "checks no terms",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					if segment.CheckTerms(name, n, t) != nil {
						return m.ClaimOn(ctx, name, n, segment.AnyTerms())
					}
					return m.ClaimOn(ctx, name, n, t)
				}
			}),
			breaks: []string{terms},
		},
		{
			name: "does not know of freezing",
			storage: claiming(func(m *segmenttest.Memory) claimFunc {
				return func(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
					if c := m.Get(name); c.Next != 0 && c.Modulus == 0 {
						c.Remainder, c.Modulus = t.Remainder, t.Modulus
						m.Put(c)
					}
					return m.ClaimOn(ctx, name, n, t)
				}
			}),
			breaks: []string{frozen},
		},
	}
}

// listing alters what is listed.
func listing(change func(m *segmenttest.Memory, prefix string, all []segment.Counter) []segment.Counter,
) func() func() segment.Store {
	return altering(func(m *segmenttest.Memory, a *altered) {
		a.list = func(ctx context.Context, prefix string) ([]segment.Counter, error) {
			all, err := m.Counters(ctx, "")
			return change(m, prefix, all), err
		}
	})
}

// selecting lists the counters whose names are selected.
func selecting(match func(name, prefix string) bool) func() func() segment.Store {
	return listing(func(_ *segmenttest.Memory, prefix string, all []segment.Counter) []segment.Counter {
		return slices.DeleteFunc(all, func(c segment.Counter) bool { return !match(c.Name, prefix) })
	})
}

// matching changes and removes what matches in its own eyes, as a store would that compares other columns.
func matching(match func(stored, prev segment.Counter) bool) func() func() segment.Store {
	return altering(func(m *segmenttest.Memory, a *altered) {
		a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
			stored := m.Get(next.Name)
			if segment.CheckChange(prev, next) == nil && match(stored, prev) {
				prev = stored
				next.Next = max(next.Next, stored.Next)
			}
			return m.Change(ctx, prev, next)
		}
		a.remove = func(ctx context.Context, prev segment.Counter) (bool, error) {
			if stored := m.Get(prev.Name); match(stored, prev) {
				prev = stored
			}
			return m.Remove(ctx, prev)
		}
	})
}

func mutantsOfLedgers() []mutant {
	return slices.Concat(mutantsOfLists(), mutantsOfChanges(), mutantsOfClocks())
}

// mutantsOfLists list the wrong counters.
func mutantsOfLists() []mutant {
	return []mutant{
		{
			name: "takes the prefix for a pattern of LIKE",
			storage: selecting(func(name, prefix string) bool {
				pattern := strings.NewReplacer("_", ".", "%", ".*").Replace(regexp.QuoteMeta(prefix))
				return regexp.MustCompile("(?s)^" + pattern).MatchString(name)
			}),
			breaks: []string{listed},
		},
		{
			name: "folds the case of the prefix",
			storage: selecting(func(name, prefix string) bool {
				return strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix))
			}),
			breaks: []string{listed},
		},
		{name: "finds the prefix anywhere", storage: selecting(strings.Contains), breaks: []string{listed}},
		{
			name: "lists in any order",
			storage: listing(func(_ *segmenttest.Memory, prefix string, all []segment.Counter) []segment.Counter {
				all = slices.DeleteFunc(all, func(c segment.Counter) bool { return !strings.HasPrefix(c.Name, prefix) })
				slices.Reverse(all)
				return all
			}),
			breaks: []string{listed},
		},
		{
			name: "does not tell when a counter was changed",
			storage: listing(func(_ *segmenttest.Memory, prefix string, all []segment.Counter) []segment.Counter {
				all = slices.DeleteFunc(all, func(c segment.Counter) bool { return !strings.HasPrefix(c.Name, prefix) })
				for i := range all {
					all[i].UpdatedAt = time.Time{}
				}
				return all
			}),
			breaks: []string{listed},
		},
		{
			name: "lists a counter that nobody made",
			storage: func() func() segment.Store {
				m := segmenttest.NewMemory()
				m.Put(segment.Counter{Name: "lock", Next: 1, Modulus: 1})
				return func() segment.Store { return m }
			},
			breaks: []string{listed, removes},
		},
	}
}

// mutantsOfChanges change or remove the wrong counters.
func mutantsOfChanges() []mutant {
	return []mutant{
		{
			name:    "compares nothing",
			storage: matching(func(_, _ segment.Counter) bool { return true }),
			breaks:  []string{replaces, creates, removes},
		},
		{
			name:    "compares the next number only",
			storage: matching(func(stored, prev segment.Counter) bool { return stored.Next == prev.Next }),
			breaks:  []string{frozen, removes},
		},
		{
			name: "compares the time as well",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
					if !m.Get(next.Name).UpdatedAt.Equal(prev.UpdatedAt) && segment.CheckChange(prev, next) == nil {
						return false, nil
					}
					return m.Change(ctx, prev, next)
				}
				a.remove = func(ctx context.Context, prev segment.Counter) (bool, error) {
					if !m.Get(prev.Name).UpdatedAt.Equal(prev.UpdatedAt) {
						return false, nil
					}
					return m.Remove(ctx, prev)
				}
			}),
			breaks: []string{replaces, removes},
		},
		{
			name: "keeps the time that it is given",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
					ok, err := m.Change(ctx, prev, next)
					if ok {
						m.Put(next)
					}
					return ok, err
				}
			}),
			breaks: []string{replaces},
		},
		{
			name: "lowers a counter",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
					if next.Next < prev.Next {
						m.Put(next)
						return true, nil
					}
					return m.Change(ctx, prev, next)
				}
			}),
			breaks: []string{replaces},
		},
		{
			name: "replaces what it should create",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
					if prev.Next == 0 {
						m.Put(next)
						return true, nil
					}
					return m.Change(ctx, prev, next)
				}
			}),
			breaks: []string{creates},
		},
		{
			name: "says yes and changes nothing",
			storage: altering(func(_ *segmenttest.Memory, a *altered) {
				a.change = func(context.Context, segment.Counter, segment.Counter) (bool, error) { return true, nil }
				a.remove = func(context.Context, segment.Counter) (bool, error) { return true, nil }
			}),
			breaks: []string{replaces, creates, frozen, removes, sources},
		},
		{
			name: "compares before it writes",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.change = func(ctx context.Context, prev, next segment.Counter) (bool, error) {
					stored := m.Get(next.Name)
					prev.UpdatedAt = stored.UpdatedAt
					if stored != prev {
						return false, nil
					}
					time.Sleep(aMoment)
					m.Put(next)
					return true, ctx.Err()
				}
				a.remove = func(ctx context.Context, prev segment.Counter) (bool, error) {
					stored := m.Get(prev.Name)
					prev.UpdatedAt = stored.UpdatedAt
					if stored != prev {
						return false, nil
					}
					time.Sleep(aMoment)
					m.Delete(prev.Name)
					return true, ctx.Err()
				}
			}),
			breaks: []string{changes, removals},
		},
		{
			name: "removes every spelling of a name",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.remove = func(ctx context.Context, prev segment.Counter) (bool, error) {
					ok, err := m.Remove(ctx, prev)
					if ok {
						m.Delete(strings.ToUpper(prev.Name[:1]) + prev.Name[1:])
					}
					return ok, err
				}
			}),
			breaks: []string{removes},
		},
		{
			name: "goes on where a removed counter was",
			storage: altering(func(m *segmenttest.Memory, a *altered) {
				a.remove = func(ctx context.Context, prev segment.Counter) (bool, error) {
					ok, err := m.Remove(ctx, prev)
					if ok {
						m.Put(prev)
					}
					return ok, err
				}
			}),
			breaks: []string{removes},
		},
	}
}

// mutantsOfClocks tell a wrong time.
func mutantsOfClocks() []mutant {
	telling := func(change func(calls int, t time.Time) time.Time) func() func() segment.Store {
		return altering(func(m *segmenttest.Memory, a *altered) {
			calls := 0
			a.now = func(ctx context.Context) (time.Time, error) {
				now, err := m.Now(ctx)
				calls++
				return change(calls, now), err
			}
		})
	}
	return []mutant{
		{
			name:    "counts from its own start",
			storage: telling(func(calls int, _ time.Time) time.Time { return time.Unix(int64(calls), 0).UTC() }),
			breaks:  []string{clock},
		},
		{
			name: "goes back",
			storage: telling(func(calls int, t time.Time) time.Time {
				return t.Add(-time.Duration(calls) * time.Hour)
			}),
			breaks: []string{clock},
		},
		{
			name: "tells the time of a zone",
			storage: telling(func(_ int, t time.Time) time.Time {
				return t.In(time.FixedZone("somewhere", 3600))
			}),
			breaks: []string{clock},
		},
	}
}
