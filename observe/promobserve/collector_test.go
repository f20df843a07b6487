package promobserve_test

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
)

type order struct {
	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
}

// counted gives numbers without a generator.
type counted struct{ last int64 }

func (c *counted) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		c.last++
		ids[i] = c.last
	}
	return nil
}

// A state of Health that the collector does not know would have no series, and no alert would see it.
func TestTheStatesAreThoseOfHealth(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("..", "..", "health.go"))
	if err != nil {
		t.Fatal(err)
	}
	var declared, shown []string
	for _, match := range regexp.MustCompile(`(?m)^\tstate\w+ += "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, match[1])
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promobserve.New(used(t, open(t))))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "state" {
					shown = append(shown, label.GetValue())
				}
			}
		}
	}
	slices.Sort(declared)
	slices.Sort(shown)
	if len(declared) == 0 || !slices.Equal(declared, shown) {
		t.Errorf("health.go declares the states %q, and the collector shows %q", declared, shown)
	}
}

func open(t *testing.T) *gorm.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db") + "?_busy_timeout=10000&_synchronous=OFF"
	db, err := gorm.Open(sqlite.Open(file), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
	})
	return db
}

func used(t *testing.T, db *gorm.DB, opts ...snowflakeplugin.Option) *snowflakeplugin.Plugin {
	t.Helper()
	plugin := snowflakeplugin.New(append(opts, snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err := db.Use(plugin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plugin.Close(context.Background()) })
	if err := db.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
	return plugin
}

// scrape returns what a server sees, by name; of snowflake_state it has the states that are 1.
func scrape(t *testing.T, plugin *snowflakeplugin.Plugin) (values map[string]float64, state string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promobserve.New(plugin))
	if faults, err := testutil.GatherAndLint(registry); err != nil || len(faults) > 0 {
		t.Errorf("lint: %v %v", faults, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "snowflake_state" {
				if metric.GetGauge().GetValue() == 1 {
					state += metric.GetLabel()[0].GetValue()
				}
				continue
			}
			values[family.GetName()] = valueOf(metric)
		}
	}
	return values, state
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return math.NaN()
}

func TestTheCollectorShowsEveryStateOfAPlugin(t *testing.T) {
	t.Parallel()
	ofGenerator := []string{
		"snowflake_node", "snowflake_ids_total", "snowflake_waits_total", "snowflake_waited_seconds_total",
		"snowflake_clock_steps_total", "snowflake_lead_seconds", "snowflake_window_extensions_total",
		"snowflake_layout_end_timestamp_seconds",
	}
	for name, c := range map[string]struct {
		plugin    func(t *testing.T) *snowflakeplugin.Plugin
		state     string
		ready     float64
		generator bool
		window    bool
	}{
		"idle": {
			plugin: func(*testing.T) *snowflakeplugin.Plugin { return snowflakeplugin.New() },
			state:  "idle",
		},
		"leased": {
			plugin: func(t *testing.T) *snowflakeplugin.Plugin { return used(t, open(t)) },
			state:  "leased", ready: 1, generator: true, window: true,
		},
		"by hand": {
			plugin: func(t *testing.T) *snowflakeplugin.Plugin {
				return used(t, open(t), snowflakeplugin.WithNode(7))
			},
			state: "by_hand", ready: 1, generator: true,
		},
		"source": {
			plugin: func(t *testing.T) *snowflakeplugin.Plugin {
				return used(t, open(t), snowflakeplugin.WithSource(&counted{}))
			},
			state: "source", ready: 1,
		},
		"closed": {
			plugin: func(t *testing.T) *snowflakeplugin.Plugin {
				plugin := used(t, open(t))
				if err := plugin.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				return plugin
			},
			state: "closed", generator: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, state := scrape(t, c.plugin(t))
			if state != c.state || values["snowflake_ready"] != c.ready {
				t.Errorf("state %q, ready %v, want %q and %v", state, values["snowflake_ready"], c.state, c.ready)
			}
			for _, metric := range ofGenerator {
				if _, ok := values[metric]; ok != c.generator {
					t.Errorf("%s is there: %t, want %t", metric, ok, c.generator)
				}
			}
			if _, ok := values["snowflake_window_end_timestamp_seconds"]; ok != c.window {
				t.Errorf("the end of a window is there: %t, want %t", ok, c.window)
			}
		})
	}
}

func TestTheCollectorShowsWhatThePluginHasDone(t *testing.T) {
	t.Parallel()
	db := open(t)
	plugin := used(t, db, snowflakeplugin.WithNode(7))
	if err := db.Create(make([]order, 500)).Error; err != nil {
		t.Fatal(err)
	}
	values, _ := scrape(t, plugin)
	for name, want := range map[string]float64{"snowflake_ids_total": 500, "snowflake_node": 7} {
		if values[name] != want {
			t.Errorf("%s is %v, want %v", name, values[name], want)
		}
	}
	if end := values["snowflake_layout_end_timestamp_seconds"]; end != float64(plugin.Layout().End().UnixMilli())/1000 {
		t.Errorf("the layout ends at %v", end)
	}
}

func TestTheCollectorShowsTheSourcesOfNumbers(t *testing.T) {
	t.Parallel()
	db := open(t)
	store, err := gormsegment.New(db)
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	invoices, err := segment.New(store, "invoice", segment.WithBlock(10, 10))
	must(t, err)
	t.Cleanup(func() { _ = invoices.Close() })
	plugin := used(t, db, snowflakeplugin.WithNumbers("invoice", invoices))
	must(t, invoices.Fill(t.Context(), make([]int64, 3)))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promobserve.New(plugin))
	faults, err := testutil.GatherAndLint(registry)
	if err != nil || len(faults) > 0 {
		t.Errorf("lint: %v %v", faults, err)
	}
	const want = `
# HELP snowflake_source_claim_failures_total Claims of blocks that failed.
# TYPE snowflake_source_claim_failures_total counter
snowflake_source_claim_failures_total{source="invoice"} 0
# HELP snowflake_source_numbers_total Numbers that the source has given out.
# TYPE snowflake_source_numbers_total counter
snowflake_source_numbers_total{source="invoice"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "snowflake_source_numbers_total",
		"snowflake_source_claim_failures_total", "snowflake_source_failing_since_timestamp_seconds"); err != nil {
		t.Error(err)
	}
	if left := metric(t, registry, "snowflake_source_left"); left < 7 {
		t.Errorf("%v numbers are left", left)
	}
}

