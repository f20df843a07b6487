package keys

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
)

const (
	// rowsVariable says how many rows of each kind of key are measured.
	rowsVariable = "SNOWFLAKE_KEYS"
	data         = "../results/keys.json"
	page         = "../../docs/keys.md"
)

// run measures every kind of key on a server, each in a database of its own.
func run(t *testing.T, target dbtest.Target, rows int) (server string, figures []figure) {
	t.Helper()
	target = target.Shared(t)
	var all []*contender
	for _, s := range strategies() {
		db := target.Open(t, nil)
		c, err := enter(t.Context(), db, target.Name, s)
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
	if err := compete(t.Context(), all, rows); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		var stored, different int64
		row := c.pool.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT id) FROM orders")
		if err := row.Scan(&stored, &different); err != nil {
			t.Fatal(err)
		}
		// All parts are whole batches.
		part := max(rows/parts/rowsOfBatch, 1) * rowsOfBatch
		if want := int64(part*(parts+1) + max(rows/100/writers, 1)*writers); stored != want || different != want {
			t.Errorf("%s: %d rows with %d keys are stored, and %d were measured",
				c.strategy.name, stored, different, want)
		}
		figures = append(figures, c.figure)
	}
	return server, figures
}

func TestEveryKindOfKeyWorksOnEveryServer(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		_, figures := run(t, target, parts*rowsOfBatch)
		for _, f := range figures {
			if len(f.Growth) != parts || f.GORM <= 0 || f.Single <= 0 || f.Rows <= 0 || f.Read <= 0 || f.Scan <= 0 {
				t.Errorf("%s lacks a figure: %+v", f.Strategy, f)
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
			server, figures := run(t, target, rows)
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
