package keys

import (
	"math"
	"slices"
)

// shown returns what the tables show of a measure: a figure for each kind of key on a server that has one.
//
// The speed of a machine that others use, too, changes from moment to moment. All kinds take turns in a
// round, so they meet the same moments. So each sample is divided by the geometric mean of its round, and the
// median of these ratios says how a kind stands beside the others. It is multiplied by the median of those
// means.
func (r report) shown(server, name string) map[string]float64 {
	var kinds []figure
	for _, f := range r.Figures {
		if f.Server == server && len(f.Samples[name]) > 0 {
			kinds = append(kinds, f)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	levels := make([]float64, len(kinds[0].Samples[name]))
	for round := range levels {
		sum := 0.0
		for _, f := range kinds {
			sum += math.Log(f.Samples[name][round])
		}
		levels[round] = math.Exp(sum / float64(len(kinds)))
	}
	values := map[string]float64{}
	for _, f := range kinds {
		ratios := make([]float64, len(levels))
		for round, level := range levels {
			ratios[round] = f.Samples[name][round] / level
		}
		values[f.Strategy] = median(ratios) * median(levels)
	}
	return values
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
