package routing_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestSpread(t *testing.T) { run(t, shardSpreadBehaviors()) }

// shardSpreadBehaviors test how even the shards are if rows come one by one with pauses in between.
func shardSpreadBehaviors() []behavior {
	return []behavior{
		{Name: "at a low rate the shards differ by one row at most, at every moment", Run: spreadAtLowRate},
		{Name: "two models that take turns are each spread evenly", Run: spreadOfTwoModels},
		{Name: "batches are spread as evenly as single rows", Run: spreadOfBatches},
		{Name: "any number of shards that the plugin is told of is spread evenly", Run: spreadOverOddNumbers},
	}
}

// within fails the test if two of the counts differ by more than the limit.
func within(t *testing.T, what string, counts []int, limit int) {
	t.Helper()
	if d := slices.Max(counts) - slices.Min(counts); d > limit {
		t.Errorf("%s: the shards have %v, a difference of %d, want at most %d", what, counts, d, limit)
	}
}

// pause waits until the tick of an ID is over, so the next ID gets its own tick. This takes more
// than a millisecond, because a new generator begins a few milliseconds ahead.
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
	n := nightly.Pick(4, 16)
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
	rows, err := s.router.Distribution(t.Context(), &pledge{})
	must(t, err, "Distribution")
	for shard, n := range rows {
		same(t, fmt.Sprintf("rows that are counted on shard %d", shard), n, int64(counts[shard]))
	}
}

func spreadOfTwoModels(t *testing.T, target dbtest.Target) {
	// The generator spreads both models together, so each model gets an even share of a long run.
	// The difference may be more than one row, but it is smaller than by chance. One model never
	// gets only the even shards.
	const n = 4
	s := newSharded(t, []dbtest.Target{target, another(target)}, nil, &pledge{}, &seenNote{})
	both, first, second := make([]int, n), make([]int, n), make([]int, n)
	for range nightly.Pick(4, 64) * n {
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
	if !nightly.Enabled() {
		return // The rest is statistics.
	}
	for name, counts := range map[string][]int{"the first": first, "the second": second} {
		for shard, rows := range counts {
			// The expected count is 64. By chance the standard deviation would be 7, and 42 is six
			// times that.
			if rows < 64-42 || rows > 64+42 {
				t.Errorf("%s has %v, of which shard %d is too far off 64", name, counts, shard)
			}
		}
	}
}

func spreadOfBatches(t *testing.T, target dbtest.Target) {
	n := nightly.Pick(4, 16)
	s := newShardedOf(t, []dbtest.Target{target}, nil, n, &pledge{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	counts := make([]int, n)
	for round, size := range []int{1, 7, 100, 3, 333, 16, 64} {
		rows := make([]pledge, size)
		must(t, s.router.Create(t.Context(), rows), "Create")
		own := make([]int, n)
		for _, row := range rows {
			own[s.shard(row.ID)]++
			counts[s.shard(row.ID)]++
		}
		within(t, fmt.Sprintf("batch %d of %d rows", round, size), own, 1)
		pause(t, rows[size-1].ID)
	}
	// Each batch begins at a random shard, so the differences may add up, but only by one row per
	// batch.
	within(t, "all batches", counts, 7)
}

func spreadOverOddNumbers(t *testing.T, target dbtest.Target) {
	for _, n := range nightly.Pick([]int{3}, []int{3, 10}) {
		db := target.Open(t, nil)
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(2), snowflakeplugin.WithShards(n))
		must(t, db.Use(plugin), "Use")
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: n, Databases: []*gorm.DB{db}}, &bookcase{}, &caseBook{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		counts := make([]int, n)
		for i := range 12 * n {
			row := bookcase{Name: fmt.Sprint(i), Books: []caseBook{{}}}
			must(t, r.Create(t.Context(), &row), "Create")
			shard, err := r.Shard(row.ID)
			must(t, err, "Shard")
			counts[shard]++
			ofBook, err := r.Shard(snowflakeplugin.ID(row.Books[0].Key))
			must(t, err, "Shard")
			same(t, "the shard of the book", ofBook, shard)
			name, err := r.Table(&bookcase{}, row.ID)
			must(t, err, "Table")
			same(t, "the table", name, fmt.Sprintf("bookcases_%02d", shard))
			pause(t, row.ID)
		}
		// Books use sequence numbers of the shards they belong to, which does not change the turns
		// of the bookcases.
		within(t, fmt.Sprintf("%d shards", n), counts, 1)
	}
}
