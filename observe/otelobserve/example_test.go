package otelobserve_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/observe/otelobserve"
)

// The metrics of a plugin. A program has a reader that sends them, such as sdkmetric.NewPeriodicReader.
func ExampleMetrics() {
	ctx := context.Background()
	db, err := gorm.Open(sqlite.Open("file:metered?mode=memory&cache=shared"), &gorm.Config{})
	check(err)
	plugin := snowflakeplugin.New()
	check(db.Use(plugin))
	defer plugin.Close(ctx)

	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	registration, err := otelobserve.Metrics(provider.Meter("shop"), plugin)
	check(err)
	defer func() { check(registration.Unregister()) }()

	var collected metricdata.ResourceMetrics
	check(reader.Collect(ctx, &collected))
	for _, metric := range collected.ScopeMetrics[0].Metrics {
		if ready, is := metric.Data.(metricdata.Gauge[int64]); is && metric.Name == "snowflake.ready" {
			fmt.Println(metric.Name, ready.DataPoints[0].Value)
		}
	}
	// Output: snowflake.ready 1
}

// The span of a create names the IDs of its rows.
func ExampleAttributes() {
	db, err := gorm.Open(sqlite.Open("file:traced?mode=memory&cache=shared"), &gorm.Config{})
	check(err)
	plugin := snowflakeplugin.New()
	check(db.Use(plugin))
	defer plugin.Close(context.Background())
	check(db.Use(otelobserve.Attributes()))
	type Order struct {
		ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	}
	check(db.AutoMigrate(&Order{}))

	spans := tracetest.NewInMemoryExporter() // a program has an exporter that sends them
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("shop")
	ctx, span := tracer.Start(context.Background(), "store orders")
	orders := make([]Order, 3)
	check(db.WithContext(ctx).Create(&orders).Error)
	span.End()

	for _, attribute := range spans.GetSpans()[0].Attributes {
		switch attribute.Key {
		case "snowflake.model", "snowflake.count":
			fmt.Println(attribute.Key, attribute.Value.Emit())
		case "snowflake.id.first":
			fmt.Println(attribute.Key, "is that of the first row:", attribute.Value.Emit() == orders[0].ID.String())
		}
	}
	// Output:
	// snowflake.model Order
	// snowflake.count 3
	// snowflake.id.first is that of the first row: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
