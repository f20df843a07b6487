// Package idcollector shows to Prometheus whatever makes IDs: package promobserve a plugin, and the service
// itself. So both have the same names. A program that uses package generator by itself can use it, too.
//
//	registry.MustRegister(idcollector.New(func(context.Context) idcollector.Reading {
//		return idcollector.Reading{State: "by_hand", Ready: true, Stats: ids.Stats()}
//	}))
//
// Documentation of package promobserve lists the metrics.
package idcollector

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// A Reading is what there is to see at one scrape.
type Reading struct {
	// State is one of those that snowflakeplugin.Health documents. Another one is not shown.
	State string
	// Ready says whether an ID can be made now.
	Ready bool
	// WindowUntil is the end of the window, zero if there is none.
	WindowUntil time.Time
	// FailingSince is when the failures of extensions began, zero if the last one did not fail.
	FailingSince time.Time
	// Stats are those of the generator. Without an End there is no generator, and none is shown.
	Stats generator.Stats
	// Sources has the sources of numbers by their names. It may be nil.
	Sources map[string]segment.Stats
}

// A Collector reads at each scrape. Make it with [New]; the zero Collector cannot be used. It is safe for
// concurrent use if its function is.
type Collector struct {
	read func(context.Context) Reading

	ready, state, node, issued, waits, waited, steps *prometheus.Desc
	lead, windowEnd, extensions, failing, layoutEnd  *prometheus.Desc

	numbers, left, lasts, claims, failures, sourceFailing *prometheus.Desc // of each source
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector. It calls the function once for each scrape.
func New(read func(context.Context) Reading) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("snowflake_"+name, help, labels, nil)
	}
	source := func(name, help string) *prometheus.Desc { return desc("source_"+name, help, "source") }
	return &Collector{
		read:  read,
		ready: desc("ready", "Whether an ID can be made now."),
		state: desc("state", "The state of the generator: 1 for the current one, 0 for the others.",
			"state"),
		node:       desc("node", "The node number in use."),
		issued:     desc("ids_total", "IDs issued."),
		waits:      desc("waits_total", "Completed waits for the clock."),
		waited:     desc("waited_seconds_total", "Time spent in completed waits for the clock."),
		steps:      desc("clock_steps_total", "How often the wall clock was seen to step back."),
		lead:       desc("lead_seconds", "How far the last ID is ahead of the wall clock."),
		windowEnd:  desc("window_end_timestamp_seconds", "The end of the window of the leased node."),
		extensions: desc("window_extensions_total", "How often the window has grown or moved."),
		failing: desc("failing_since_timestamp_seconds",
			"When the current failures of extensions began."),
		layoutEnd: desc("layout_end_timestamp_seconds", "When the time bits of the layout run out."),
		numbers:   source("numbers_total", "Numbers that the source has given out."),
		left:      source("left", "Numbers that the source can give out without its store."),
		lasts: source("lasts_seconds",
			"How long the numbers that are left last at the present rate."),
		claims:   source("claims_total", "Claims of blocks that the store has granted."),
		failures: source("claim_failures_total", "Claims of blocks that failed."),
		sourceFailing: source("failing_since_timestamp_seconds",
			"When the current failures of claims began."),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.ready, c.state, c.node, c.issued, c.waits, c.waited, c.steps,
		c.lead, c.windowEnd, c.extensions, c.failing, c.layoutEnd,
		c.numbers, c.left, c.lasts, c.claims, c.failures, c.sourceFailing,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	r := c.read(context.Background()) // a scrape brings no context
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	instant := func(d *prometheus.Desc, t time.Time, labels ...string) {
		if !t.IsZero() {
			gauge(d, float64(t.UnixMilli())/1000, labels...)
		}
	}

	gauge(c.ready, one(r.Ready))
	for _, state := range states() {
		gauge(c.state, one(r.State == state), state)
	}
	instant(c.windowEnd, r.WindowUntil)
	instant(c.failing, r.FailingSince)
	for name, s := range r.Sources {
		counter(c.numbers, float64(s.Issued), name)
		gauge(c.left, float64(s.Left), name)
		if s.Lasts > 0 { // otherwise the rate is not known
			gauge(c.lasts, s.Lasts.Seconds(), name)
		}
		counter(c.claims, float64(s.Claims), name)
		counter(c.failures, float64(s.Failures), name)
		instant(c.sourceFailing, s.FailingSince, name)
	}
	if r.Stats.End.IsZero() {
		return // no generator yet, or none of its own: counters that begin at 0 would be a lie
	}
	gauge(c.node, float64(r.Stats.Node))
	counter(c.issued, float64(r.Stats.Issued))
	counter(c.waits, float64(r.Stats.Waits))
	counter(c.waited, r.Stats.Waited.Seconds())
	counter(c.steps, float64(r.Stats.ClockSteps))
	counter(c.extensions, float64(r.Stats.Extensions))
	gauge(c.lead, r.Stats.Lead.Seconds())
	instant(c.layoutEnd, r.Stats.End)
}

// states are those that the documentation of snowflakeplugin.Health lists.
func states() []string {
	return []string{"idle", "leased", "by_hand", "contested", "source", "overdue", "lost", "closed"}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
