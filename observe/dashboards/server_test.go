package dashboards_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/teststorage"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve"
)

type order struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Total int
}

// every is the distance of two scrapes.
const every = 15 * time.Second

// A process is a plugin that a server scrapes under a name.
type process struct {
	name   string
	plugin *snowflakeplugin.Plugin
	db     *gorm.DB
}

func start(t *testing.T, name string, opts ...snowflakeplugin.Option) process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db") + "?_busy_timeout=10000&_synchronous=OFF"
	db, err := gorm.Open(sqlite.Open(file), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	plugin := snowflakeplugin.New(append(opts, snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err := db.Use(plugin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = plugin.Close(context.Background())
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
	})
	if err := db.AutoMigrate(&order{}); err != nil {
		t.Fatal(err)
	}
	return process{name, plugin, db}
}

// A server is Prometheus without its network: real metrics of real plugins, stored and queried by the
// code of Prometheus itself.
type server struct {
	storage *teststorage.TestStorage
	engine  *promql.Engine
	now     time.Time
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{storage: teststorage.New(t), now: time.Now().Truncate(time.Second)}
	t.Cleanup(func() { _ = s.storage.Close() })
	s.engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	t.Cleanup(func() { _ = s.engine.Close() })
	return s
}

// scrape reads the processes as if it were the given time.
func (s *server) scrape(t *testing.T, at time.Time, processes ...process) {
	t.Helper()
	appender := s.storage.Appender(t.Context())
	for _, p := range processes {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(promobserve.New(p.plugin))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				names := []string{"__name__", family.GetName(), "job", "shop", "instance", p.name}
				for _, label := range metric.GetLabel() {
					names = append(names, label.GetName(), label.GetValue())
				}
				if _, err := appender.Append(0, labels.FromStrings(names...), at.UnixMilli(), valueOf(metric)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}

func valueOf(m *dto.Metric) float64 {
	if m.GetGauge() != nil {
		return m.GetGauge().GetValue()
	}
	return m.GetCounter().GetValue()
}

// ask runs a query at the server's present and returns how many series it has.
func (s *server) ask(t *testing.T, query string) promql.Vector {
	t.Helper()
	q, err := s.engine.NewInstantQuery(t.Context(), s.storage, nil, query, s.now)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil {
		t.Fatalf("%s: %v", query, result.Err)
	}
	switch value := result.Value.(type) {
	case promql.Vector:
		// A sample belongs to the storage of the query, so only its value is kept.
		return slices.Clone(value)
	case promql.Scalar:
		return promql.Vector{{T: value.T, F: value.V}}
	}
	t.Fatalf("%s is a %T", query, result.Value)
	return nil
}
