package merge_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// impatientDSN is the DSN of a login whose sessions a server ends after a second without a statement, as those of
// hosted databases may end after minutes.
func impatientDSN(t *testing.T, target dbtest.Target, dsn string) string {
	t.Helper()
	if target.Dialect == "mysql" {
		limit := "max_execution_time=1000"
		if target.Name == "mariadb" {
			limit = "max_statement_time=1"
		}
		return dsn + map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")] + "wait_timeout=1&" + limit
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		t.Fatal("the DSN of PostgreSQL is no URL")
	}
	q := u.Query()
	q.Set("options", q.Get("options")+" -c idle_session_timeout=1000 -c idle_in_transaction_session_timeout=1000 "+
		"-c statement_timeout=1000 -c lock_timeout=1000")
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

// While one database works, the sessions of the others wait. A lock that ended with its session would let two runs
// work on one target.
func TestSessionsOfAMergeOutliveTheLimitsOfALogin(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite has no sessions")
		}
		_, _, plan := small(t, target, []string{"CREATE TABLE things (id BIGINT PRIMARY KEY)"},
			map[string]*merge.TablePlan{"things": {Policy: merge.Copy}},
			[]string{"INSERT INTO things VALUES (" + id(1, 1) + ")"}, []string{"INSERT INTO things VALUES (" + id(2, 1) + ")"})
		for _, dsn := range []*string{&plan.Target.DSN, &plan.Servers[0].DSN, &plan.Servers[1].DSN} {
			*dsn = impatientDSN(t, target, *dsn)
		}
		second := opened(t, plan)
		const idle = 1500 * time.Millisecond
		wait := func() { time.Sleep(idle) }
		var once sync.Once
		m := opened(t, plan, merge.WithProgress(func(p merge.Progress) {
			if p.Phase == "copy" {
				once.Do(func() {
					wait()
					if _, err := second.Run(t.Context()); !errors.Is(err, merge.ErrLocked) {
						t.Errorf("a second run while the first one is under way: %v, want %v", err, merge.ErrLocked)
					}
				})
			}
		}))
		wait()
		if report, err := m.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Fatalf("Check: %v, %+v", err, report)
		}
		wait()
		run(t, m)
		once.Do(func() { t.Error("the run has reported no progress") })
		wait()
		verified(t, m)
	})
}

// otherwise writes the DSN of a database in another way.
func otherwise(t *testing.T, target dbtest.Target, dsn string) string {
	t.Helper()
	switch target.Dialect {
	case "sqlite":
		path, options, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
		link := filepath.Join(t.TempDir(), "link.db")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		return "file:" + link + "?" + options
	case "mysql":
		return dsn + map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")] + "timeout=9s"
	}
	return dsn + map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")] + "application_name=other"
}

// Two servers whose DSNs lead to one database would come out clean: one world twice, and the other one nowhere.
func TestADatabaseThatAPlanNamesTwiceIsRefused(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, []string{"CREATE TABLE things (id BIGINT PRIMARY KEY)"},
			map[string]*merge.TablePlan{"things": {Policy: merge.Copy, Renumber: merge.Apart}},
			[]string{"INSERT INTO things VALUES (1)"}, []string{"INSERT INTO things VALUES (1)"})
		second, into := plan.Servers[1].DSN, plan.Target.DSN
		refused := func(names ...string) {
			t.Helper()
			_, err := merge.Open(t.Context(), plan, merge.WithOpener(opener))
			if !errors.Is(err, merge.ErrPlan) || !strings.Contains(err.Error(), strings.Join(names, " and ")) {
				t.Errorf("%v are one database, and the error is %v", names, err)
			}
		}
		plan.Servers[1].DSN = otherwise(t, target, plan.Servers[0].DSN)
		refused("s1", "s2")
		plan.Servers[1].DSN, plan.Target.DSN = second, otherwise(t, target, second)
		refused("s2", "the target")
		plan.Target.DSN = into
		opened(t, plan)
	})
}