// metric returns the sum of all series of a name.
func metric(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == name {
				sum += valueOf(one)
			}
		}
	}
	return sum
}

// Nobody asks the store at a scrape, so the scrape tells the truth while the store is gone.
func TestTheCollectorShowsALostStore(t *testing.T) {
	t.Parallel()
	db := open(t)
	plugin := used(t, db, snowflakeplugin.WithLease(nil, lease.WithSpan(200*time.Millisecond)))
	if err := db.Migrator().DropTable("snowflake_nodes"); err != nil {
		t.Fatal(err)
	}
	values, state := scrape(t, plugin)
	// On a busy machine the window can end before the store is asked for the next one and fails.
	for values["snowflake_ready"] != 0 || values["snowflake_failing_since_timestamp_seconds"] == 0 {
		time.Sleep(time.Millisecond)
		values, state = scrape(t, plugin)
	}
	if state != "overdue" && state != "lost" {
		t.Errorf("the state is %q after the table of the leases was dropped", state)
	}
	if since := values["snowflake_failing_since_timestamp_seconds"]; since < 1.7e9 {
		t.Errorf("it fails since %v", since)
	}
}

func TestSeveralPluginsAreToldApartByALabel(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"orders", "users"} {
		wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"plugin": name}, registry)
		if err := wrapped.Register(promobserve.New(used(t, open(t), snowflakeplugin.WithNode(1)))); err != nil {
			t.Fatal(err)
		}
	}
	const want = `
# HELP snowflake_ready Whether an ID can be made now.
# TYPE snowflake_ready gauge
snowflake_ready{plugin="orders"} 1
snowflake_ready{plugin="users"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "snowflake_ready"); err != nil {
		t.Error(err)
	}
}
