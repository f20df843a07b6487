package snowflakeplugin

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Distribution is how many rows of a model each shard has.
type Distribution struct {
	// Model is its name.
	Model string
	// Rows has the number of rows of each shard.
	Rows []int64
	// Total, Least and Most are of these numbers.
	Total, Least, Most int64
	// ChiSquare is Pearson's statistic against equal shares; it has one degree of freedom less than
	// there are shards.
	ChiSquare float64
	// Z is ChiSquare on the scale of a normal distribution, by the cube root of Wilson and Hilferty
	// (1931): chance alone gives values from -3 to 3 nearly always. IDs of this library are more even
	// than chance, so it is well below. Above 3 something is wrong: rows that were not made by the
	// plugin, or children of few parents. It is 0 for a single shard, or without rows.
	Z float64
}

// Distribution counts the rows of a model on all shards. The errors are those of [Router.Count].
func (r *Router) Distribution(ctx context.Context, model any) (Distribution, error) {
	m, err := r.modelOf(model)
	if err != nil {
		return Distribution{}, err
	}
	if m.broadcast {
		return Distribution{}, fmt.Errorf("%w: %s is in every database as a whole", ErrNotSharded, m.base.Name)
	}
	rows, err := r.counts(ctx, model)
	if err != nil {
		return Distribution{}, err
	}
	return distributionOf(m.base.Name, rows), nil
}

func distributionOf(model string, rows []int64) Distribution {
	d := Distribution{Model: model, Rows: rows, Least: slices.Min(rows), Most: slices.Max(rows)}
	for _, n := range rows {
		d.Total += n
	}
	if d.Total == 0 || len(rows) == 1 {
		return d
	}
	expected := float64(d.Total) / float64(len(rows))
	for _, n := range rows {
		off := float64(n) - expected
		d.ChiSquare += off * off / expected
	}
	const ninths = 2.0 / 9
	degrees := float64(len(rows) - 1)
	d.Z = (math.Cbrt(d.ChiSquare/degrees) - (1 - ninths/degrees)) / math.Sqrt(ninths/degrees)
	return d
}

// String draws a line for each shard.
func (d Distribution) String() string {
	const widest = 40
	var b strings.Builder
	for shard, n := range d.Rows {
		bar := 0
		if d.Most > 0 {
			bar = int(n * widest / d.Most)
		}
		fmt.Fprintf(&b, "%4d %10d %s\n", shard, n, strings.Repeat("#", bar))
	}
	fmt.Fprintf(&b, "%s: %d rows, from %d to %d on a shard; chi-square %.1f (%d degrees of freedom), z %.1f\n",
		d.Model, d.Total, d.Least, d.Most, d.ChiSquare, len(d.Rows)-1, d.Z)
	return b.String()
}
