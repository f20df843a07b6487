package promobserve

import (
	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardwatch"
)

// A Router tells the shard of a statement. A *snowflakeplugin.Router is one.
type Router interface {
	ShardOf(tx *gorm.DB) (shard int, routed bool)
}

var _ Router = (*snowflakeplugin.Router)(nil)

// ShardCollector counts the statements of each shard of a router, and their rows, errors and times. Make it
// with [Shards]; the zero ShardCollector cannot be used. It is safe for concurrent use.
type ShardCollector struct {
	router       Router
	rows, errors *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
}

var (
	_ prometheus.Collector = (*ShardCollector)(nil)
	_ gorm.Plugin          = (*ShardCollector)(nil)
)

// Shards returns a collector of a router. It is a plugin of GORM as well, and counts the statements of the
// databases that use it:
//
//	shards := promobserve.Shards(router)
//	for _, db := range databases {
//		if err := db.Use(shards); err != nil {
//			return err
//		}
//	}
//	registry.MustRegister(shards)
//
// A row that is not found is no error. The time is that of the callbacks of GORM: it includes hooks, and of a
// write the transaction that GORM begins for it.
func Shards(router Router) *ShardCollector {
	labels := []string{"shard"}
	return &ShardCollector{
		router: router,
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "snowflake_shard_rows_total", Help: "Rows that statements of the shard have read or written.",
		}, labels),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "snowflake_shard_errors_total", Help: "Statements of the shard that failed.",
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "snowflake_shard_statement_seconds", Help: "Statements of the shard, by the time that they took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, labels),
	}
}

// Describe implements prometheus.Collector.
func (c *ShardCollector) Describe(out chan<- *prometheus.Desc) {
	c.rows.Describe(out)
	c.errors.Describe(out)
	c.seconds.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *ShardCollector) Collect(out chan<- prometheus.Metric) {
	c.rows.Collect(out)
	c.errors.Collect(out)
	c.seconds.Collect(out)
}

const shardsName = "snowflake:shard_metrics"

// Name implements gorm.Plugin.
func (*ShardCollector) Name() string { return shardsName }

// Initialize implements gorm.Plugin.
func (c *ShardCollector) Initialize(db *gorm.DB) error {
	return shardwatch.Register(db, shardsName, c.router, c.count)
}

func (c *ShardCollector) count(s shardwatch.Statement) {
	c.seconds.WithLabelValues(s.Shard).Observe(s.Took.Seconds())
	c.rows.WithLabelValues(s.Shard).Add(float64(s.Rows))
	if s.Failed {
		c.errors.WithLabelValues(s.Shard).Inc()
	}
}
