package lease_test

import (
	"expvar"
	"fmt"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// A counter for every kind of event.
func ExampleWithNotify() {
	leaseEvents := expvar.NewMap("lease_events")
	leased := snowflakeplugin.WithLease(nil, lease.WithNotify(func(e lease.Event) {
		leaseEvents.Add(string(e.Kind), 1) // overdue, back, lost, changed
	}))
	plugin := snowflakeplugin.New(leased)
	fmt.Println(plugin.Stats().Issued, leaseEvents)
	// Output: 0 {}
}
