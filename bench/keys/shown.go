package keys

import (
	"math"
	"slices"
)

// shown returns what the tables show of a measure, or of several that belong together: a figure for each kind
// of key on a server that has one.
//
// The speed of a machine that others use, too, changes from moment to moment. All kinds take turns in a
// round, so they meet the same moments. So each sample is divided by the geometric mean of its round, and the
// middle of these ratios says how a kind stands beside the others. It is multiplied by the middle of those
// means.
func (r report) shown(server string, names ...string) map[string]float64 {
	kinds := map[string][]float64{}
	var levels []float64
	for _, f := range r.Figures {
		var samples []float64
		for _, name := range names {
			samples = append(samples, f.Samples[name]...)
		}
		if f.Server == server && len(samples) > 0 {
			kinds[f.Strategy] = samples
			levels = make([]float64, len(samples))
		}
	}
	for round := range levels {
		sum := 0.0
		for _, samples := range kinds {
			sum += math.Log(samples[round])
		}
		levels[round] = math.Exp(sum / float64(len(kinds)))
	}
	values := map[string]float64{}
	for kind, samples := range kinds {
		ratios := make([]float64, len(levels))
		for round, level := range levels {
			ratios[round] = samples[round] / level
		}
		values[kind] = middle(ratios) * middle(levels)
	}
	return values
}

// middle is the mean of the middle half of the samples. Like a median it does not depend on how far off the
// others are, and it differs less between two runs, because more samples take part.
func middle(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	half := sorted[len(sorted)/4 : len(sorted)-len(sorted)/4]
	sum := 0.0
	for _, sample := range half {
		sum += sample
	}
	return sum / float64(len(half))
}
