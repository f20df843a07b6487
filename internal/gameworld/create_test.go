package gameworld_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/gameworld"
)

func TestAServerHoldsTogetherAndIsWhatTheSummarySays(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 7, Roles: 1500, Seed: 3, Clash: 0.1})
		var total int64
		for _, table := range gameworld.Tables() {
			n := number(t, w.DB, "SELECT count(*) FROM "+table)
			if n == 0 || n != w.Rows[table] {
				t.Errorf("%s has %d rows, the summary says %d", table, n, w.Rows[table])
			}
			total += n
		}
		if w.Rows["roles"] != 1500 || total != w.Total() || total < 16*1500 || total > 18*1500 {
			t.Errorf("%d roles, %d rows in all, the summary says %d", w.Rows["roles"], total, w.Total())
		}
		for _, ref := range references {
			if n := orphans(t, w.DB, ref); n > 0 {
				t.Errorf("%v: %d rows lead nowhere", ref, n)
			}
		}
		for query, want := range map[string]int64{
			"SELECT sum(gold) FROM roles":                                                               w.Gold,
			"SELECT sum(amount) FROM gold_ledger":                                                       w.Gold,
			"SELECT sum(gold) FROM mail":                                                                w.MailGold,
			"SELECT sum(recharged) FROM accounts":                                                       w.Recharged,
			"SELECT sum(funds) FROM guilds":                                                             w.Funds,
			"SELECT sum(amount) FROM items":                                                             w.ItemAmount,
			"SELECT count(*) FROM counters":                                                             int64(len(w.Counters)),
			"SELECT amount FROM counters WHERE name = 'duels'":                                          w.Counters["duels"],
			"SELECT count(DISTINCT role_id) FROM rankings WHERE board = 'gold'":                         100,
			"SELECT max(score) FROM rankings WHERE board = 'gold' AND place = 1":                        number(t, w.DB, "SELECT max(gold) FROM roles"),
			"SELECT count(*) FROM (SELECT id FROM world WHERE id = 1) w":                                1,
			"SELECT max(id) - min(id) + 1 FROM login_log":                                               w.Rows["login_log"],
			"SELECT count(*) FROM settings WHERE name = 'server_number' AND value = '7'":                1,
			"SELECT count(*) FROM accounts WHERE server_id <> 7":                                        0,
			"SELECT count(*) FROM roles WHERE gold < 0":                                                 0,
			"SELECT count(*) FROM items WHERE parent_id = id":                                           0,
			"SELECT count(*) FROM friends WHERE role_id = friend_id":                                    0,
			"SELECT count(*) FROM guilds g JOIN roles r ON r.id = g.leader_id WHERE r.guild_id <> g.id": 0,
		} {
			if got := number(t, w.DB, query); got != want || want == 0 && w.Gold == 0 {
				t.Errorf("%s: %d, want %d", query, got, want)
			}
		}
		if w.Ledger != w.Gold {
			t.Errorf("the ledger has %d, the roles have %d", w.Ledger, w.Gold)
		}
		// The balance holds for every role, not only in all.
		if n := number(t, w.DB, `SELECT count(*) FROM roles r WHERE r.gold <>
			(SELECT sum(l.amount) FROM gold_ledger l WHERE l.role_id = r.id)`); n > 0 {
			t.Errorf("%d roles have other gold than their entries", n)
		}
		for what, query := range map[string]string{
			"copies of names that are not those of the role": `SELECT count(*) FROM mail m
				JOIN roles r ON r.id = m.from_id WHERE r.nickname <> m.from_name`,
			"places under the name of another role": `SELECT count(*) FROM rankings p
				JOIN roles r ON r.id = p.role_id WHERE r.nickname <> p.nickname`,
			"items in bags of others": `SELECT count(*) FROM items i
				JOIN items p ON p.id = i.parent_id WHERE i.role_id <> p.role_id`,
		} {
			if n := number(t, w.DB, query); n > 0 {
				t.Errorf("%d %s", n, what)
			}
		}
		// Whoever copies by ascending keys meets an item before its bag, and bags in bags.
		for what, query := range map[string]string{
			"items before their bag": "SELECT count(*) FROM items WHERE parent_id > id",
			"items behind their bag": "SELECT count(*) FROM items WHERE parent_id < id",
			"bags in bags": `SELECT count(*) FROM items i JOIN items p ON p.id = i.parent_id
				WHERE p.parent_id IS NOT NULL`,
			"members beside the leader": `SELECT count(*) FROM roles r JOIN guilds g ON g.id = r.guild_id
				WHERE g.leader_id <> r.id`,
			"roles without a guild": "SELECT count(*) FROM roles WHERE guild_id IS NULL",
			"letters from nobody":   "SELECT count(*) FROM mail WHERE from_id IS NULL",
		} {
			if number(t, w.DB, query) == 0 {
				t.Errorf("there are no %s", what)
			}
		}
	})
}

func TestTheDatabaseItselfRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 1, Roles: 50})
		for _, ref := range references {
			if err := try(t, target, w.DB, "UPDATE "+ref[0]+" SET "+ref[1]+" = 1"); err == nil {
				t.Errorf("%s.%s may lead nowhere", ref[0], ref[1])
			}
		}
		name := texts(t, w.DB, "SELECT nickname FROM roles")[0]
		for what, nickname := range map[string]string{"17 runes": "12345678901234567", "an equal nickname": name} {
			if err := try(t, target, w.DB, "UPDATE roles SET nickname = ? WHERE nickname <> ?", nickname, name); err == nil {
				t.Errorf("%s are allowed", what)
			}
		}
		exec(t, target, w.DB, "UPDATE roles SET nickname = ? WHERE nickname = ?", "龍龍龍龍龍龍龍龍龍龍龍龍龍龍龍龍", name)
		if err := try(t, target, w.DB, "UPDATE guilds SET name = 'one'"); number(t, w.DB, "SELECT count(*) FROM guilds") > 1 && err == nil {
			t.Error("two guilds may have one name")
		}
	})
}

func TestTheKeysAreThoseOfTheServersGeneratorAndMeetNoOthers(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		for _, layout := range []generator.Layout{generator.Game(), generator.Game16()} {
			seen := map[int64]int64{}
			times := map[int64]bool{}
			for server := int64(1); server <= 3; server++ {
				cfg := gameworld.Config{Server: server, Roles: 400, Seed: 9, Clash: 0.5, Layout: layout}
				for _, key := range keys(t, create(t, target, cfg).DB) {
					parts, err := layout.Decompose(key)
					if err != nil || parts.Node != server {
						t.Fatalf("key %d: node %d, want %d: %v", key, parts.Node, server, err)
					}
					if other, found := seen[key]; found {
						t.Fatalf("key %d stands on server %d and on %d", key, other, server)
					}
					seen[key] = server
					times[parts.Time.UnixNano()] = true
				}
			}
			if len(times) < 3 {
				t.Errorf("%d keys have %d times", len(seen), len(times))
			}
		}
	})
}

func TestTwoServersWithOneNumberHaveKeysInCommon(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		one := create(t, target, gameworld.Config{Server: 1, Roles: 50, Seed: 1})
		two := create(t, target, gameworld.Config{Server: 2, Roles: 80, Seed: 2, Faults: gameworld.Faults{Node: 1}})
		if one.Node != 1 || two.Node != 1 || two.Server != 2 {
			t.Errorf("the summaries say %d, %d and %d", one.Node, two.Node, two.Server)
		}
		for _, table := range []string{"accounts", "guilds", "roles"} {
			query := "SELECT min(id) FROM " + table
			if a, b := number(t, one.DB, query), number(t, two.DB, query); a != b {
				t.Errorf("%s begin with %d and with %d", table, a, b)
			}
		}
		if n := number(t, two.DB, "SELECT count(*) FROM accounts WHERE server_id = 2"); n != two.Rows["accounts"] {
			t.Errorf("%d accounts are of server 2", n)
		}
	})
}

// The least server has at least one row of everything.
func TestOneRoleIsAServer(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 1<<20 - 1, Roles: 1, Clash: 1})
		if w.Rows["roles"] != 1 || w.Rows["guilds"] != 1 || w.Rows["accounts"] != 1 || w.Rows["rankings"] != 2 {
			t.Errorf("the rows are %v", w.Rows)
		}
	})
}

func TestTheConnectionIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		db, err := target.Open(t, nil, dbtest.MaxOpenConns(1)).DB()
		if err != nil {
			t.Fatal(err)
		}
		cfg := gameworld.Config{Server: 1, Roles: 10}
		if _, err := gameworld.Create(t.Context(), db, kindOf(target), cfg); err != nil {
			t.Fatal(err)
		}
		wrong := "UPDATE items SET role_id = 1"
		if err := try(t, target, db, wrong); err == nil {
			t.Error("the connection no longer looks at foreign keys")
		}
		// Nor after a failure: here the tables are there already.
		_, err = gameworld.Create(t.Context(), db, kindOf(target), cfg)
		if !errors.Is(err, gameworld.ErrDatabase) {
			t.Errorf("a second time it returned %v", err)
		}
		if err := try(t, target, db, wrong); err == nil {
			t.Error("after a failure the connection no longer looks at foreign keys")
		}
	})
}

func TestACanceledContextEndsIt(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		// From before the beginning to somewhere in the middle of half a million rows.
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond} {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			if after == 0 {
				cancel()
			}
			time.AfterFunc(after, cancel)
			db, err := target.Open(t, nil, dbtest.MaxOpenConns(1)).DB()
			if err != nil {
				t.Fatal(err)
			}
			_, err = gameworld.Create(ctx, db, kindOf(target), gameworld.Config{Server: 1, Roles: 30_000})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %v it returned %v", after, err)
			}
			switches := map[string]string{"sqlite": "PRAGMA foreign_keys", "mysql": "SELECT @@SESSION.foreign_key_checks"}
			if query, found := switches[target.Dialect]; found && number(t, db, query) != 1 {
				t.Errorf("after %v the connection no longer looks at foreign keys", after)
			}
		}
	})
}
