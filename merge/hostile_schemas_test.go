package merge_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestHostileSchemasAreMergedWholeOrRefused merges random schemas, and compares with statements of its own. By
// default it takes a few small ones. SNOWFLAKE_HOSTILE is the number of seeds of 8 servers with 100 tables.
// SNOWFLAKE_SEED is the first seed, and repeats only that one of the small ones.
func TestHostileSchemasAreMergedWholeOrRefused(t *testing.T) {
	t.Parallel()
	seeds, servers, tables := 2, 2, 6
	if n, err := strconv.Atoi(os.Getenv("SNOWFLAKE_HOSTILE")); err == nil {
		seeds, servers, tables = n, 8, 100
	}
	first := 1
	if n, err := strconv.Atoi(os.Getenv("SNOWFLAKE_SEED")); err == nil {
		if first = n; os.Getenv("SNOWFLAKE_HOSTILE") == "" {
			seeds = 1
		}
	}
	databases(t, func(t *testing.T, target dbtest.Target) {
		for seed := first; seed < first+seeds; seed++ {
			t.Run(strconv.Itoa(seed), func(t *testing.T) { mergeOdd(t, target, uint64(seed), servers, tables) })
		}
	})
}

func mergeOdd(t *testing.T, target dbtest.Target, seed uint64, servers, tables int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	schema := oddSchema(r, target.Dialect, tables)
	plans := map[string]*merge.TablePlan{}
	var create []string
	if target.Dialect == "postgres" {
		create = append(create, "CREATE TYPE odd AS ENUM ('z', 'A', 'b')")
	}
	rows := make([][]string, servers)
	for _, o := range schema {
		create, plans[o.name] = append(create, o.create(target)), o.plan()
		for i := range rows {
			rows[i] = append(rows[i], o.rows(r, target, i+1, 9)...)
		}
	}
	sources, into, plan := small(t, target, create, plans, rows...)
	m := open(t, plan, merge.WithChunk(4))
	report, err := m.Run(t.Context())
	if errors.Is(err, merge.ErrUndecided) {
		for _, p := range report.Check.Problems {
			if p.Remedy == "" {
				t.Errorf("seed %d: no remedy: %s", seed, p)
			}
			t.Logf("seed %d: refused: %s", seed, p)
		}
		return
	}
	if err != nil {
		t.Fatalf("seed %d: found by the run only: %v", seed, err)
	}
	different := false
	for _, o := range schema {
		var want []string
		for i, s := range sources {
			want = append(want, s.texts(t, o.question(target, i+1))...)
		}
		got := into.texts(t, o.question(target, 0))
		if o.policy == merge.Sum {
			want = added(want)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			different = true
			t.Logf("seed %d: %s", seed, o.create(target))
		}
		same(t, o.name, got, want)
	}
	if proof, err := m.Verify(t.Context()); err != nil || proof.OK == different {
		t.Errorf("seed %d: different is %v, and verify says %+v, %v", seed, different, proof, err)
	}
}
