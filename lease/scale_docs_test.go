package lease_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// The figures of docs/scale.md are computed here, and the two assumptions behind them are tried with real keepers:
// how often a keeper asks its store, and for how long a process that died has its number. With
// SNOWFLAKE_WRITE_DOCS=1 the test writes the tables.

// spanOfSQLite is how long the windows of an old process last on SQLite, and youngSQLite those of a new one.
const (
	spanOfSQLite = 10 * time.Minute
	youngSQLite  = time.Minute
)

// everyThirds is the mean time between two extensions, in thirds of a span.
const everyThirds = 0.85

var scalePresets = []struct {
	name   string
	layout generator.Layout
}{
	{"Default()", generator.Default()}, {"Twitter()", generator.Twitter()},
	{"ShardingSphere()", generator.ShardingSphere()}, {"Business()", generator.Business()},
	{"JavaScript()", generator.JavaScript()}, {"Game()", generator.Game()}, {"GameLong()", generator.GameLong()},
	{"GameSecond()", generator.GameSecond()}, {"Game16()", generator.Game16()},
	{"Game16Fast()", generator.Game16Fast()},
}

func TestTheFiguresOfScaleAreComputed(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "docs", "scale.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for name, table := range map[string]string{
		"processes": scaleOfProcesses(), "leases": scaleOfLeases(), "ids": scaleOfIDs(), "shards": scaleOfShards(),
	} {
		begin, end := "<!-- "+name+": begin, made by lease/scale_docs_test.go -->\n", "<!-- "+name+": end -->\n"
		before, rest, found := strings.Cut(text, begin)
		old, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("docs/scale.md has no place for the table %q", name)
		}
		if old != table && os.Getenv("SNOWFLAKE_WRITE_DOCS") == "" {
			t.Errorf("docs/scale.md has other figures in the table %q: SNOWFLAKE_WRITE_DOCS=1 writes\n%s", name, table)
		}
		text = before + begin + table + end + after
	}
	if text != string(data) && os.Getenv("SNOWFLAKE_WRITE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// heldFor is how long a process that dies at an age has its number at most: it may die right after an extension.
func heldFor(age, young, grown time.Duration) time.Duration {
	return age + max(young, min(age, grown))
}

// scaleOfProcesses says how many processes may start and die without Close in each second.
func scaleOfProcesses() string {
	table := scaleTable("layout", "numbers", "die at once", "after 10 s", "after 1 min", "after 1 h",
		"SQLite: at once", "after 1 min", "after 1 h")
	for _, p := range scalePresets {
		numbers := float64(p.layout.MaxNode() + 1)
		row := []string{"`" + p.name + "`", scaleNumber(numbers)}
		for _, age := range []time.Duration{0, 10 * time.Second, time.Minute, time.Hour} {
			row = append(row, scaleNumber(numbers/heldFor(age, span, span).Seconds()))
		}
		for _, age := range []time.Duration{0, time.Minute, time.Hour} {
			row = append(row, scaleNumber(numbers/heldFor(age, youngSQLite, spanOfSQLite).Seconds()))
		}
		table += scaleRow(row...)
	}
	return table
}

// scaleOfLeases says what leases ask of their store.
func scaleOfLeases() string {
	const bytesOfRecord = 150
	counts := []float64{100, 1000, 10_000}
	table := scaleTable("", "100 processes", "1,000", "10,000")
	for _, s := range []time.Duration{span, time.Minute, 10 * time.Minute} {
		row := []string{fmt.Sprintf("statements a second, with a span of %s", scaleSpan(s))}
		for _, n := range counts {
			row = append(row, scaleNumber(n*3/everyThirds/s.Seconds()))
		}
		table += scaleRow(row...)
	}
	connections := []string{"connections, one for each process"}
	megabytes := []string{"MB that the starts read, if all start at once"}
	for _, n := range counts {
		connections = append(connections, scaleNumber(n))
		megabytes = append(megabytes, scaleNumber(n*n*bytesOfRecord/1e6))
	}
	return table + scaleRow(connections...) + scaleRow(megabytes...)
}

// scaleOfIDs says how many IDs a layout has.
func scaleOfIDs() string {
	table := scaleTable("layout", "a second, one process", "at once, after a rest", "a second, all numbers", "until")
	for _, p := range scalePresets {
		perTick := float64(p.layout.MaxSequence() + 1)
		second := perTick * float64(time.Second) / float64(p.layout.Tick)
		table += scaleRow("`"+p.name+"`", scaleNumber(second), scaleNumber(10*perTick),
			scaleNumber(second*float64(p.layout.MaxNode()+1)), p.layout.End().UTC().Format("2006"))
	}
	return table
}

// scaleOfShards says what a router on several databases takes, if one of them takes 5,000 single rows a second.
func scaleOfShards() string {
	const rows, atOnce, models = 5000, 8, 20
	table := scaleTable("databases", "single rows a second", "shards", "shards on each database",
		fmt.Sprintf("tables of %d models on each", models), "round trips of a page")
	for _, databases := range []int{1, 2, 4, 8, 16, 64} {
		shards := max(16, 4*databases)
		table += scaleRow(strconv.Itoa(databases), scaleNumber(float64(databases*rows)), strconv.Itoa(shards),
			strconv.Itoa(shards/databases), scaleNumber(float64(shards/databases*models)),
			strconv.Itoa((databases+atOnce-1)/atOnce))
	}
	return table
}

func scaleTable(titles ...string) string {
	return scaleRow(titles...) + "|" + strings.Repeat("---|", len(titles)) + "\n"
}

func scaleRow(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func scaleSpan(s time.Duration) string {
	if s < time.Minute {
		return fmt.Sprintf("%.0f s", s.Seconds())
	}
	return fmt.Sprintf("%.0f min", s.Minutes())
}

// scaleNumber writes a number with two digits at least, and commas.
func scaleNumber(f float64) string {
	switch {
	case f < 1:
		return fmt.Sprintf("%.2f", f)
	case f < 20 && f != math.Trunc(f):
		return fmt.Sprintf("%.1f", f)
	}
	digits := fmt.Sprintf("%.0f", f)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// A hundred processes ask their store as often as the page says.
func TestLeasesAskTheirStoreAsOftenAsThePageSays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const processes, length = 100, 2 * time.Minute
		s := newTable()
		for range processes {
			acquire(t, s)
		}
		s.forget()
		time.Sleep(length)
		got := float64(len(s.asked(asksSwap))) / length.Seconds()
		if want := processes * 3 / everyThirds / span.Seconds(); math.Abs(got-want) > want*0.06 {
			t.Errorf("%d processes send %.1f statements a second, the page says %.1f", processes, got, want)
		}
	})
}

