package promobserve

import (
	"context"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve/idcollector"
)

// A Subject is what a collector reads. A *snowflakeplugin.Plugin is one.
type Subject interface {
	Health(ctx context.Context) snowflakeplugin.Health
	Stats() generator.Stats
}

var _ Subject = (*snowflakeplugin.Plugin)(nil)

// A Collector reads one plugin at each scrape. Make it with [New]; the zero Collector cannot be used. It is
// safe for concurrent use.
type Collector = idcollector.Collector

// New returns a collector of a plugin. The plugin does not have to be in use yet.
func New(subject Subject) *Collector {
	return idcollector.New(func(ctx context.Context) idcollector.Reading {
		health := subject.Health(ctx)
		return idcollector.Reading{
			State: health.State, Ready: health.Ready, WindowUntil: health.WindowUntil,
			FailingSince: health.FailingSince, Stats: subject.Stats(), Sources: health.Sources,
		}
	})
}
