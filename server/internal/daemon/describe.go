package daemon

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
)

// describe declares the metrics that are read when somebody asks.
func (d *Daemon) describe() {
	m := d.metrics
	m.Gauge("snowflaked_ready", "gauge", "1 if the service should get requests.", func() []metrics.Value {
		if ready, _ := d.Ready(); ready {
			return metrics.Number(1)
		}
		return metrics.Number(0)
	})
	m.Gauge("snowflaked_node", "gauge", "The node number. There is none before it is leased.",
		func() []metrics.Value {
			if stats, ok := d.generator.Stats(); ok {
				return metrics.Number(float64(stats.Node))
			}
			return nil
		})
	m.Gauge("snowflaked_window_seconds", "gauge", "How long IDs go on if the database does not answer.",
		func() []metrics.Value {
			stats, ok := d.generator.Stats()
			if !ok || stats.WindowEnd.IsZero() {
				return metrics.Number(0)
			}
			return metrics.Number(max(time.Until(stats.WindowEnd).Seconds(), 0))
		})
	m.Gauge("snowflaked_counter_left", "gauge", "How many numbers a source can give out without its database.",
		func() (all []metrics.Value) {
			for _, name := range slices.Sorted(maps.Keys(d.counters.ByName)) {
				stats := d.counters.ByName[name].Stats()
				all = append(all, metrics.Value{Labels: fmt.Sprintf("source=%q", name), Value: float64(stats.Left)})
			}
			return all
		})
	m.Gauge("snowflaked_clock_waits_total", "counter", "How often a request waited for the clock.",
		func() []metrics.Value {
			stats, _ := d.generator.Stats()
			return metrics.Number(float64(stats.Waits))
		})
	m.Gauge("snowflaked_clock_steps_total", "counter", "How often the clock was set back.",
		func() []metrics.Value {
			stats, _ := d.generator.Stats()
			return metrics.Number(float64(stats.ClockSteps))
		})
	m.Gauge("snowflaked_connections", "gauge", "How many connections there are.", func() []metrics.Value {
		c := d.limiter.Counts()
		return []metrics.Value{
			{Labels: `state="idle"`, Value: float64(c.Idle)},
			{Labels: `state="active"`, Value: float64(c.Open - c.Idle)},
		}
	})
	m.Gauge("snowflaked_connections_ended_total", "counter",
		"How many connections were ended because there were too many.", func() []metrics.Value {
			c := d.limiter.Counts()
			return []metrics.Value{
				{Labels: `state="idle"`, Value: float64(c.Evicted)},
				{Labels: `state="refused"`, Value: float64(c.Refused)},
			}
		})
	m.Gauge("snowflaked_address_refused_total", "counter",
		"What was refused because one client address had or made too many.", func() []metrics.Value {
			c := d.limiter.Counts()
			return []metrics.Value{
				{Labels: `what="connection"`, Value: float64(c.Crowded)},
				{Labels: `what="request"`, Value: float64(c.Slowed)},
			}
		})
	m.Gauge("snowflaked_resp_strayed_total", "counter",
		"Connections of the protocol of Redis that were ended because they spoke HTTP.", func() []metrics.Value {
			return metrics.Number(float64(d.resp.Strayed()))
		})
	m.Gauge("snowflaked_addresses", "gauge", "How many client addresses are remembered for their limits.",
		func() []metrics.Value { return metrics.Number(float64(d.limiter.Counts().Addresses)) })
	m.Gauge("snowflaked_heap_bytes", "gauge", "The memory of the heap.", func() []metrics.Value {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return metrics.Number(max(float64(stats.HeapAlloc)-float64(len(d.ballast)), 0))
	})
	m.Gauge("snowflaked_info", "gauge", "The version, and the version of Go.", func() []metrics.Value {
		return []metrics.Value{{Labels: fmt.Sprintf("version=%q,go=%q", Version(), runtime.Version()), Value: 1}}
	})
}

// Version is the version of the module, or of the checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// info returns the lines of the command INFO.
func (d *Daemon) info() []string {
	stats, leased := d.generator.Stats()
	ready, why := d.Ready()
	node := "none"
	if leased {
		node = fmt.Sprint(stats.Node)
	}
	c := d.limiter.Counts()
	return []string{
		"# Server", "server:snowflaked", "version:" + Version(),
		fmt.Sprintf("uptime_in_seconds:%d", int64(time.Since(d.started).Seconds())),
		"# Clients", fmt.Sprintf("connected_clients:%d", c.Open),
		"# Snowflake", fmt.Sprintf("ready:%t", ready), "state:" + why, "layout:" + d.settings.Layout,
		"node:" + node, fmt.Sprintf("issued:%d", stats.Issued),
	}
}
