package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestThreeServersBecomeOne(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		servers, into, plan := games(t, []dbtest.Target{target, target, target}, target,
			gameworld.Config{Roles: nightly.Pick(60, 300), Clash: 0.2})
		m := open(t, plan, merge.WithChunk(100))
		check, err := m.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range check.Problems {
			t.Error(p)
		}
		if check.Verdict != merge.Resolved || len(check.Conflicts) == 0 {
			t.Errorf("the verdict is %v with %d conflicts", check.Verdict, len(check.Conflicts))
		}
		report := run(t, m)
		var roles, gold int64
		for _, s := range servers {
			roles += s.number(t, "SELECT COUNT(*) FROM roles")
			gold += s.number(t, "SELECT SUM(gold) FROM roles")
		}
		if got := into.number(t, "SELECT COUNT(*) FROM roles"); got != roles {
			t.Errorf("%d roles, want %d", got, roles)
		}
		if got := into.number(t, "SELECT SUM(gold) FROM roles"); got != gold {
			t.Errorf("%d gold, want %d", got, gold)
		}
		if report.Renamed == 0 {
			t.Error("nobody was renamed")
		}
		for _, c := range report.Tables {
			t.Logf("%+v", c)
		}
	})
}

func TestServersOfOneKindBecomeOneOfAnother(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()[1:]), func(t *testing.T, target dbtest.Target) {
		_, _, plan := games(t, dbtest.Servers(), target, gameworld.Config{Roles: nightly.Pick(40, 200), Clash: 0.2})
		run(t, open(t, plan, merge.WithChunk(100)))
	})
}
