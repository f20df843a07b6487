package promobserve_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve"
)

func TestShardsAreCountedApart(t *testing.T) {
	t.Parallel()
	db, ctx := open(t), t.Context()
	used(t, db)
	router, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &order{})
	must(t, err)
	must(t, router.AutoMigrate(ctx))
	shards := promobserve.Shards(router)
	must(t, db.Use(shards))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(shards)

	orders := make([]order, 9)
	must(t, router.Create(ctx, orders))
	var busy int // the shard with three of them
	counts := map[int]int{}
	for _, o := range orders {
		shard, err := router.Shard(o.ID)
		must(t, err)
		if counts[shard]++; counts[shard] == 3 {
			busy = shard
		}
	}
	name := fmt.Sprint(busy)
	want := func(what string, rows, statements, failed float64) {
		t.Helper()
		got := shardMetrics(t, registry)
		if got["rows_total "+name] != rows || got["statement_seconds "+name] != statements ||
			got["errors_total "+name] != failed {
			t.Errorf("%s: %v, want %v rows, %v statements and %v errors on shard %s", what, got, rows, statements,
				failed, name)
		}
	}
	want("after Create", 3, 1, 0)
	for _, o := range orders {
		handle, err := router.DB(ctx, &order{}, o.ID)
		must(t, err)
		must(t, handle.Take(new(order), o.ID).Error)
	}
	want("after three reads", 6, 4, 0)
	var busyID snowflakeplugin.ID
	for _, o := range orders {
		if at, _ := router.Shard(o.ID); at == busy {
			busyID = o.ID
		}
	}
	handle, err := router.DB(ctx, &order{}, busyID)
	must(t, err)
	if err := handle.Take(new(order), "1 = 0").Error; err == nil {
		t.Fatal("a row was found")
	}
	want("after a row that is not there", 6, 5, 0)
	if err := handle.Where("no_such_column = 1").Take(new(order)).Error; err == nil {
		t.Fatal("a row was found")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := handle.WithContext(ended).Delete(&order{}, busyID).Error; err == nil {
		t.Fatal("a row was deleted after the end")
	}
	want("after two errors", 6, 7, 2)
	var page []order
	must(t, router.Latest(ctx, &page, 4))
	got := shardMetrics(t, registry)
	if got["rows_total several"] != 4 || got["statement_seconds several"] != 1 {
		t.Errorf("after a page: %v", got)
	}
	must(t, db.Exec("SELECT 1").Error)
	want("after a statement that is not of the router", 6, 7, 2)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shardMetrics returns the sums of counters and the counts of histograms, by name and shard.
func shardMetrics(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "snowflake_shard_") + " " + metric.GetLabel()[0].GetValue()
			if family.GetType() == dto.MetricType_HISTOGRAM {
				found[name] = float64(metric.GetHistogram().GetSampleCount())
			} else {
				found[name] = metric.GetCounter().GetValue()
			}
		}
	}
	return found
}
