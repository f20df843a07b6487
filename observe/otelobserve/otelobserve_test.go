package otelobserve_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/observe/otelobserve"
)

type order struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Items []item
}

type item struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	OrderID snowflakeplugin.ID
}

// plainOrder is stored on shards.
type plainOrder struct {
	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
}

// plain has no ID of the plugin.
type plain struct {
	Name string
}

func open(t *testing.T) (*gorm.DB, *snowflakeplugin.Plugin) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db") + "?_busy_timeout=10000&_synchronous=OFF"
	db, err := gorm.Open(sqlite.Open(file), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	if err := db.Use(plugin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = plugin.Close(t.Context())
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
	})
	if err := db.AutoMigrate(&order{}, &item{}, &plain{}); err != nil {
		t.Fatal(err)
	}
	return db, plugin
}

// collect returns the points of every instrument, by name.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]metricdata.Aggregation {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Aggregation{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m.Data
		}
	}
	return found
}

func TestMetricsTellWhatThePluginHasDoneAndHowItIs(t *testing.T) {
	t.Parallel()
	db, plugin := open(t)
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
	registration, err := otelobserve.Metrics(meter, plugin, attribute.String("plugin", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Create(make([]order, 40)).Error; err != nil {
		t.Fatal(err)
	}

	found := collect(t, reader)
	ids := found["snowflake.ids"].(metricdata.Sum[int64])
	if got := ids.DataPoints[0]; got.Value != 40 || !ids.IsMonotonic || !has(got.Attributes, "plugin", "orders") {
		t.Errorf("snowflake.ids is %+v, want 40 with the plugin's name", got)
	}
	ready := found["snowflake.ready"].(metricdata.Gauge[int64]).DataPoints[0]
	if ready.Value != 1 || !has(ready.Attributes, "state", "leased") || !has(ready.Attributes, "plugin", "orders") {
		t.Errorf("snowflake.ready is %+v", ready)
	}
	if left := found["snowflake.window.remaining"].(metricdata.Gauge[float64]).DataPoints[0].Value; left <= 0 {
		t.Errorf("a window that was granted now has %v seconds left", left)
	}
	for _, name := range []string{
		"snowflake.node", "snowflake.waits", "snowflake.waited", "snowflake.clock_steps", "snowflake.lead",
		"snowflake.window.extensions", "snowflake.layout.remaining",
	} {
		if found[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}

	if err := plugin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready = collect(t, reader)["snowflake.ready"].(metricdata.Gauge[int64]).DataPoints[0]
	if ready.Value != 0 || !has(ready.Attributes, "state", "closed") {
		t.Errorf("after Close snowflake.ready is %+v", ready)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if left := collect(t, reader)["snowflake.ready"]; left != nil {
		t.Errorf("after Unregister there is %+v", left)
	}
}

func TestTheSpanOfACreateHasTheIDs(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	if err := db.Use(otelobserve.Attributes()); err != nil {
		t.Fatal(err)
	}
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	attributes := func(create func(tx *gorm.DB) error) attribute.Set {
		ctx, span := tracer.Start(t.Context(), "create")
		if err := create(db.WithContext(ctx)); err != nil {
			t.Fatal(err)
		}
		span.End()
		ended := recorder.Ended()
		return attribute.NewSet(ended[len(ended)-1].Attributes()...)
	}

	one := order{}
	got := attributes(func(tx *gorm.DB) error { return tx.Create(&one).Error })
	if !has(got, "snowflake.id.first", one.ID.String()) || !has(got, "snowflake.model", "order") {
		t.Errorf("one row: %v, want %s", got.ToSlice(), one.ID)
	}
	many := []*order{{}, {}, {}}
	got = attributes(func(tx *gorm.DB) error { return tx.Create(many).Error })
	if !has(got, "snowflake.id.first", many[0].ID.String()) || !has(got, "snowflake.id.last", many[2].ID.String()) {
		t.Errorf("three rows: %v, want %s to %s", got.ToSlice(), many[0].ID, many[2].ID)
	}
	if n, ok := got.Value("snowflake.count"); !ok || n.AsInt64() != 3 {
		t.Errorf("three rows: %v", got.ToSlice())
	}
	for name, create := range map[string]func(tx *gorm.DB) error{
		"an untagged model": func(tx *gorm.DB) error { return tx.Create(&plain{Name: "x"}).Error },
		"a plain table":     func(tx *gorm.DB) error { return tx.Table("plains").Create(map[string]any{"name": "y"}).Error },
	} {
		if got := attributes(create); got.Len() != 0 {
			t.Errorf("%s: %v, want no attributes", name, got.ToSlice())
		}
	}
	// A map has its ID in another place than the struct, and must not be read as one.
	got = attributes(func(tx *gorm.DB) error { return tx.Model(&order{}).Create([]map[string]any{{}, {}}).Error })
	if n, ok := got.Value("snowflake.count"); !ok || n.AsInt64() != 2 {
		t.Errorf("maps: %v", got.ToSlice())
	}
	// No span, and one that is not recorded: nothing happens.
	if err := db.Create(&order{}).Error; err != nil {
		t.Fatal(err)
	}
}

func has(set attribute.Set, key attribute.Key, want string) bool {
	return slices.ContainsFunc(set.ToSlice(), func(kv attribute.KeyValue) bool {
		return kv.Key == key && kv.Value.AsString() == want
	})
}

func TestShardsAreCountedApart(t *testing.T) {
	t.Parallel()
	db, _ := open(t)
	router, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &plainOrder{})
	if err != nil {
		t.Fatal(err)
	}
	if err := router.AutoMigrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader := sdkmetric.NewManualReader()
	shards, err := otelobserve.Shards(
		sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), router)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Use(shards); err != nil {
		t.Fatal(err)
	}
	row := &plainOrder{}
	if err := router.Create(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	handle, err := router.DB(t.Context(), row, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := handle.Take(new(plainOrder), row.ID).Error; err != nil {
		t.Fatal(err)
	}
	if err := handle.Where("no_such_column = 1").Take(new(plainOrder)).Error; err == nil {
		t.Fatal("a row was found")
	}
	shard, err := router.Shard(row.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := attribute.NewSet(attribute.String("shard", strconv.Itoa(shard)))
	found := collect(t, reader)
	for name, value := range map[string]int64{"snowflake.shard.rows": 2, "snowflake.shard.errors": 1} {
		sum, _ := found[name].(metricdata.Sum[int64])
		if len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != value || !sum.DataPoints[0].Attributes.Equals(&want) {
			t.Errorf("%s is %+v, want %d on shard %d", name, sum.DataPoints, value, shard)
		}
	}
	times, _ := found["snowflake.shard.statement"].(metricdata.Histogram[float64])
	if len(times.DataPoints) != 1 || times.DataPoints[0].Count != 3 || !times.DataPoints[0].Attributes.Equals(&want) {
		t.Errorf("the times are %+v", times.DataPoints)
	}
}
