package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve"
)

// Order is what the shop sells.
type Order struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Total int64
}

// grace is how long requests that have begun may take after ctx has ended.
const grace = 5 * time.Second

// serve sells until ctx ends, and answers on the listener.
func serve(ctx context.Context, listener net.Listener, file string) (err error) {
	db, err := gorm.Open(sqlite.Open(file+"?_busy_timeout=10000"), &gorm.Config{})
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	plugin := snowflakeplugin.New()
	if err := db.Use(plugin); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plugin.Close(context.WithoutCancel(ctx))) }()
	if err := db.AutoMigrate(&Order{}); err != nil {
		return err
	}

	server := &http.Server{Handler: handler(plugin), ReadHeaderTimeout: grace}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	sold := sell(ctx, db)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(sold, server.Shutdown(end))
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// handler has the metrics, and the readiness probe that tells a load balancer where not to send creates.
func handler(plugin *snowflakeplugin.Plugin) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(promobserve.New(plugin))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		health := plugin.Health(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if !health.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(health) // the client is gone if this fails
	})
	return mux
}

// sell stores ten orders a second.
func sell(ctx context.Context, db *gorm.DB) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := db.WithContext(ctx).Create(&Order{Total: 990}).Error; err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}
