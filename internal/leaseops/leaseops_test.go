package leaseops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestARecordHasOneState(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	merged, never := leaseops.Retirement("Avalon", 1)
	for want, records := range map[string][]lease.Record{
		leaseops.Retired: {
			{Owner: merged, Until: never},
			{Owner: merged, Until: never, Layout: "moved to another: x"},
		},
		leaseops.Moved: {
			{Owner: "web-1", Until: now.Add(time.Second), Layout: "moved to another: x"},
			{Owner: "reserved for import", Until: now.AddDate(30, 0, 0), Layout: "moved to another: x"},
		},
		leaseops.Reserved: {{Owner: "reserved for import", Until: now.AddDate(30, 0, 0)}},
		leaseops.Distant: {
			{Owner: "web-1", Until: now.AddDate(30, 0, 0)},
			{Owner: "web-1", Until: now.Add(48*time.Hour + lease.MaxSkew + 1)},
			{Owner: "web-1", Until: never}, // it was altered, and no server was merged
			{Until: never},
		},
		leaseops.Held: {
			{Owner: "web-1", Until: now.Add(time.Nanosecond)},
			// A span, the lead of a generator, and the skew of a clock.
			{Owner: "web-1", Until: now.Add(48*time.Hour + lease.MaxSkew)},
			{Owner: "reserved for import", Until: now.Add(time.Hour)}, // a process may have such a name
			{Owner: merged, Until: now.Add(time.Hour)},
		},
		leaseops.Ending:  {{Until: now.Add(time.Nanosecond)}},
		leaseops.Expired: {{Owner: "web-1", Until: now}},
		leaseops.Free:    {{Until: now}},
	} {
		for _, r := range records {
			if got := leaseops.State(r, now); got != want {
				t.Errorf("%+v is %q, not %q", r, got, want)
			}
			kept := want == leaseops.Retired || want == leaseops.Reserved ||
				want == leaseops.Moved && strings.HasPrefix(r.Owner, "reserved")
			if leaseops.IsKept(r, now) != kept {
				t.Errorf("%+v is kept: %v", r, !kept)
			}
		}
	}
}