// With as many starts a second as the page says each process gets a number, and with a fifth more some do not. Here
// every process dies at once.
func TestAsManyProcessesMayDieAsThePageSays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const numbers = 20
		for _, c := range []struct {
			name         string
			store        func() lease.Store
			young, grown time.Duration
		}{
			{"a server", func() lease.Store { return newTable() }, span, span},
			{"SQLite", func() lease.Store { return slow{newTable(), spanOfSQLite} }, youngSQLite, spanOfSQLite},
		} {
			for share, enough := range map[float64]bool{0.98: true, 1.2: false} {
				s := c.store()
				rate := share * numbers / heldFor(0, c.young, c.grown).Seconds()
				refused := 0
				for range 3 * numbers {
					k, err := lease.Acquire(t.Context(), s, generator.Default(), lease.WithNodes(0, numbers-1), quiet())
					switch {
					case errors.Is(err, lease.ErrNoFreeNode):
						refused++
					case err != nil:
						t.Fatal(err)
					default:
						k.Crash()
					}
					time.Sleep(time.Duration(float64(time.Second) / rate))
				}
				if (refused == 0) != enough {
					t.Errorf("on %s, %.1f starts a second of %d numbers: %d were refused", c.name, rate, numbers, refused)
				}
			}
		}
	})
}
