package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A log of what was built knows worlds by a number that no index has. World 1 of each server is another one.
func TestADraftTellsOfNumbersThatMayBeKeysOfATableWithoutKey(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE worlds (id INTEGER, name VARCHAR(20), size INTEGER)"}
		server := func(n int) []string {
			var all []string
			for i := range 4 + n {
				all = append(all, fmt.Sprintf("INSERT INTO worlds VALUES (%d, 'w%d of %d', %d)", i+1, i, n, 100+i%2))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		note := draft.Tables["worlds"].Note
		if !strings.Contains(note, "two rows equal in id,") || strings.Contains(note, "size") {
			t.Error(note)
		}
	})
}
