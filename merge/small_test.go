package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// small makes servers and a target out of statements, which every server and the target begin with, and those
// of each server. BIGINT, VARCHAR and the like mean the same everywhere.
func small(
	t testing.TB, target dbtest.Target, schema []string, tables map[string]*merge.TablePlan, servers ...[]string,
) ([]base, base, *merge.Plan) {
	t.Helper()
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"}, Tables: tables}
	var bases []base
	for i, statements := range servers {
		b := newBase(t, target)
		b.unchecked(t, append(append([]string(nil), schema...), statements...)...)
		bases = append(bases, b)
		plan.Servers = append(plan.Servers, merge.Server{Name: fmt.Sprintf("s%d", i+1), Number: int64(i + 1), DSN: b.dsn})
	}
	into := newBase(t, target)
	into.exec(t, schema...)
	plan.Target = merge.Target{Name: "s1", Number: 1, DSN: into.dsn}
	return bases, into, plan
}

// unchecked executes statements in one transaction, without looking at foreign keys, where that can be had.
func (b base) unchecked(t testing.TB, statements ...string) {
	t.Helper()
	pool, err := b.DB.DB()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before := map[string]string{
		"sqlite": "PRAGMA foreign_keys = OFF", "mysql": "SET SESSION foreign_key_checks = 0",
		"postgres": "SET session_replication_role = replica",
	}[b.target.Dialect]
	after := map[string]string{
		"sqlite": "PRAGMA foreign_keys = ON", "mysql": "SET SESSION foreign_key_checks = 1",
		"postgres": "SET session_replication_role = DEFAULT",
	}[b.target.Dialect]
	begin, commit := "BEGIN", "COMMIT"
	if b.target.Dialect == "mysql" { // CREATE TABLE ends a transaction there
		begin, commit = "SET autocommit = 0", "SET autocommit = 1"
	}
	for _, s := range slices.Concat([]string{before, begin}, statements, []string{commit, after}) {
		if _, err := conn.ExecContext(t.Context(), b.dialect(s)); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// id is an ID that a server made, the n-th of many.
func id(server, n int) string {
	id, err := generator.Game().Compose(generator.Parts{
		Time: generator.Game().Epoch.Add(generator.Game().Tick * 1000 * 1000).Add(generator.Game().Tick * 10 * generatorTick(n)),
		Node: int64(server), Sequence: int64(n % 100),
	})
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(id)
}

// problems checks, and returns the codes of what was found wrong, each once.
func problems(t testing.TB, m *merge.Merge) (*merge.CheckReport, map[merge.Code][]merge.Problem) {
	t.Helper()
	report, err := m.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[merge.Code][]merge.Problem{}
	for _, p := range report.Problems {
		found[p.Code] = append(found[p.Code], p)
	}
	return report, found
}

// folding is a column type whose values are equal if they differ in case, and where the database can, in
// accents and trailing blanks.
func folding(target dbtest.Target, size int) (prepare []string, columnType string) {
	switch target.Dialect {
	case "sqlite":
		return nil, fmt.Sprintf("VARCHAR(%d) COLLATE NOCASE", size)
	case "mysql":
		return nil, fmt.Sprintf("VARCHAR(%d) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", size)
	}
	return []string{"CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"},
		fmt.Sprintf("VARCHAR(%d) COLLATE folded", size)
}

// has tells whether a text is one of several.
func has(all []string, text string) bool {
	for _, s := range all {
		if strings.TrimSpace(s) == text {
			return true
		}
	}
	return false
}
