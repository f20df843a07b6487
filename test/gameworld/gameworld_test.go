package gameworld_test

import (
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestAServerHoldsTogetherAndIsWhatTheSummarySays(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		roles := nightly.Pick(int64(300), 1500)
		w := create(t, target, gameworld.Config{Server: 7, Roles: int(roles), Seed: 3, Clash: 0.1})
		var total int64
		for _, table := range gameworld.Tables() {
			n := number(t, w.DB, "SELECT count(*) FROM "+table)
			if n == 0 || n != w.Rows[table] {
				t.Errorf("%s has %d rows, the summary says %d", table, n, w.Rows[table])
			}
			total += n
		}
		if w.Rows["roles"] != roles || total != w.Total() || total < 16*roles || total > 18*roles {
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
			"SELECT sum(recharged) FROM accounts":                                                       w.Recharged,
			"SELECT sum(funds) FROM guilds":                                                             w.Funds,
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

func TestOrphansAreWhereTheyWereAskedFor(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 1, Roles: 200, Faults: gameworld.Faults{Orphans: 5}})
		for _, ref := range references {
			name := ref[0] + "." + ref[1]
			want := int64(w.Orphans[name])
			if slices.Contains([]string{"items.role_id", "mail.to_id", "roles.guild_id"}, name) && want != 5 {
				t.Errorf("the summary says that %s has %d", name, want)
			}
			if n := orphans(t, w.DB, ref); n != want {
				t.Errorf("%s: %d lead nowhere, want %d", name, n, want)
			}
			// The foreign keys are there, for whatever comes from now on.
			if err := try(t, target, w.DB, "UPDATE "+ref[0]+" SET "+ref[1]+" = 2"); err == nil {
				t.Errorf("%s may lead nowhere from now on", name)
			}
		}
		if n := number(t, w.DB, "SELECT count(*) FROM items"); n != w.Rows["items"] {
			t.Errorf("%d items, the summary says %d", n, w.Rows["items"])
		}
	})
}

func TestATableCanBeMissing(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 1, Roles: 20, Faults: gameworld.Faults{MissingTable: "mail"}})
		if err := try(t, target, w.DB, "SELECT 1 FROM mail"); err == nil {
			t.Error("mail is there")
		}
	})
}

func TestColumnsCanStandInAnotherOrder(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		cfg := gameworld.Config{Server: 1, Roles: 60, Seed: 2}
		normal := create(t, target, cfg)
		cfg.Faults.OtherOrder = true
		other := create(t, target, cfg)
		for _, table := range gameworld.Tables() {
			a, b := columnsOf(t, normal.DB, table), columnsOf(t, other.DB, table)
			slices.Reverse(b)
			if !slices.Equal(a, b) {
				t.Errorf("%s has %v and %v", table, a, b)
			}
		}
		if !reflect.DeepEqual(normal.Summary, other.Summary) {
			t.Errorf("the summaries are %v and %v", normal.Summary, other.Summary)
		}
		if a, b := number(t, normal.DB, "SELECT sum(level) FROM roles"), number(t, other.DB, "SELECT sum(level) FROM roles"); a != b {
			t.Errorf("the levels add up to %d and %d", a, b)
		}
	})
}

func columnsOf(t *testing.T, db *sql.DB, table string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table+" WHERE 1 = 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || rows.Err() != nil {
		t.Fatal(err, rows.Err())
	}
	return names
}

func TestTheNewNameOfAClashingRoleIsTakenToo(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		cfg := gameworld.Config{Server: 2, Roles: 300, Clash: 0.2, Faults: gameworld.Faults{Taken: 16}}
		nicknames := texts(t, create(t, target, cfg).DB, "SELECT nickname FROM roles")
		taken := 0
		for _, name := range nicknames {
			if strings.HasSuffix(name, ".s2") || strings.HasPrefix(name, "s2.") {
				taken++
			}
		}
		if taken != 16 {
			t.Errorf("%d names look like new ones, want 16", taken)
		}
		short, _ := gameworld.Nickname(2, 0)
		long, likeness := gameworld.Nickname(2, 4)
		if likeness != gameworld.Long {
			t.Fatalf("%q is alike by %v", long, likeness)
		}
		for _, want := range []string{
			short + ".s2", "s2." + short, string([]rune(long)[:13]) + ".s2", "s2." + string([]rune(long)[:13]),
		} {
			if !slices.Contains(nicknames, want) {
				t.Errorf("nobody is called %q", want)
			}
		}
	})
}

func TestTheSeedRepeatsEverythingButTheKeys(t *testing.T) {
	t.Parallel()
	sqlite := dbtest.Targets()[0]
	cfg := gameworld.Config{Server: 4, Roles: 300, Seed: 11, Clash: 0.3, Faults: gameworld.Faults{Taken: 5, Orphans: 2}}
	const roles = "SELECT nickname || ' ' || gold || ' ' || created_at FROM roles ORDER BY nickname"
	one, two := create(t, sqlite, cfg), create(t, sqlite, cfg)
	if !reflect.DeepEqual(one.Summary, two.Summary) || !slices.Equal(texts(t, one.DB, roles), texts(t, two.DB, roles)) {
		t.Error("the same seed makes other rows")
	}
	cfg.Seed++
	if other := create(t, sqlite, cfg); slices.Equal(texts(t, one.DB, roles), texts(t, other.DB, roles)) {
		t.Error("another seed makes the same rows")
	}
}

func TestAConfigThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for _, cfg := range []gameworld.Config{
		{}, {Roles: 1, Server: -1}, {Roles: 1, Clash: 2}, {Roles: 1, Faults: gameworld.Faults{MissingTable: "roles"}},
	} {
		_, err := gameworld.Create(t.Context(), empty(t, dbtest.Targets()[0]), gameworld.SQLite, cfg)
		if !errors.Is(err, gameworld.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
