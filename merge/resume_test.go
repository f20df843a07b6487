package merge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
)

// interrupted begins a merge that ends when the table items is there.
func interrupted(t *testing.T, target dbtest.Target) ([]base, base, *merge.Plan) {
	t.Helper()
	servers, into, plan := games(t, []dbtest.Target{target, target}, target, gameworld.Config{Roles: 30, Clash: 0.3})
	enough := errors.New("enough")
	m := open(t, plan, merge.WithHooks(merge.Hooks{AfterTable: func(_ context.Context, table string) error {
		if table == "items" {
			return enough
		}
		return nil
	}}))
	if _, err := m.Run(t.Context()); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return servers, into, plan
}

func TestARunGoesOnWhereAnotherOneEnded(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := interrupted(t, target)
		var after []string
		var last merge.Progress
		m := open(t, plan, merge.WithProgress(func(p merge.Progress) {
			if p.Phase == "copy" {
				last = p
			}
		}), merge.WithHooks(merge.Hooks{AfterTable: func(_ context.Context, table string) error {
			after = append(after, table)
			return nil
		}}))
		if _, err := m.Verify(t.Context()); !errors.Is(err, merge.ErrNotRun) {
			t.Errorf("half a merge was verified: %v", err)
		}
		check, err := m.Check(t.Context())
		if err != nil || len(check.Problems) != 1 || check.Problems[0].Code != merge.CodeAlreadyBegun {
			t.Errorf("half a merge was checked: %+v, %v", check, err)
		}
		report := run(t, m)
		if !report.Resumed || report.Already || report.Rows == 0 || report.Rows >= into.number(t, "SELECT COUNT(*) FROM mail")+
			into.number(t, "SELECT COUNT(*) FROM roles")+into.number(t, "SELECT COUNT(*) FROM items") {
			t.Errorf("%+v", report)
		}
		if last.Total == 0 || last.Done != last.Total {
			t.Errorf("the progress ended with %+v", last)
		}
		if got := strings.Join(after, " "); !strings.Contains(got, "items") || !strings.Contains(got, "mail") {
			t.Errorf("the hook saw %s", got)
		}
		if _, err := json.Marshal(report); err != nil {
			t.Error(err)
		}
	})
}

func TestASourceThatWasWrittenToEndsTheRun(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		servers, _, plan := interrupted(t, target)
		servers[1].exec(t, "DELETE FROM gold_ledger WHERE id = (SELECT id FROM (SELECT MAX(id) AS id FROM gold_ledger) AS x)")
		_, err := open(t, plan).Run(t.Context())
		if !errors.Is(err, merge.ErrSourceChanged) || !strings.Contains(err.Error(), "s2: table gold_ledger") {
			t.Errorf("the run ended with %v", err)
		}
	})
}

func TestAnotherPlanCannotGoOn(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := interrupted(t, target)
		plan.Tables["mail"].Where = "gold > 1"
		m := open(t, plan)
		if _, err := m.Run(t.Context()); !errors.Is(err, merge.ErrOtherPlan) {
			t.Errorf("the run ended with %v", err)
		}
		if _, err := m.Verify(t.Context()); !errors.Is(err, merge.ErrOtherPlan) {
			t.Errorf("verify ended with %v", err)
		}
	})
}

func TestARunEndsWithItsContextAndGoesOnAfterwards(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := games(t, []dbtest.Target{target, target}, target, gameworld.Config{Roles: 30, Clash: 0.3})
		ctx, cancel := context.WithCancel(t.Context())
		points := 0
		m := open(t, plan, merge.WithChunk(20), merge.WithFailpoint(func(string) {
			if points++; points == 20 {
				cancel()
			}
		}))
		if _, err := m.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the run ended with %v", err)
		}
		run(t, open(t, plan, merge.WithChunk(20)))
	})
}

// A driver may only say that its connection is closed.
func TestACheckAndADraftSayThatTheyWereCanceled(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := games(t, []dbtest.Target{target, target}, target, gameworld.Config{Roles: 30, Clash: 0.3})
		for wait := 4 * time.Millisecond; wait < 400*time.Millisecond; wait = wait * 3 / 2 {
			m, err := merge.Open(t.Context(), plan, merge.WithOpener(opener))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(wait, cancel)
			if _, err := m.Check(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("after %v the check says %v", wait, err)
			}
			_ = m.Close() // the connections may be gone
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(wait, cancel)
			if _, _, err := merge.Draft(ctx, plan, merge.WithOpener(opener)); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("after %v the draft says %v", wait, err)
			}
			cancel()
		}
	})
}

func TestVerifySeesWhatHappenedToTheTarget(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := games(t, []dbtest.Target{target, target}, target, gameworld.Config{Roles: 30, Clash: 0.3})
		m := open(t, plan)
		run(t, m)
		one := func(table string) string {
			return "(SELECT id FROM (SELECT MIN(id) AS id FROM " + table + ") AS x)"
		}
		first, err := m.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ harm, repair, what string }{
			{"UPDATE roles SET gold = gold + 1 WHERE id = " + one("roles"), "UPDATE roles SET gold = gold - 1 WHERE id = " + one("roles"), "checksum sum"},
			{"UPDATE mail SET title = 'other' WHERE id = " + one("mail"), "", "checksum"},
			{"DELETE FROM gold_ledger WHERE id = " + one("gold_ledger"), "", "rows checksum sum"},
			{"UPDATE items SET parent_id = 7 WHERE id = " + one("items"), "", "checksum orphans"},
			{"UPDATE roles SET nickname = 'nobody' WHERE nickname LIKE '%.s_' AND id = " +
				"(SELECT id FROM (SELECT MIN(id) AS id FROM roles WHERE nickname LIKE '%.s_') AS x)", "", "checksum"},
			{"INSERT INTO settings (name, value, updated_at) VALUES ('zz', '1', '2025-01-01 00:00:00')", "", "rows"},
		} {
			into.unchecked(t, c.harm)
			report, err := m.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for _, f := range report.Failed {
				failed = append(failed, f.What)
			}
			for what := range strings.FieldsSeq(c.what) {
				if report.OK || !strings.Contains(strings.Join(failed, " "), what) {
					t.Errorf("%s: what failed is %v, want %s", c.harm, failed, c.what)
				}
			}
			if report.Seal == first.Seal {
				t.Error("the seal is that of the report before")
			}
			if c.repair != "" {
				into.unchecked(t, c.repair)
				if again, err := m.Verify(t.Context()); err != nil || again.Seal != first.Seal {
					t.Errorf("after the repair: %+v, %v", again.Failed, err)
				}
			}
		}
	})
}

func TestSourcesCannotBeWrittenTo(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		servers, _, plan := games(t, []dbtest.Target{target}, target, gameworld.Config{Roles: 20})
		before := servers[0].dump(t)
		m := open(t, plan)
		for _, statement := range []string{
			"UPDATE roles SET gold = 0", "DELETE FROM items", "DROP TABLE mail", "CREATE TABLE more (id INTEGER)",
			"INSERT INTO counters (name, amount) VALUES ('x', 1)",
		} {
			if err := m.WriteToSource(t.Context(), statement); err == nil {
				t.Errorf("%s was done", statement)
			}
		}
		same(t, "the source", servers[0].dump(t), before)
	})
}
