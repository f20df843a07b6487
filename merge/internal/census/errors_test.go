package census_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Somebody may stop a census in its middle. What was found up to there is not everything, and so it is nothing.
func TestACensusFindsEverythingOrReturnsTheError(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		servers := []*sqldb.DB{opened(t, target, "s1", realm(1)), opened(t, target, "s2", realm(2))}
		take := func(stop int) ([]census.Finding, error) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			return census.Take(ctx, servers, minGenerated, func(string) bool {
				if asked++; asked == stop {
					cancel()
				}
				return true
			})
		}
		whole, err := take(0)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for _, stop := range []int{1, 10, 20, 30, 40, 50, 60, 70} {
			found, err := take(stop)
			if err != nil {
				failed++
			}
			if err != nil && found != nil || err == nil && fmt.Sprintf("%#v", found) != fmt.Sprintf("%#v", whole) {
				t.Errorf("stopped at question %d: %d of %d findings, error %v", stop, len(found), len(whole), err)
			}
		}
		if failed < 4 {
			t.Errorf("%d of these censuses ended with an error, want 4 at least", failed)
		}
	})
}
