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

// A UUID that two servers have is that of the same player, or of a row that every server was installed with.
func TestUUIDsThatTwoServersHaveAreAskedAbout(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		key := map[string]string{"postgres": "UUID", "sqlite": "CHAR(36)", "mysql": "CHAR(36)"}[target.Dialect]
		schema := []string{"CREATE TABLE skills (id " + key + " NOT NULL PRIMARY KEY, name VARCHAR(20))",
			"CREATE TABLE players (id BIGINT NOT NULL PRIMARY KEY, player " + key + " NOT NULL UNIQUE)",
			"CREATE TABLE items (id " + key + " NOT NULL PRIMARY KEY, name VARCHAR(20))"}
		server := func(number int) (all []string) {
			for n := range 20 {
				same := fmt.Sprintf("%08x-a%03d-4bcd-9abc-%012x", 7919*n, n, 104_729*n)
				mine := fmt.Sprintf("%08x-a%03d-4bcd-9abc-%012x", 7919*n+number, n, 104_729*n)
				player := map[bool]string{true: same, false: mine}[n%5 == 0]
				all = append(all, fmt.Sprintf("INSERT INTO skills VALUES ('%s', 'Skill %d')", same, n),
					fmt.Sprintf("INSERT INTO players VALUES (%s, '%s')", id(number, n), player),
					fmt.Sprintf("INSERT INTO items VALUES ('%s', 'Item %d')", mine, n/3))
			}
			return all
		}
		_, _, plan := small(t, target, schema, nil, server(1), server(2))
		draft := draftOf(t, plan)
		for table, policy := range map[string]merge.Policy{"items": merge.Copy, "skills": merge.NotDecided, "players": merge.NotDecided} {
			if p := draft.Tables[table]; p.Policy != policy {
				t.Errorf("%s: %+v", table, p)
			}
		}
	})
}
