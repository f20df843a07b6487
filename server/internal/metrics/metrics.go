// Package metrics counts what the service does for its clients, for Prometheus.
//
//	m := metrics.New()
//	m.Observe("resp", "ok", took)
//	http.Handle("GET /metrics", m.Handler())
//
// The label values come from lists in the code, in the settings and in the token file, never from a request,
// so their number is bounded.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// prefix begins the names of what only a server has.
const prefix = "snowflake_server_"

// Set holds all metrics of a service. Make one with [New]. Its methods are safe for concurrent use.
type Set struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	issued   *prometheus.CounterVec
}

// New returns a set with the metrics of the process and of Go, and without those that Read and Add add.
func New() *Set {
	s := &Set{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_seconds", Help: "How long answered requests took.",
			Buckets: []float64{.0001, .00025, .0005, .001, .002, .005, .01, .025, .1, .25, 1, 5},
		}, []string{"protocol", "code"}),
		issued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "ids_total", Help: "IDs and numbers in answers, by the client's token.",
		}, []string{"source", "client"}),
	}
	s.Add(s.requests, s.issued, collectors.NewGoCollector(), collectors.NewBuildInfoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// Add adds collectors whose names are not there yet. Call it before the set is read.
func (s *Set) Add(all ...prometheus.Collector) { s.registry.MustRegister(all...) }

// Read adds a metric with the state as its label, which is read at each scrape. Call it before the set is
// read.
func (s *Set) Read(name, help string, kind prometheus.ValueType, state string, read func() float64) {
	opts := prometheus.Opts{Name: prefix + name, Help: help, ConstLabels: prometheus.Labels{"state": state}}
	if kind == prometheus.CounterValue {
		s.Add(prometheus.NewCounterFunc(prometheus.CounterOpts(opts), read))
		return
	}
	s.Add(prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts), read))
}

// Observe counts an answered request. The protocol and the code have to come from a fixed list.
func (s *Set) Observe(protocol, code string, took time.Duration) {
	s.requests.WithLabelValues(protocol, code).Observe(took.Seconds())
}

// Issued counts IDs of a source that is configured, for a client by the name of its token, which is empty
// where no token is required.
func (s *Set) Issued(source, client string, n int) {
	s.issued.WithLabelValues(source, client).Add(float64(n))
}

// Handler answers scrapes.
func (s *Set) Handler() http.Handler { return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}) }
