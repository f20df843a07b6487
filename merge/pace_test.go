package merge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// family is a schema of three tables, of which one refers to another.
func family() ([]string, map[string]*merge.TablePlan, []string) {
	schema := []string{
		"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY)",
		"CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, role_id BIGINT NOT NULL, " +
			"FOREIGN KEY (role_id) REFERENCES roles (id))",
		"CREATE TABLE logs (id BIGINT NOT NULL PRIMARY KEY)",
	}
	rows := slices.Concat(
		many(1, 30, func(n int) string { return "INSERT INTO roles VALUES (" + id(1, n) + ")" }),
		many(1, 30, func(n int) string { return "INSERT INTO items VALUES (" + id(1, n) + ", " + id(1, n) + ")" }),
		many(1, 30, func(n int) string { return "INSERT INTO logs VALUES (" + id(1, n) + ")" }))
	return schema, copies("roles", "items", "logs"), rows
}

func TestSomeTablesAreCopiedNowAndTheOthersLater(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		schema, tables, rows := family()
		_, into, plan := small(t, target, schema, tables, rows)
		count := func() string {
			var all []string
			for _, name := range []string{"roles", "items", "logs"} {
				all = append(all, fmt.Sprint(into.number(t, "SELECT COUNT(*) FROM "+name)))
			}
			return strings.Join(all, " ")
		}
		if _, err := merge.Open(t.Context(), plan, merge.WithOpener(opener), merge.WithOnly("pets")); !errors.Is(err, merge.ErrPlan) {
			t.Errorf("a table that is not there: %v", err)
		}
		if _, err := open(t, plan, merge.WithOnly("items")).Run(t.Context()); !errors.Is(err, merge.ErrPlan) ||
			!strings.Contains(err.Error(), "refers to roles") || count() != "0 0 0" {
			t.Errorf("a child before its parent: %v, there are %s rows", err, count())
		}
		m := open(t, plan, merge.WithOnly("roles"))
		report, err := m.Run(t.Context())
		if err != nil || !report.Partial || count() != "30 0 0" {
			t.Errorf("only roles: %+v, %v, there are %s rows", report, err, count())
		}
		if _, err := m.Verify(t.Context()); !errors.Is(err, merge.ErrNotRun) {
			t.Errorf("verify of a part: %v", err)
		}
		if report, err = open(t, plan, merge.WithOnly("items")).Run(t.Context()); err != nil || !report.Partial || count() != "30 30 0" {
			t.Errorf("then items: %+v, %v, there are %s rows", report, err, count())
		}
		if report = run(t, open(t, plan)); report.Partial || report.Rows != 30 || count() != "30 30 30" {
			t.Errorf("then the rest: %+v, there are %s rows", report, count())
		}
	})
}

func TestARunKeepsToItsRate(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]merge.Option{nil, {merge.WithPortableCopy()}} {
		databases(t, func(t *testing.T, target dbtest.Target) {
			schema, tables, rows := family()
			_, _, plan := small(t, target, schema, tables, rows)
			const rate = 10
			var waited, longest time.Duration
			began := time.Now()
			// No time passes while it waits, so every pause is as long as all that is behind schedule.
			m := open(t, plan, append(opts, merge.WithRate(rate),
				merge.WithSleep(func(_ context.Context, d time.Duration) error {
					waited, longest = max(waited, d+time.Since(began)), max(longest, d)
					return nil
				}))...)
			run(t, m)
			// A machine that is so slow that it is late needs no pause.
			if want := 90 * time.Second / rate; waited < want && time.Since(began) < want || longest > want {
				t.Errorf("at %d rows a second, 90 rows were written after %v; the longest pause was %v", rate, waited, longest)
			}
			stop, paused := errors.New("stop"), false
			into := newBase(t, target)
			into.exec(t, schema...)
			plan.Target.DSN = into.dsn
			_, err := open(t, plan, append(opts, merge.WithRate(rate),
				merge.WithSleep(func(context.Context, time.Duration) error { paused = true; return stop }))...).Run(t.Context())
			if paused && !errors.Is(err, stop) {
				t.Errorf("a pause that is interrupted ends the run with %v", err)
			}
		})
	}
}
