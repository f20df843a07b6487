package merge_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// TestHostileSchemasAreMergedWhole merges random schemas, and compares with statements of its own. Every third
// seed has faults that check must refuse. Then the test does what the remedies say until the schema is merged.
//
// In tier one there are two seeds that are always the same, one of them with faults, and a new one. The night has
// more of both. SNOWFLAKE_HOSTILE is the number of seeds of 8 servers with 100 tables instead. SNOWFLAKE_SEED is the
// first of them, and repeats only that one of the small ones.
func TestHostileSchemasAreMergedWhole(t *testing.T) {
	t.Parallel()
	servers, tables := nightly.Pick(2, 3), nightly.Pick(8, 12)
	seeds := upFrom(1, nightly.Pick(2, 12))
	for range nightly.Pick(1, 4) {
		seeds = append(seeds, rand.Uint64N(1_000_000))
	}
	first, err := strconv.ParseUint(os.Getenv("SNOWFLAKE_SEED"), 10, 64)
	if err == nil {
		seeds = []uint64{first}
	}
	if n, err := strconv.Atoi(os.Getenv("SNOWFLAKE_HOSTILE")); err == nil {
		seeds, servers, tables = upFrom(max(first, 1), n), 8, 100
	}
	t.Logf("the seeds are %d", seeds)
	databases(t, func(t *testing.T, target dbtest.Target) {
		for _, seed := range seeds {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				mergeOdd(t, target, seed, servers, tables)
			})
		}
	})
}

// upFrom returns so many numbers from the first one on.
func upFrom(first uint64, count int) (all []uint64) {
	for n := range uint64(count) { //nolint:gosec // a number of seeds
		all = append(all, first+n)
	}
	return all
}

// oddWorld is a random schema with its servers.
type oddWorld struct {
	r       *rand.Rand
	target  dbtest.Target
	tables  []*oddTable
	sources []base
	into    base
}

func newOddWorld(t *testing.T, target dbtest.Target, seed uint64, servers, tables int) *oddWorld {
	t.Helper()
	const rows = 9
	r := rand.New(rand.NewPCG(seed, 1))
	w := &oddWorld{r: r, target: target, tables: oddSchema(r, target.Dialect, tables)}
	if seed%3 == 2 {
		spoil(r, w.tables)
	} else {
		repeatNames(r, w.tables)
	}
	for i := range servers {
		statements := w.prepare()
		for _, o := range w.tables {
			if !o.lacks(i + 1) {
				statements = append(append(statements, o.create(target, false)...), o.rows(r, target, i+1, rows))
			}
		}
		w.sources = append(w.sources, w.base(t, statements))
	}
	w.remake(t)
	return w
}

// base makes a database. It keeps no connections between questions, for many seeds share a server.
func (w *oddWorld) base(t *testing.T, statements []string) base {
	t.Helper()
	b := newBase(t, w.target)
	pool, err := b.DB.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxIdleConns(0)
	b.unchecked(t, statements...)
	return b
}

func (w *oddWorld) prepare() []string {
	if w.target.Dialect == "postgres" {
		return []string{"CREATE TYPE odd AS ENUM ('z', 'A', 'b')"}
	}
	return nil
}

// remake makes a fresh target.
func (w *oddWorld) remake(t *testing.T) {
	t.Helper()
	statements := w.prepare()
	for _, o := range w.tables {
		statements = append(statements, o.create(w.target, true)...)
	}
	w.into = w.base(t, statements)
	for _, o := range w.tables {
		if o.broken("full") {
			o.fill(t, w.r, w.target, w.into)
		}
	}
}

func (w *oddWorld) plan() *merge.Plan {
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: map[string]*merge.TablePlan{},
		Target: merge.Target{Name: "s1", Number: 1, DSN: w.into.dsn}}
	for i, b := range w.sources {
		plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprintf("s%d", i+1), Number: int64(i + 1), DSN: b.dsn})
	}
	for _, o := range w.tables {
		if !o.broken("unknown") {
			plan.Tables[o.name] = o.plan()
			if plan.Tables[o.name].Renumber != "" { // counted keys of two tables may be equal by chance, or by their ends
				plan.Plain = append(plan.Plain, o.name+".k")
			}
		}
	}
	for _, o := range w.tables {
		if o.repeats {
			r := plan.Tables[o.parents[0].name].Rename
			r.Copies = append(r.Copies, merge.NameCopy{Table: o.name, Column: "their", Ref: "ref0"})
		}
	}
	return plan
}

// mergeOdd merges a random schema, and does what the remedies say as long as it is refused.
func mergeOdd(t *testing.T, target dbtest.Target, seed uint64, servers, tables int) {
	t.Helper()
	w := newOddWorld(t, target, seed, servers, tables)
	chunk := []int{4, 1000, 7, 1000}[seed%4]
	const rounds = 12
	for round := range rounds {
		m := open(t, w.plan(), merge.WithChunk(chunk))
		report, err := m.Run(t.Context())
		if err == nil {
			w.compare(t, m)
			t.Logf("seed %d: merged, after %d refusals", seed, round)
			return
		}
		if !errors.Is(err, merge.ErrUndecided) {
			t.Fatalf("seed %d: found by the run only: %v", seed, err)
		}
		seen, remade := map[string]bool{}, false
		for _, p := range report.Check.Problems {
			of := p.Table + " " + string(p.Code)
			if p.Code == merge.CodeOrphan {
				of += " " + strconv.FormatBool(p.Column[0] == 'b') // those of a text are others
			}
			if !seen[of] {
				t.Logf("seed %d: refused: %s", seed, p)
				remade = w.remedy(t, p) || remade
			}
			seen[of] = true
		}
		if remade {
			w.remake(t)
		}
		if err := m.Close(); err != nil { // its connections are needed for the next round
			t.Fatal(err)
		}
	}
	t.Fatalf("seed %d: still refused after %d rounds", seed, rounds)
}

// compare looks whether the target holds what the servers did.
func (w *oddWorld) compare(t *testing.T, m *merge.Merge) {
	t.Helper()
	want, _ := w.want(t)
	different := false
	for _, o := range w.tables {
		if o.fault != "" && o.mended == "" {
			t.Errorf("%s: its fault was not refused: %s", o.name, o.fault)
		}
		var got []string
		for _, a := range o.ask(t, w.into, 0) {
			got = append(got, a.String())
		}
		slices.Sort(want[o])
		slices.Sort(got)
		if !slices.Equal(got, want[o]) {
			different = true
			t.Logf("%s", o.create(w.target, true))
		}
		same(t, o.name, got, want[o])
	}
	proof, err := m.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if proof.OK == different {
		t.Errorf("different is %v, and verify says %+v", different, proof.Failed)
	}
}
