package keys

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

const (
	// rowsOfBatch is how many rows an INSERT has whose speed is shown.
	rowsOfBatch = 500
	// looks is how often a page is read for a figure that is shown.
	looks = 100
	// parts is into how many parts the growth of a table is divided.
	parts = 10
)

// An effort is how much is done for a figure.
type effort struct {
	rows    int           // of each kind of key, in batches by the driver
	batch   int           // how many rows an INSERT has
	looks   int           // how often a page is read that an index finds
	growths int           // how often a table grows to them, each time from nothing
	rounds  int           // how often everything is measured, and each part of a growth
	spell   time.Duration // how long the writers of single rows work in a round
}

// fewer is how often that is measured which takes longer: the reading of a whole table.
func (e effort) fewer() int { return max(e.rounds/2, 1) }

// more is how often that is measured which would take too little time otherwise: the inserts by GORM.
func (e effort) more() int { return e.rounds * max(e.growths, 2) }

// batches is how many batches a round inserts.
func (e effort) batches() int { return max(e.rows/parts/e.rounds/e.batch, 1) }

// The names of what is measured, as the raw data has them.
const (
	single    = "rows/s, 8 writers"
	byGORM    = "rows/s, GORM"
	reads     = "reads/s by key"
	byKey     = "newest 100 by key, ms"
	byTime    = "newest 100 by time, ms"
	byIndexed = "newest 100 by indexed time, ms"
)

// growth is the name of the speed in a part of the rows, from 1 to parts.
func growth(part int) string { return fmt.Sprintf("rows/s, tenth %d", part) }

// A figure is what was measured of one kind of key on one server.
type figure struct {
	Server   string               `json:"server"`
	Strategy string               `json:"strategy"`
	Rows     int64                `json:"bytes_of_rows"`
	Indexes  int64                `json:"bytes_of_indexes"`
	Samples  map[string][]float64 `json:"samples"` // one of each round, in the order of the rounds
}

// A measure is one thing that is measured of every kind of key.
type measure struct {
	name   string
	rounds int
	sample func(ctx context.Context, c *contender) (float64, error)
}

func (e effort) measures() []measure {
	var all []measure
	for nth := range e.growths {
		if nth > 0 {
			again := func(ctx context.Context, c *contender) (float64, error) { return 0, c.recreate(ctx) }
			all = append(all, measure{"", 1, again})
		}
		for part := range parts {
			all = append(all, measure{growth(part + 1), e.rounds,
				func(ctx context.Context, c *contender) (float64, error) { return c.grow(ctx, e.batches()) }})
		}
	}
	newest := func(column string) func(ctx context.Context, c *contender) (float64, error) {
		return func(ctx context.Context, c *contender) (float64, error) { return c.page(ctx, column) }
	}
	return append(all,
		measure{"", 1, func(ctx context.Context, c *contender) (float64, error) { return 0, c.weigh(ctx) }},
		measure{reads, e.rounds, func(ctx context.Context, c *contender) (float64, error) { return c.read(ctx) }},
		measure{byKey, e.rounds, newest("id")},
		measure{byTime, e.fewer(), newest("created_at")},
		measure{"", 1, func(ctx context.Context, c *contender) (float64, error) { return 0, c.index(ctx) }},
		measure{byIndexed, e.rounds, newest("created_at")},
		measure{byGORM, e.more(), func(ctx context.Context, c *contender) (float64, error) {
			return c.growByGORM(ctx, e.batches())
		}},
		// These come last, because each kind of key gets as many rows as its writers store in their time.
		measure{single, e.rounds, func(ctx context.Context, c *contender) (float64, error) {
			return c.insertSingly(ctx, e.spell)
		}},
	)
}

// compete measures all kinds of keys. Each measure is divided into rounds, and in a round all kinds take
// turns in a random order. So a slow moment of the machine meets all of them, and what a server does in the
// background for one of them does not always meet the same other one.
func compete(ctx context.Context, all []*contender, e effort) error {
	turns := slices.Clone(all)
	for _, m := range e.measures() {
		for range m.rounds {
			rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
			for _, c := range turns {
				if m.name == byKey && !c.strategy.ordered {
					continue // the greatest keys are not those of the newest rows
				}
				runtime.GC() // so that none has to wait for the collector because of another one's garbage
				value, err := m.sample(ctx, c)
				if err != nil {
					return fmt.Errorf("%s: %w", c.strategy.name, err)
				}
				if m.name != "" {
					c.figure.Samples[m.name] = append(c.figure.Samples[m.name], digits(value))
				}
			}
		}
	}
	return nil
}

// digits keeps what a figure is worth, so that the raw data can be read.
func digits(value float64) float64 {
	if value >= 1000 {
		return math.Round(value)
	}
	return math.Round(value*1e4) / 1e4
}
