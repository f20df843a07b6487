package promobserve

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// A Subject is what a collector reads. A *snowflakeplugin.Plugin is one.
type Subject interface {
	Health(ctx context.Context) snowflakeplugin.Health
	Stats() generator.Stats
}

var _ Subject = (*snowflakeplugin.Plugin)(nil)

// A Collector reads one plugin at each scrape. Make it with [New]; the zero Collector cannot be used. It is
// safe for concurrent use.
type Collector struct {
	subject Subject

	ready, state, node, issued, waits, waited, steps *prometheus.Desc
	lead, windowEnd, extensions, failing, layoutEnd  *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector of a plugin. The plugin does not have to be in use yet.
func New(subject Subject) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("snowflake_"+name, help, labels, nil)
	}
	return &Collector{
		subject: subject,
		ready:   desc("ready", "Whether an ID can be made now."),
		state:   desc("state", "The state of the plugin: 1 for the current one, 0 for the others.", "state"),
		node:    desc("node", "The node number in use."),
		issued:  desc("ids_total", "IDs issued."),
		waits:   desc("waits_total", "Completed waits for the clock."),
		waited:  desc("waited_seconds_total", "Time spent in completed waits for the clock."),
		steps:   desc("clock_steps_total", "How often the wall clock was seen to step back."),
		lead:    desc("lead_seconds", "How far the last ID is ahead of the wall clock."),
		windowEnd: desc("window_end_timestamp_seconds",
			"The end of the window of the leased node."),
		extensions: desc("window_extensions_total", "How often the window has grown or moved."),
		failing: desc("failing_since_timestamp_seconds",
			"When the current failures of extensions began."),
		layoutEnd: desc("layout_end_timestamp_seconds", "When the time bits of the layout run out."),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.ready, c.state, c.node, c.issued, c.waits, c.waited, c.steps,
		c.lead, c.windowEnd, c.extensions, c.failing, c.layoutEnd,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	health, stats := c.subject.Health(context.Background()), c.subject.Stats()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value)
	}
	instant := func(d *prometheus.Desc, t time.Time) {
		if !t.IsZero() {
			gauge(d, float64(t.UnixMilli())/1000)
		}
	}

	gauge(c.ready, one(health.Ready))
	for _, state := range states() {
		gauge(c.state, one(health.State == state), state)
	}
	instant(c.windowEnd, health.WindowUntil)
	instant(c.failing, health.FailingSince)
	if stats.End.IsZero() {
		return // no generator yet, or none of its own: counters that begin at 0 would be a lie
	}
	gauge(c.node, float64(stats.Node))
	counter(c.issued, float64(stats.Issued))
	counter(c.waits, float64(stats.Waits))
	counter(c.waited, stats.Waited.Seconds())
	counter(c.steps, float64(stats.ClockSteps))
	counter(c.extensions, float64(stats.Extensions))
	gauge(c.lead, stats.Lead.Seconds())
	instant(c.layoutEnd, stats.End)
}

// states are those that the documentation of [snowflakeplugin.Health] lists.
func states() []string {
	return []string{"idle", "leased", "by_hand", "contested", "source", "overdue", "lost", "closed"}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
