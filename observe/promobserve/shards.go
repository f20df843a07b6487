package promobserve

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
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
	const after = shardsName + "_after"
	callbacks := db.Callback()
	return errors.Join(
		callbacks.Create().Before("*").Register(shardsName, c.begin),
		callbacks.Create().After("*").Register(after, c.end),
		callbacks.Query().Before("*").Register(shardsName, c.begin),
		callbacks.Query().After("*").Register(after, c.end),
		callbacks.Update().Before("*").Register(shardsName, c.begin),
		callbacks.Update().After("*").Register(after, c.end),
		callbacks.Delete().Before("*").Register(shardsName, c.begin),
		callbacks.Delete().After("*").Register(after, c.end),
		callbacks.Row().Before("*").Register(shardsName, c.begin),
		callbacks.Row().After("*").Register(after, c.end),
		callbacks.Raw().Before("*").Register(shardsName, c.begin),
		callbacks.Raw().After("*").Register(after, c.end),
	)
}

// begun is the key of the time at which a statement began, in the settings of the statement.
type begun struct{ of *ShardCollector }

func (c *ShardCollector) begin(tx *gorm.DB) {
	if !tx.DryRun {
		tx.Statement.Settings.Store(begun{c}, time.Now())
	}
}

func (c *ShardCollector) end(tx *gorm.DB) {
	// A statement that runs once more would find the time of the first one.
	value, _ := tx.Statement.Settings.LoadAndDelete(begun{c})
	began, ok := value.(time.Time)
	if !ok {
		return
	}
	shard, routed := c.router.ShardOf(tx)
	if !routed {
		return
	}
	label := "several"
	if shard >= 0 {
		label = strconv.Itoa(shard)
	}
	c.seconds.WithLabelValues(label).Observe(time.Since(began).Seconds())
	switch {
	case tx.Error == nil:
		c.rows.WithLabelValues(label).Add(float64(max(tx.RowsAffected, 0))) // -1 for open rows
	case !errors.Is(tx.Error, gorm.ErrRecordNotFound):
		c.errors.WithLabelValues(label).Inc()
	}
}
