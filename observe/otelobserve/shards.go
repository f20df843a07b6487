package otelobserve

import (
	"cmp"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardwatch"
)

// A Router tells the shard of a statement. A *snowflakeplugin.Router is one.
type Router interface {
	ShardOf(tx *gorm.DB) (shard int, routed bool)
}

var _ Router = (*snowflakeplugin.Router)(nil)

// shards is the plugin of GORM that [Shards] returns.
type shards struct {
	router       Router
	rows, errors metric.Int64Counter
	seconds      metric.Float64Histogram
}

// Shards returns a plugin of GORM that counts the statements of a router by shard, with their rows, errors
// and times, in the databases that use it. A row that is not found is no error. The time is that of the
// callbacks of GORM: it includes hooks, and of a write the transaction that GORM begins for it. It returns
// the errors of the meter.
func Shards(meter metric.Meter, router Router) (gorm.Plugin, error) {
	rows, err1 := meter.Int64Counter("snowflake.shard.rows", metric.WithUnit("{row}"),
		metric.WithDescription("Rows that statements of the shard have read or written."))
	failures, err2 := meter.Int64Counter("snowflake.shard.errors", metric.WithUnit("{statement}"),
		metric.WithDescription("Statements of the shard that failed."))
	seconds, err3 := meter.Float64Histogram("snowflake.shard.statement", metric.WithUnit("s"),
		metric.WithDescription("Statements of the shard, by the time that they took."),
		metric.WithExplicitBucketBoundaries(0.0005, 0.002, 0.008, 0.032, 0.128, 0.512, 2.048, 8.192))
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("otelobserve: %w", err)
	}
	return &shards{router, rows, failures, seconds}, nil
}

const shardsName = "snowflake:shard_meter"

func (*shards) Name() string { return shardsName }

func (s *shards) Initialize(db *gorm.DB) error {
	return shardwatch.Register(db, shardsName, s.router, s.count)
}

func (s *shards) count(done shardwatch.Statement) {
	shard := metric.WithAttributeSet(attribute.NewSet(attribute.String("shard", done.Shard)))
	s.seconds.Record(done.Context, done.Took.Seconds(), shard)
	s.rows.Add(done.Context, done.Rows, shard)
	if done.Failed {
		s.errors.Add(done.Context, 1, shard)
	}
}
