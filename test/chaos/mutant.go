package chaos

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// A Mutant is a worker that breaks a rule. Its IDs repeat those of others, so a run with such
// workers shows that the checker notices.
type Mutant string

const (
	// Sound workers break no rule.
	Sound Mutant = ""
	// SameNode workers use the same number, given by hand.
	SameNode Mutant = "same node"
	// EndlessWindow workers believe that their first window never ends.
	EndlessWindow Mutant = "endless window"
	// ReadsFirst workers take their numbers from what they read of a counter before they claim.
	ReadsFirst Mutant = "reads first"
	// ClaimsTwice workers lose every other block of a counter.
	ClaimsTwice Mutant = "claims twice"
)

// tenure returns what the generator of such a worker works with.
func (m Mutant) tenure(keeper generator.Lease) generator.Tenure {
	switch m {
	case SameNode:
		return generator.FixedNode(1)
	case EndlessWindow:
		window := keeper.Window()
		window.Until = window.Until.Add(time.Hour)
		return endless(window)
	case Sound, ReadsFirst, ClaimsTwice:
	}
	return keeper
}

type endless generator.Window

func (w endless) Window() generator.Window { return generator.Window(w) }

func (endless) Extend(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
