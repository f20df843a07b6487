package leasetest

import (
	"context"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// A clause is one sentence of the contract with its test.
type clause struct {
	name string
	// why explains the clause to somebody whose store has just failed it.
	why   string
	check func(p *probe)
}

// reporter is what a clause needs of *testing.T, so that the tests of this package can let it fail.
type reporter interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// hold checks that a store keeps the clause.
func (c clause) hold(t reporter, open func() lease.Store, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.check(&probe{t: t, ctx: ctx, open: open, why: c.why})
}
