package ecosystem_test

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"gorm.io/gorm"
	"gorm.io/plugin/opentelemetry/tracing"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/observe/otelobserve"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type basket struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Items []basketItem
}

type basketItem struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	BasketID snowflakeplugin.ID
}

// The tracing plugin begins a span for every statement. The attributes stand in the span of the create,
// whatever the order of Use, and those of nested creates stand in spans of their own.
func TestTheSpansOfTheTracingPluginHaveTheIDs(t *testing.T) {
	for name, tracingFirst := range map[string]bool{"tracing first": true, "tracing last": false} {
		dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
			t.Run(name, func(t *testing.T) { spansHaveIDs(t, target, tracingFirst) })
		})
	}
}

func spansHaveIDs(t *testing.T, target dbtest.Target, tracingFirst bool) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	plugins := []gorm.Plugin{
		tracing.NewPlugin(tracing.WithTracerProvider(provider), tracing.WithoutMetrics()),
		snowflakeplugin.New(snowflakeplugin.WithNode(1)),
		otelobserve.Attributes(),
	}
	if !tracingFirst {
		slices.Reverse(plugins)
	}
	db := target.Open(t, &gorm.Config{})
	for _, plugin := range plugins {
		if err := db.Use(plugin); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.AutoMigrate(&basket{}, &basketItem{}); err != nil {
		t.Fatal(err)
	}
	row := basket{Items: []basketItem{{}, {}}}
	if err := db.Create(&row).Error; err != nil {
		t.Fatal(err)
	}
	ids := map[string][2]string{} // the first and the last, by model
	for _, span := range recorder.Ended() {
		set := attribute.NewSet(span.Attributes()...)
		if model, ok := set.Value("snowflake.model"); ok {
			first, _ := set.Value("snowflake.id.first")
			last, _ := set.Value("snowflake.id.last")
			ids[model.AsString()] = [2]string{first.AsString(), last.AsString()}
		}
	}
	if want := [2]string{row.ID.String(), ""}; ids["basket"] != want {
		t.Errorf("the span of the basket has %q, want %q", ids["basket"], want)
	}
	if want := [2]string{row.Items[0].ID.String(), row.Items[1].ID.String()}; ids["basketItem"] != want {
		t.Errorf("the span of the items has %q, want %q", ids["basketItem"], want)
	}
}
