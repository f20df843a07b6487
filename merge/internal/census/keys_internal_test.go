package census

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// A set of random keys is compared with a map of these keys.
func TestASetTellsEachKeyAndHowManyLieInARange(t *testing.T) {
	t.Parallel()
	forms := map[[3]bool]int{}
	for range 5000 {
		keys, set := map[int64]bool{}, &keySet{span: span{zero: rand.IntN(2) == 0}, repeats: rand.IntN(4) == 0}
		first, rare := rand.Int64N(400)-200, []int{1, 2, 100}[rand.IntN(3)] // as a range, as bits, and as a list
		last := first + rand.Int64N(300)
		for x := first; x <= last; x++ {
			keys[x] = x != 0 && rand.IntN(rare) == 0
		}
		maps.DeleteFunc(keys, func(_ int64, is bool) bool { return !is })
		if len(keys) == 0 {
			continue
		}
		all := slices.Sorted(maps.Keys(keys))
		rows := map[int64]int64{}
		for _, x := range slices.Clone(all) {
			for rows[x] = 1; set.repeats && rand.IntN(2) == 0; rows[x]++ {
				all = append(all, x)
			}
		}
		slices.Sort(all)
		set.distinct, set.min, set.max = int64(len(all)), all[0], all[len(all)-1]
		if keys[0] = set.zero; set.zero && set.holds(0) {
			all, rows[0] = append(all, 0), 1
			slices.Sort(all)
		}
		for _, x := range all {
			if set.repeats || !set.whole() {
				set.add(x)
			}
		}
		forms[[3]bool{set.bits == nil, set.list == nil, set.repeats}]++
		least, greatest, want := rand.Int64N(1000)-500, rand.Int64N(1000)-500, int64(0)
		for x := int64(-600); x < 600; x++ {
			if set.has(x) != keys[x] {
				t.Fatalf("%d: the set of %d to %d says %t", x, set.min, set.max, set.has(x))
			}
			if keys[x] && least <= x && x <= greatest {
				want += max(rows[x], 1)
			}
		}
		if got := set.within(span{min: least, max: greatest}); got != want {
			t.Fatalf("%d keys of %d to %d lie between %d and %d, want %d", got, set.min, set.max, least, greatest, want)
		}
	}
	if len(forms) != 4 {
		t.Errorf("the sets have the forms %v", forms)
	}
}

// The program and a database have the same values in a sample, also those at its edge.
func TestASampleHasTheValuesThatADatabaseTakes(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, distinct := range []int64{1, 1000, 1001, 5000, 1_000_000, 1 << 40} {
		s, want := span{distinct: distinct}, 0
		for x := int64(-70_000); x <= 70_000; x++ {
			if s.samples(x) {
				want++
			}
		}
		var got int
		if err := db.QueryRowContext(t.Context(), "WITH RECURSIVE v(x) AS (SELECT -70000 UNION ALL SELECT x + 1 FROM v WHERE x < 70000) "+
			"SELECT COUNT(*) FROM v WHERE "+cmp.Or(s.sample("x"), "1 = 1")).Scan(&got); err != nil || got != want {
			t.Errorf("a sample of %d values: the database has %d of the numbers, the program %d: %v", distinct, got, want, err)
		}
	}
}

// A table that is held may have many rows, of which as many are looked at as of others: those with the first keys.
func TestHalvesOfKeysAreFoundInASample(t *testing.T) {
	t.Parallel()
	const rows, selectors = 3 * packedSample, 12
	table, held := &sqldb.Table{Name: "things", Primary: []string{"id"}}, holdings{}
	for i := range selectors + 3 {
		name := []string{"id", "low", "high", fmt.Sprint("kind", i)}[min(i, 3)]
		table.Columns = append(table.Columns, &sqldb.Column{Name: name, Family: sqldb.FamilyInt})
		held[name] = &column{}
	}
	for row := range rows {
		held["id"].add(int64(rows - row))
		held["low"].add(int64(rows - row))
		held["high"].add(1)
		for i := range selectors {
			held[fmt.Sprint("kind", 3+i)].add(int64(row % 20))
		}
	}
	key := Column{"heroes", "id"}
	c := newCensus(t.Context(), []*sqldb.DB{{Kind: sqldb.SQLite, Tables: map[string]*sqldb.Table{"things": table}}}, 0, usual())
	for _, col := range append(table.Columns, &sqldb.Column{}) {
		c.bares[Column{table.Name, col.Name}] = cmp.Or(col.Name, "known")
	}
	c.held[serverKey{0, Column{Table: "things"}}] = held
	c.keys, c.spans = []Column{key}, map[Column][]span{key: {{distinct: 2, min: 1, max: 1 << 60}}}
	p := &packer{c: c, parts: map[part]*evidence{}, kinds: []map[string]map[int64][]int{{}}}
	p.halves(0, table, "low", "high")
	noted, greatest := 0, int64(0)
	for where, e := range p.parts {
		noted += len(e.values[0])
		if greatest = max(greatest, slices.Max(slices.Collect(maps.Keys(e.values[0])))); c.Err != nil {
			t.Fatalf("%v: %v", where, c.Err)
		}
	}
	if want := (1 + selectors) * packedSample; noted != want || greatest != packedSample+half {
		t.Errorf("%d numbers up to %d are noted, want %d up to %d", noted, greatest, want, packedSample+half)
	}
}

// What takes the place of sorting and of regular expressions says the same as they do.
func TestNumbersAreSortedAndDigitsFoundAsByTheLibrary(t *testing.T) {
	t.Parallel()
	for range 2000 {
		var numbers []int64
		wide := []int64{10, 3000, math.MaxInt64}[rand.IntN(3)]
		for range rand.IntN(200) {
			numbers = append(numbers, rand.Int64N(wide)-rand.Int64N(wide))
		}
		want := slices.Compact(slices.Sorted(slices.Values(numbers)))
		if got := inOrderOnce(slices.Clone(numbers)); !slices.Equal(got, want) {
			t.Fatalf("%v are %v in their order, and not %v", numbers, got, want)
		}
		var text []byte
		for range rand.IntN(20) {
			text = append(text, []string{"0", "17", "9", "#", " ", "ü", "x", "\xff", "4,5", "٣"}[rand.IntN(10)]...)
		}
		runs := [][2]int(nil)
		for _, run := range digits.FindAllIndex(text, -1) {
			runs = append(runs, [2]int(run))
		}
		kind, found := splitDigits(string(text))
		if want := digits.ReplaceAllString(string(text), "#"); kind != want || !slices.Equal(found, runs) {
			t.Fatalf("%q has %v in %q, and not %v in %q", text, found, kind, runs, want)
		}
	}
}
