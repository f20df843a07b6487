package merge_test

import (
	"fmt"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Many guilds are called after a number, which may be their key or not. Two of one name are two too many all the same.
func TestNamesWithNumbersAreRenamed(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE guilds (COUNTED, name VARCHAR(45) NOT NULL, points INTEGER)",
			"CREATE TABLE heroes (COUNTED, guild BIGINT)"}
		rows := func(server int) []string {
			return many(1, 90, func(n int) string {
				name := fmt.Sprintf("Guild%d", n)
				if n%4 > 0 {
					name = fmt.Sprintf("G%duild%d", server, n)
				}
				return fmt.Sprintf("INSERT INTO guilds (name, points) VALUES ('%s', %d)", name, n*n%700)
			})
		}
		heroes := many(1, 60, func(n int) string { return fmt.Sprintf("INSERT INTO heroes (guild) VALUES (%d)", n) })
		_, _, plan := small(t, target, schema, nil, append(rows(1), heroes...), append(rows(2), heroes...))
		p := draftOf(t, plan).Tables["guilds"]
		if p.Policy != merge.Rename || p.Rename.Column != "name" {
			t.Errorf("22 guilds come out doubled: %+v", p)
		}
	})
}
