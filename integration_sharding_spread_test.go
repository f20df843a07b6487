package snowflakeplugin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

// shardSpreadBehaviors say how even shards are where rows come one by one, far apart.
func shardSpreadBehaviors() []behavior {
	return []behavior{
		{name: "at a low rate the shards differ by one row at most, at every moment", run: spreadAtLowRate},
		{name: "two models that take turns are each spread evenly", run: spreadOfTwoModels},
		{name: "batches are spread as evenly as single rows", run: spreadOfBatches},
		{name: "any number of shards that the plugin is told of is spread evenly", run: spreadOverOddNumbers},
	}
}

// within fails the test unless the numbers differ by so much at most.
func within(t *testing.T, what string, counts []int, most int) {
	t.Helper()
	if d := slices.Max(counts) - slices.Min(counts); d > most {
		t.Errorf("%s: the shards have %v, a difference of %d, want at most %d", what, counts, d, most)
	}
}

// pause waits until the tick of an ID is over, so that the next is made in one of its own. It takes
// more than a millisecond; a new generator begins a few ahead.
func pause(t *testing.T, id snowflakeplugin.ID) {
	t.Helper()
	parts, err := generator.Default().Decompose(id.Int64())
	must(t, err, "Decompose")
	time.Sleep(1100 * time.Microsecond)
	for time.Since(parts.Time) <= time.Millisecond {
		time.Sleep(100 * time.Microsecond)
	}
}

func spreadAtLowRate(t *testing.T, target dbtest.Target) {
	const n = 16
	s := newShardedOf(t, []dbtest.Target{target}, nil, n, &pledge{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	counts := make([]int, n)
	var ticks []int64
	for i := range 10*n + 5 {
		row := pledge{Note: fmt.Sprint(i)}
		must(t, s.router.Create(t.Context(), &row), "Create")
		counts[s.shard(row.ID)]++
		within(t, fmt.Sprintf("after %d rows", i+1), counts, 1)
		ticks = append(ticks, int64(row.ID)>>22)
		pause(t, row.ID)
	}
	if slices.Sort(ticks); len(slices.Compact(ticks)) != 10*n+5 {
		t.Error("the rows were not made far apart")
	}
	for shard := range n {
		same(t, fmt.Sprintf("rows in the table of shard %d", shard), len(s.table(shard, "pledges")), counts[shard])
	}
	d, err := s.router.Distribution(t.Context(), &pledge{})
	must(t, err, "Distribution")
	if d.Most-d.Least > 1 || d.Total != 10*n+5 {
		t.Errorf("the distribution is %+v", d)
	}
}

func spreadOfTwoModels(t *testing.T, target dbtest.Target) {
	// The generator spreads both together, so each has its share of a long run: not within one row,
	// but more even than by chance, and never one model on the even shards and the other on the odd ones.
	const n = 4
	s := newSharded(t, []dbtest.Target{target, another(target)}, nil, &pledge{}, &seenNote{})
	both, first, second := make([]int, n), make([]int, n), make([]int, n)
	for range 64 * n {
		a, b := pledge{}, seenNote{}
		must(t, s.router.Create(t.Context(), &a), "Create")
		pause(t, a.ID)
		must(t, s.router.Create(t.Context(), &b), "Create")
		pause(t, b.ID)
		first[s.shard(a.ID)]++
		second[s.shard(b.ID)]++
		both[s.shard(a.ID)]++
		both[s.shard(b.ID)]++
		within(t, "both together", both, 1)
	}
	for name, counts := range map[string][]int{"the first": first, "the second": second} {
		for shard, rows := range counts {
			// 64 are expected. By chance alone the deviation would be 7; six of those is never.
			if rows < 64-42 || rows > 64+42 {
				t.Errorf("%s has %v, of which shard %d is too far off 64", name, counts, shard)
			}
		}
	}
}

func spreadOfBatches(t *testing.T, target dbtest.Target) {
	s := newShardedOf(t, []dbtest.Target{target}, nil, 16, &pledge{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	counts := make([]int, 16)
	for round, size := range []int{1, 7, 100, 3, 333, 16, 64} {
		rows := make([]pledge, size)
		must(t, s.router.Create(t.Context(), rows), "Create")
		own := make([]int, 16)
		for _, row := range rows {
			own[s.shard(row.ID)]++
			counts[s.shard(row.ID)]++
		}
		within(t, fmt.Sprintf("batch %d of %d rows", round, size), own, 1)
		pause(t, rows[size-1].ID)
	}
	// Each begins where chance says, so they may add up: but not to more than one row for each.
	within(t, "all batches", counts, 7)
}

func spreadOverOddNumbers(t *testing.T, target dbtest.Target) {
	for _, n := range []int{3, 10} {
		db := target.Open(t, nil)
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(2), snowflakeplugin.WithShards(n))
		must(t, db.Use(plugin), "Use")
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: n, Databases: []*gorm.DB{db}}, &pledge{}, &trade{}, &tradeItem{}, &tradeLabel{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		counts := make([]int, n)
		for i := range 12 * n {
			row := trade{Code: fmt.Sprint(i), Items: []tradeItem{{Name: "a"}}}
			must(t, r.Create(t.Context(), &row), "Create")
			shard, err := r.Shard(row.ID)
			must(t, err, "Shard")
			counts[shard]++
			beside, err := r.Shard(row.Items[0].ID)
			must(t, err, "Shard")
			same(t, "the shard of the item", beside, shard)
			name, err := r.Table(&trade{}, row.ID)
			must(t, err, "Table")
			same(t, "the table", name, fmt.Sprintf("trades_%02d", shard))
			pause(t, row.ID)
		}
		// Items take numbers of the shards they belong to, which leaves the turns of the trades alone.
		within(t, fmt.Sprintf("%d shards", n), counts, 1)
	}
}
