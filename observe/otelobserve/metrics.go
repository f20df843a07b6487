package otelobserve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// A Subject is what [Metrics] reads. A *snowflakeplugin.Plugin is one.
type Subject interface {
	Health(ctx context.Context) snowflakeplugin.Health
	Stats() generator.Stats
}

var _ Subject = (*snowflakeplugin.Plugin)(nil)

// instruments are those of one plugin.
type instruments struct {
	ready, node                   metric.Int64ObservableGauge
	ids, waits, steps, extensions metric.Int64ObservableCounter
	waited                        metric.Float64ObservableCounter
	lead, windowLeft, layoutLeft  metric.Float64ObservableGauge
}

// Metrics registers the instruments of a plugin, with attributes that tell it from other plugins. The
// plugin does not have to be in use yet. Unregister of the result ends the readings. It returns the
// errors of the meter.
func Metrics(
	meter metric.Meter, subject Subject, attributes ...attribute.KeyValue,
) (metric.Registration, error) {
	m, all, err := newInstruments(meter)
	if err != nil {
		return nil, fmt.Errorf("otelobserve: %w", err)
	}
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	registration, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		m.observe(o, subject.Health(ctx), subject.Stats(), time.Now(), attributes, set)
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("otelobserve: %w", err)
	}
	return registration, nil
}

func (m instruments) observe(o metric.Observer, h snowflakeplugin.Health, s generator.Stats, now time.Time,
	attributes []attribute.KeyValue, set metric.MeasurementOption,
) {
	ready := int64(0)
	if h.Ready {
		ready = 1
	}
	state := slices.Concat(attributes, []attribute.KeyValue{attribute.String("state", h.State)})
	o.ObserveInt64(m.ready, ready, metric.WithAttributes(state...))
	if !h.WindowUntil.IsZero() {
		o.ObserveFloat64(m.windowLeft, h.WindowUntil.Sub(now).Seconds(), set)
	}
	if s.End.IsZero() {
		return // no generator yet, or none of its own: counters that begin at 0 would be a lie
	}
	o.ObserveInt64(m.node, s.Node, set)
	o.ObserveInt64(m.ids, int64(s.Issued), set)            //nolint:gosec // a layout has 63 bits
	o.ObserveInt64(m.waits, int64(s.Waits), set)           //nolint:gosec // at most one an ID
	o.ObserveInt64(m.steps, int64(s.ClockSteps), set)      //nolint:gosec // at most one an ID
	o.ObserveInt64(m.extensions, int64(s.Extensions), set) //nolint:gosec // at most one an ID
	o.ObserveFloat64(m.waited, s.Waited.Seconds(), set)
	o.ObserveFloat64(m.lead, s.Lead.Seconds(), set)
	o.ObserveFloat64(m.layoutLeft, s.End.Sub(now).Seconds(), set)
}

// newInstruments also returns all instruments as a list, which RegisterCallback wants.
func newInstruments(meter metric.Meter) (m instruments, all []metric.Observable, err error) {
	keep := func(o metric.Observable, e error) {
		all = append(all, o)
		if err == nil {
			err = e
		}
	}
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, e := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		keep(g, e)
		return g
	}
	seconds := func(name, help string) metric.Float64ObservableGauge {
		g, e := meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(help))
		keep(g, e)
		return g
	}
	counter := func(name, unit, help string) metric.Int64ObservableCounter {
		c, e := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
		keep(c, e)
		return c
	}
	m.ready = gauge("snowflake.ready", "1", "Whether an ID can be made now.")
	m.node = gauge("snowflake.node", "1", "The node number in use.")
	m.ids = counter("snowflake.ids", "{id}", "IDs issued.")
	m.waits = counter("snowflake.waits", "{wait}", "Completed waits for the clock.")
	m.steps = counter("snowflake.clock_steps", "{step}", "How often the wall clock was seen to step back.")
	m.extensions = counter("snowflake.window.extensions", "{extension}",
		"How often the window has grown or moved.")
	m.lead = seconds("snowflake.lead", "How far the last ID is ahead of the wall clock.")
	m.windowLeft = seconds("snowflake.window.remaining", "Time until the window of the leased node ends.")
	m.layoutLeft = seconds("snowflake.layout.remaining", "Time until the time bits of the layout run out.")
	waited, e := meter.Float64ObservableCounter("snowflake.waited", metric.WithUnit("s"),
		metric.WithDescription("Time spent in completed waits for the clock."))
	keep(waited, e)
	m.waited = waited
	return m, all, err
}
