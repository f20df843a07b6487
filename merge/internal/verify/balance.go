package verify

import (
	"fmt"
	"strings"
)

// String returns the numbers as they stand in a plan.
func (g GivenUp) String() string {
	var parts []string
	for _, part := range []struct {
		name string
		rows int64
	}{
		{"collapsed", g.Collapsed}, {"differing", g.Differing}, {"orphans", g.Orphans}, {"filtered", g.Filtered},
		{"skipped", g.Skipped}, {"rebuilt", g.Rebuilt}, {"quarantined", g.Quarantined},
	} {
		if part.rows != 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", part.name, part.rows))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
