package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Most numbers are keys of the items of a game, which are thousands. They are content also where somebody has changed
// the price of a few on one server, or of all, and made one. What players own is found as if they were the same.
func TestContentThatOneServerHasChangedIsContent(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE items (item BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20), price INTEGER)",
		"CREATE TABLE heroes (hero BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL, points INTEGER)",
		"CREATE TABLE bags (COUNTED, owner_no BIGINT NOT NULL, holds BIGINT NOT NULL)"}
	rows := func(server, changed int) []string {
		all := many(1, 700, func(n int) string {
			price := n % 23
			if server == 2 && n%changed == 0 {
				price++
			}
			return fmt.Sprintf("INSERT INTO items VALUES (%d, 'item %d', %d)", n+n/3, n, price)
		})
		if server == 2 {
			all = append(all, "INSERT INTO items VALUES (5000, 'a sword of their own', 1)")
		}
		for n := range 90 {
			if n%7 != server {
				all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, '%c%c', %d)", n+1, 'a'+n%26, 'a'+n*server/26, n*n*server%600),
					fmt.Sprintf("INSERT INTO bags (owner_no, holds) VALUES (%d, %d)", n+1, n*5+n*5/3+1))
			}
		}
		return all
	}
	for name, changed := range map[string]int{"a few": 40, "all": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
				_, _, plan := small(t, target, schema, nil, rows(1, changed), rows(2, changed))
				draft := draftOf(t, plan)
				for table, p := range draft.Tables {
					for _, open := range p.Undecided {
						t.Errorf("it asks whether %s.%s holds keys of %s", table, open.Column, open.Candidate)
					}
				}
				heroes := draft.Identities["heroes"]
				if draft.Identities["items"] != nil || heroes == nil || !slices.Contains(heroes.In, "bags.owner_no") {
					t.Errorf("the bags are those of no hero, or items get other keys: %+v", draft.Identities)
				}
			})
		})
	}
}

// A server that began as a copy of another one has the same keys, and other rows by now. If somebody gives them new
// keys, check says what refers to them.
func TestCheckNamesWhatRefersToRowsThatBeganAsACopy(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE heroes (hero BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL, points INTEGER)",
		"CREATE TABLE bags (COUNTED, owner_no BIGINT NOT NULL, holds BIGINT NOT NULL)"}
	rows := func(server int) (all []string) {
		for n := range 90 {
			key := n + n/2 + 1
			all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, '%c%c', %d)", key, 'a'+n%26, 'a'+n*server/26, n*n*server),
				fmt.Sprintf("INSERT INTO bags (owner_no, holds) VALUES (%d, %d)", key, n*server%7))
		}
		return all
	}
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, schema, nil, rows(1), rows(2))
		draft := draftOf(t, plan)
		draft.Tables["heroes"] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Apart}
		draft.Identities = nil
		refused(t, into, draft, merge.CodeUndeclared, "owner_no")
	})
}

// What each player begins with is nearly the same on all servers, for few have fought, and no content. Their friends
// are asked about.
func TestWhatPlayersBeginWithIsNoContent(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE chars (id INT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL)",
		"CREATE TABLE pvp (who INT NOT NULL PRIMARY KEY, kills INT NOT NULL, deaths INT NOT NULL)",
		"CREATE TABLE friends (a INT NOT NULL, b INT NOT NULL)"}
	rows := func(server int) (all []string) {
		for n := 1; n <= 300+4*server; n++ {
			kills := 0
			if n%60 == server {
				kills = n
			}
			all = append(all, fmt.Sprintf("INSERT INTO chars VALUES (%d, 'c%dx%d')", n, server, n),
				fmt.Sprintf("INSERT INTO pvp VALUES (%d, %d, 0)", n, kills))
			if n%3 == 0 {
				all = append(all, fmt.Sprintf("INSERT INTO friends VALUES (%d, %d)", n, n%7))
			}
		}
		return all
	}
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, schema, nil, rows(1), rows(2))
		asked := func(o merge.OpenColumn) bool { return o.Column == "a" }
		if p := draftOf(t, plan).Tables["friends"]; !slices.ContainsFunc(p.Undecided, asked) {
			t.Errorf("it says nothing of friends: %+v", p)
		}
	})
}

func TestContentWhoseKeyIsCalledOtherwiseOnAServerIsDrafted(t *testing.T) {
	t.Parallel()
	server := func(key string) []string {
		return append([]string{"CREATE TABLE items (" + key + " BIGINT NOT NULL PRIMARY KEY, price INTEGER)"},
			many(1, 40, func(n int) string { return fmt.Sprintf("INSERT INTO items VALUES (%d, %d)", 3*n, n%5) })...)
	}
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, nil, nil, server("item"), server("no"))
		into.exec(t, server("item")[0])
		if p := draftOf(t, plan).Tables["items"]; p == nil {
			t.Error("there is no draft of items")
		}
	})
}

// The migrations of a game have made what its shops sell in the target, too, and each server sells some of it at a price
// of its own. Levels, points and prices are keys of the thousands by chance.
func TestContentThatTheTargetHasIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	schema := []string{"CREATE TABLE wares (COUNTED, item BIGINT NOT NULL, price INTEGER)",
		"CREATE TABLE heroes (COUNTED, name VARCHAR(20) NOT NULL, points INTEGER, level INTEGER, gold INTEGER)"}
	wares := func(server int) []string {
		return many(1, 90, func(n int) string {
			var some []string
			for k := range 40 {
				some = append(some, fmt.Sprintf("(%d, %d)", 1000+(40*n+k)%300, n%23+server*(k%3/2)))
			}
			return "INSERT INTO wares (item, price) VALUES " + strings.Join(some, ", ")
		})
	}
	rows := func(server int) []string {
		return append(wares(server), many(1, 400, func(n int) string {
			return fmt.Sprintf("INSERT INTO heroes (name, points, level, gold) VALUES ('h%dx%d', %d, %d, %d)", server, n,
				n*n*server%3500, n%70+1, n*371%3599)
		})...)
	}
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, schema, nil, rows(1), rows(2))
		into.exec(t, wares(0)...)
		for table, p := range draftOf(t, plan).Tables {
			for _, open := range p.Undecided {
				t.Errorf("it asks whether %s.%s holds keys of %s", table, open.Column, open.Candidate)
			}
		}
		// One row is what somebody has to begin with, as the account of an administrator.
		into.exec(t, "DELETE FROM wares WHERE id > 1")
		questions := 0
		for _, p := range draftOf(t, plan).Tables {
			for _, open := range p.Undecided {
				if strings.HasPrefix(open.Candidate, "wares.") {
					questions++
				}
			}
		}
		if questions == 0 {
			t.Error("it asks nothing about rows of which the target has one")
		}
	})
}
