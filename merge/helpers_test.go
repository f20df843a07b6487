package merge_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// databases runs fn on SQLite, PostgreSQL, MariaDB and MySQL.
func databases(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.EachServer(t, fn)
}

// plans runs fn, which tests what a plan says and not what a database does with it, on SQLite by day and on all
// of them by night.
func plans(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.Run(t, nightly.Pick(dbtest.ServersOf("sqlite"), dbtest.Servers()), fn)
}

// base is a database of a test.
type base struct {
	*gorm.DB
	target dbtest.Target
	dsn    string
}

func newBase(t testing.TB, target dbtest.Target) base {
	t.Helper()
	dsn := target.DSN(t)
	return base{DB: target.OpenDSN(t, dsn, nil), target: target, dsn: dsn}
}

func (b base) exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if err := b.Exec(b.dialect(s)).Error; err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (b base) number(t testing.TB, query string) (n int64) {
	t.Helper()
	if err := b.Raw(query).Scan(&n).Error; err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (b base) texts(t testing.TB, query string) (all []string) {
	t.Helper()
	if err := b.Raw(query).Scan(&all).Error; err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// opener opens the databases of dbtest: a DSN is not said to be of this or that kind, but they differ.
func opener(_ context.Context, dsn string) (*sql.DB, error) {
	switch {
	case strings.HasPrefix(dsn, "postgres") || strings.Contains(dsn, "dbname="):
		return sql.Open("pgx", dsn)
	case strings.Contains(dsn, "@tcp(") || strings.Contains(dsn, "@unix("):
		return sql.Open("mysql", dsn)
	}
	return sql.Open("sqlite3", dsn)
}

// gameTables is a plan for the tables of package gameworld.
func gameTables() map[string]*merge.TablePlan {
	return map[string]*merge.TablePlan{
		"accounts": {Policy: merge.Copy},
		"guilds":   {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Keep: "older"}},
		"roles": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "nickname", Keep: "older",
			Copies: []merge.NameCopy{{Table: "mail", Column: "from_name", Ref: "from_id"}}}},
		"items":       {Policy: merge.Copy},
		"mail":        {Policy: merge.Copy},
		"friends":     {Policy: merge.Copy},
		"rankings":    {Policy: merge.Rebuild},
		"settings":    {Policy: merge.KeepFirst, Key: []string{"name"}},
		"counters":    {Policy: merge.Sum, Key: []string{"name"}, Sum: []string{"amount"}},
		"world":       {Policy: merge.Newest, Key: []string{"id"}, By: "opened_at"},
		"gold_ledger": {Policy: merge.Copy},
		"login_log":   {Policy: merge.Copy, Renumber: merge.Behind},
	}
}

func gameSums() []merge.ConservedSum {
	return []merge.ConservedSum{
		{Name: "gold", Table: "roles", Expression: "SUM(gold)"},
		{Name: "ledger", Table: "gold_ledger", Expression: "SUM(amount)"},
		{Name: "counters", Table: "counters", Expression: "SUM(amount)"},
	}
}

// games makes servers and an empty target, and a plan to merge them.
func games(t testing.TB, from []dbtest.Target, to dbtest.Target, cfg gameworld.Config) ([]base, base, *merge.Plan) {
	t.Helper()
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: gameTables(), Conserve: gameSums()}
	var servers []base
	for i, target := range from {
		b := newBase(t, target)
		c := cfg
		c.Server, c.Seed = int64(i+1), uint64(i+1)
		pool, err := b.DB.DB()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gameworld.Create(t.Context(), pool, gameworld.Kind(target.Dialect), c); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, b)
		plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprintf("s%d", i+1), Number: c.Server, DSN: b.dsn})
	}
	b := emptyGame(t, to, cfg)
	plan.Target = merge.Target{Name: "s1", Number: 1, DSN: b.dsn}
	return servers, b, plan
}

// emptyGame is a target.
func emptyGame(t testing.TB, target dbtest.Target, cfg gameworld.Config) base {
	t.Helper()
	b := newBase(t, target)
	cfg.Faults = gameworld.Faults{}
	statements, err := cfg.Schema(gameworld.Kind(target.Dialect))
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, statements...)
	return b
}

// open opens a merge for a test that is about something else than what is lost: a plan without such numbers gets
// those of the check.
func open(t testing.TB, plan *merge.Plan, opts ...merge.Option) *merge.Merge {
	t.Helper()
	loses := func(p *merge.TablePlan) bool {
		return !slices.Contains([]merge.Policy{merge.Copy, merge.Rename, merge.NotDecided}, p.Policy) || p.Where != "" ||
			p.Orphans == "drop" || p.BadRows == "quarantine"
	}
	if plan.GivesUp == nil && slices.ContainsFunc(slices.Collect(maps.Values(plan.Tables)), loses) {
		giveUp(t, plan, opts...)
	}
	return opened(t, plan, opts...)
}

// giveUp puts what a check counts into a plan, unless the check has found something else.
func giveUp(t testing.TB, plan *merge.Plan, opts ...merge.Option) {
	t.Helper()
	m, err := merge.Open(t.Context(), plan, append([]merge.Option{merge.WithOpener(opener)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := m.Check(t.Context()); err == nil && !slices.ContainsFunc(report.Problems,
		func(p merge.Problem) bool { return p.Code != merge.CodeGivesUp }) {
		plan.GivesUp = report.GivesUp
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func opened(t testing.TB, plan *merge.Plan, opts ...merge.Option) *merge.Merge {
	t.Helper()
	m, err := merge.Open(t.Context(), plan, append([]merge.Option{merge.WithOpener(opener)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// stopAfter begins a run and lets it end behind a table, so that another one has to go on there.
func stopAfter(t *testing.T, plan *merge.Plan, table string) {
	t.Helper()
	stop := errors.New("stop")
	m := open(t, plan, merge.WithHooks(merge.Hooks{AfterTable: func(_ context.Context, name string) error {
		if name == table {
			return stop
		}
		return nil
	}}))
	if _, err := m.Run(t.Context()); !errors.Is(err, stop) {
		t.Fatalf("the run does not end behind %s: %v", table, err)
	}
}

// run merges and verifies.
func run(t testing.TB, m *merge.Merge) *merge.RunReport {
	t.Helper()
	report, err := m.Run(t.Context())
	if err != nil {
		if report.Check != nil {
			for _, p := range report.Check.Problems {
				t.Log(p)
			}
		}
		t.Fatal(err)
	}
	verified(t, m)
	return report
}

func verified(t testing.TB, m *merge.Merge) {
	t.Helper()
	report, err := m.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Failed {
		t.Errorf("verify: %+v", c)
	}
	if len(report.Checks) == 0 {
		t.Error("nothing was verified")
	}
}
