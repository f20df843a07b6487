package keys

import (
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

const (
	// rowsVariable says how many rows of each kind of key are measured.
	rowsVariable = "SNOWFLAKE_KEYS"
	// rounds is how often everything is measured, and each part of a growth.
	rounds = 50
	// spell is how long the writers of single rows work in a round.
	spell = 100 * time.Millisecond
	data  = "../results/keys.json"
	page  = "../../docs/benchmarks.md"
)

// growths is how often a table grows from nothing. A table of SQLite grows to a million rows in a second or two,
// so one growth of it is little to go by.
func growths(target dbtest.Target) int {
	if target.Dialect == "sqlite" {
		return 3
	}
	return 1
}

// run measures every kind of key on a server, each in a database of its own.
func run(t *testing.T, target dbtest.Target, e effort) (server string, figures []figure) {
	t.Helper()
	target = target.Shared(t)
	var all []*contender
	for _, s := range strategies() {
		db := target.Open(t, nil)
		c, err := enter(t.Context(), db, target.Name, s, e)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		t.Cleanup(func() {
			if err := c.end(); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		})
		all = append(all, c)
	}
	server, err := version(t.Context(), all[0].pool, target.Dialect)
	if err != nil {
		t.Fatal(err)
	}
	if err := compete(t.Context(), all, e); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		var stored, different int
		row := c.pool.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT id) FROM orders")
		if err := row.Scan(&stored, &different); err != nil {
			t.Fatal(err)
		}
		if stored != c.stored || different != c.stored {
			t.Errorf("%s: %d rows with %d keys are stored, and %d were measured",
				c.strategy.name, stored, different, c.stored)
		}
		figures = append(figures, c.figure)
	}
	return server, figures
}

func TestEveryKindOfKeyWorksOnEveryServer(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		const batch = 2 * newest / parts // so that there is a page, with as few rows as that takes
		e := effort{
			rows: parts * batch, batch: batch, looks: 2, growths: 2, rounds: 1, spell: time.Millisecond,
		}
		_, figures := run(t, target, e)
		for _, f := range figures {
			want := map[string]int{}
			for _, m := range e.measures() {
				if m.name != "" && (m.name != byKey || len(f.Samples[byKey]) > 0) {
					want[m.name] += m.rounds
				}
			}
			for name, samples := range want {
				if got := f.Samples[name]; len(got) != samples || slices.Min(got) <= 0 {
					t.Errorf("%s: %s: %v, not %d figures", f.Strategy, name, got, samples)
				}
			}
			if f.Rows <= 0 {
				t.Errorf("%s has no size", f.Strategy)
			}
		}
	})
}

func TestMeasureKeys(t *testing.T) {
	text := os.Getenv(rowsVariable)
	if text == "" {
		t.Skipf("this takes long; %s=1000000 measures a million rows of each kind", rowsVariable)
	}
	rows, err := strconv.Atoi(text)
	if err != nil || rows < parts*rowsOfBatch {
		t.Fatalf("%s: %q is no number of at least %d", rowsVariable, text, parts*rowsOfBatch)
	}
	r := report{
		Date: time.Now().UTC().Format(time.DateOnly), Go: runtime.Version(), Cores: runtime.GOMAXPROCS(0),
		Rows: rows, Version: map[string]string{},
	}
	for _, target := range dbtest.Servers() {
		t.Run(target.Name, func(t *testing.T) {
			server, figures := run(t, target, effort{
				rows: rows, batch: rowsOfBatch, looks: looks, growths: growths(target), rounds: rounds, spell: spell,
			})
			r.Servers = append(r.Servers, target.Name)
			r.Version[target.Name] = server
			r.Figures = append(r.Figures, figures...)
		})
	}
	if t.Failed() {
		return
	}
	if err := r.write(data, page); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + r.tables())
}

func TestASlowRoundDoesNotChangeHowKindsCompare(t *testing.T) {
	t.Parallel()
	speeds := map[string][]float64{
		"twice as fast": {200, 200, 20, 20, 200},
		"the usual":     {100, 100, 10, 10, 100},
		"half as fast":  {50, 1, 5, 5, 50},
	}
	r := report{Figures: []figure{{Server: "another", Strategy: "the usual", Samples: map[string][]float64{reads: {7}}}}}
	for kind, samples := range speeds {
		r.Figures = append(r.Figures, figure{
			Server: "one", Strategy: kind, Samples: map[string][]float64{reads: samples},
		})
	}
	got := r.shown("one", reads)
	usual := got["the usual"]
	for kind, want := range map[string]float64{"twice as fast": 2, "half as fast": 0.5} {
		if ratio := got[kind] / usual; usual <= 0 || math.Abs(ratio-want) > want/1000 {
			t.Errorf("%s is %v times as fast", kind, ratio)
		}
	}
	if got := r.shown("one", byKey); len(got) > 0 {
		t.Errorf("%v of nothing that was measured", got)
	}
}

func TestTheTablesOfTheDocumentAreMadeOfTheKeptData(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), beginMark)
	if kept, _, found := strings.Cut(rest, endMark); !found || kept != r.tables() {
		t.Errorf("%s does not show what %s holds, which is:\n%s", page, data, r.tables())
	}
}
