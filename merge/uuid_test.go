package merge_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// MySQL and SQLite have no type for a UUID, and games write one as a text. No two servers make the same one.
func TestKeysThatAreUUIDsInTextsStayWithoutAQuestion(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE auctions (id CHAR(36) NOT NULL PRIMARY KEY, bid INTEGER)",
			"CREATE TABLE bids (auction CHAR(36) NOT NULL, no INTEGER NOT NULL, PRIMARY KEY (auction, no))",
			"CREATE TABLE codes (code CHAR(36) NOT NULL PRIMARY KEY, bid INTEGER)"}
		server := func(number int) (all []string) {
			for n := range 20 {
				key := fmt.Sprintf("%08x-a%03d-4bcd-9abc-%012x", 7919*n+number, n, 104_729*(n+number))
				all = append(all, fmt.Sprintf("INSERT INTO auctions VALUES ('%s', %d)", key, n),
					fmt.Sprintf("INSERT INTO bids VALUES ('%s', 1)", key),
					fmt.Sprintf("INSERT INTO codes VALUES ('%036d', %d)", 20*number+n, n))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft := draftOf(t, plan)
		for table, policy := range map[string]merge.Policy{"auctions": merge.Copy, "bids": merge.Copy, "codes": merge.NotDecided} {
			if p := draft.Tables[table]; p.Policy != policy {
				t.Errorf("%s: %+v", table, p)
			}
		}
	})
}
