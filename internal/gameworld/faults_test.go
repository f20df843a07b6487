package gameworld_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/gameworld"
)

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
	sqlite := dbtest.Targets()[0]
	possible := []string{
		"items", "mail", "friends", "rankings", "settings", "counters", "world", "gold_ledger", "login_log",
	}
	for _, missing := range gameworld.Tables() {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			cfg := gameworld.Config{Server: 1, Roles: 20, Faults: gameworld.Faults{MissingTable: missing}}
			if !slices.Contains(possible, missing) {
				_, err := gameworld.Create(t.Context(), empty(t, sqlite), gameworld.SQLite, cfg)
				if !errors.Is(err, gameworld.ErrConfig) {
					t.Errorf("without %s it returned %v", missing, err)
				}
				return
			}
			w := create(t, sqlite, cfg)
			if err := try(t, sqlite, w.DB, "SELECT 1 FROM "+missing); err == nil {
				t.Errorf("%s is there", missing)
			}
			if _, found := w.Rows[missing]; found || len(w.Rows) != len(gameworld.Tables())-1 {
				t.Errorf("the summary counts %v", w.Rows)
			}
		})
	}
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 1, Roles: 20, Faults: gameworld.Faults{MissingTable: "mail"}})
		if err := try(t, target, w.DB, "SELECT 1 FROM mail"); err == nil {
			t.Error("mail is there")
		}
	})
}

func TestAColumnCanHaveAnotherType(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		normal := create(t, target, gameworld.Config{Server: 1, Roles: 30})
		for _, changed := range []string{
			"roles.level", "roles.gold", "items.bound", "items.durability", "items.created_at",
			"mail.title", "guilds.notice", "roles.nickname", "roles.face",
		} {
			cfg := gameworld.Config{Server: 1, Roles: 30, Faults: gameworld.Faults{OtherType: changed}}
			w := create(t, target, cfg)
			for _, table := range gameworld.Tables() {
				before, after := typesOf(t, normal, target, table), typesOf(t, w, target, table)
				for name := range before {
					is := before[name] != after[name]
					// SQLite and PostgreSQL do not say how long a blob may be.
					if want := table+"."+name == changed; is != want && (changed != "roles.face" || target.Dialect == "mysql") {
						t.Errorf("%s: the types of %s.%s are %s and %s", changed, table, name, before[name], after[name])
					}
				}
			}
		}
		// The values are the same, in other letters.
		level := create(t, target, gameworld.Config{Server: 1, Roles: 30, Faults: gameworld.Faults{OtherType: "roles.level"}})
		if a, b := texts(t, normal.DB, "SELECT level FROM roles"), texts(t, level.DB, "SELECT level FROM roles"); !sameSorted(a, b) {
			t.Errorf("the levels are %v and %v", a, b)
		}
	})
}

func sameSorted(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// typesOf asks the database for the types of a table's columns.
func typesOf(t *testing.T, w world, target dbtest.Target, table string) map[string]string {
	t.Helper()
	query := "SELECT concat(column_name, ' ', data_type, ' ', coalesce(character_maximum_length, 0)) " +
		"FROM information_schema.columns WHERE table_name = '" + table + "' AND table_schema = "
	switch target.Dialect {
	case "sqlite":
		query = "SELECT name || ' ' || type FROM pragma_table_info('" + table + "')"
	case "mysql":
		query += "database()"
	default:
		query += "current_schema()"
	}
	types := map[string]string{}
	for _, line := range texts(t, w.DB, query) {
		name, is, _ := strings.Cut(line, " ")
		types[name] = is
	}
	return types
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

func TestTwinsDifferByCaseOnOneServer(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		cfg := gameworld.Config{
			Server: 1, Roles: 100, Names: gameworld.ExactNames, Faults: gameworld.Faults{Twins: 7},
		}
		w := create(t, target, cfg)
		n := number(t, w.DB, "SELECT count(*) FROM roles a JOIN roles b ON lower(a.nickname) = lower(b.nickname) AND a.id < b.id")
		if n != 7 {
			t.Errorf("%d pairs differ by case alone, want 7", n)
		}
	})
}

func TestAConfigThatMakesNoSenseChangesNothing(t *testing.T) {
	t.Parallel()
	sqlite := dbtest.Targets()[0]
	good := gameworld.Config{Server: 1, Roles: 10, Clash: 0.5}
	for says, spoil := range map[string]func(c *gameworld.Config){
		"Server -1":                       func(c *gameworld.Config) { c.Server = -1 },
		"Server 1048576":                  func(c *gameworld.Config) { c.Server = 1 << 20 },
		"Roles 0":                         func(c *gameworld.Config) { c.Roles = 0 },
		"Roles 50000001":                  func(c *gameworld.Config) { c.Roles = 50_000_001 },
		"Clash 1.5":                       func(c *gameworld.Config) { c.Clash = 1.5 },
		"Names 3":                         func(c *gameworld.Config) { c.Names = 3 },
		"Orphans 11":                      func(c *gameworld.Config) { c.Faults.Orphans = 11 },
		"Taken -1":                        func(c *gameworld.Config) { c.Faults.Taken = -1 },
		"ExactNames":                      func(c *gameworld.Config) { c.Faults.Twins = 1 },
		"need a Clash":                    func(c *gameworld.Config) { c.Clash, c.Faults.Taken = 0, 1 },
		"only 8 names":                    func(c *gameworld.Config) { c.Faults.Taken = 100 },
		"10 roles are not":                func(c *gameworld.Config) { c.Faults.Taken = 6 },
		`"nothing"`:                       func(c *gameworld.Config) { c.Faults.MissingTable = "nothing" },
		`"roles.id"`:                      func(c *gameworld.Config) { c.Faults.OtherType = "roles.id" },
		`"roles.guild_id"`:                func(c *gameworld.Config) { c.Faults.OtherType = "roles.guild_id" },
		`"rankings.place"`:                func(c *gameworld.Config) { c.Faults.OtherType = "rankings.place" },
		`"level"`:                         func(c *gameworld.Config) { c.Faults.OtherType = "level" },
		`Server 70000 in layout "game16"`: func(c *gameworld.Config) { c.Layout, c.Server = generator.Game16(), 70_000 },
		"Faults.Node -5":                  func(c *gameworld.Config) { c.Faults.Node = -5 },
	} {
		cfg := good
		spoil(&cfg)
		db := empty(t, sqlite)
		_, err := gameworld.Create(t.Context(), db, gameworld.SQLite, cfg)
		if !errors.Is(err, gameworld.ErrConfig) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("the error is %v, want one about %s", err, says)
		}
		if n := number(t, db, "SELECT count(*) FROM sqlite_master"); n > 0 {
			t.Errorf("%s: there are %d tables all the same", says, n)
		}
	}
	_, err := gameworld.Create(t.Context(), empty(t, sqlite), "oracle", good)
	if !errors.Is(err, gameworld.ErrConfig) || !strings.Contains(fmt.Sprint(err), `"oracle"`) {
		t.Errorf("of an unknown kind the error is %v", err)
	}
}
