package promobserve_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve"
)

// A program that Prometheus scrapes.
func Example() {
	db, err := gorm.Open(sqlite.Open("file:scraped?mode=memory&cache=shared"), &gorm.Config{})
	check(err)
	plugin := snowflakeplugin.New()
	check(db.Use(plugin))
	defer plugin.Close(context.Background())

	registry := prometheus.NewRegistry()
	registry.MustRegister(promobserve.New(plugin))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	// A program calls http.Handle("GET /metrics", handler). This is one scrape:
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "snowflake_ready ") || strings.HasPrefix(line, `snowflake_state{state="leased"} `) {
			fmt.Print(line)
		}
	}
	// Output:
	// snowflake_ready 1
	// snowflake_state{state="leased"} 1
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
