package merge_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// hostile is a schema with what is hard to merge, and what must be true afterwards.
type hostile struct {
	on            string   // the dialects that it concerns; "" for all
	flavor        string   // the one server of that dialect that it concerns; "" for all
	schema        []string // of both servers and of the target
	first, second []string // what the servers have
	before        []string // what the target has before its schema, where that differs; instead of the schema
	tables        map[string]*merge.TablePlan
	leftOut       []merge.LeftOut
	fires         []string
	chunk         int
	// refused is the code of the problem that check must report instead of a merge; says is part of it.
	refused merge.Code
	says    string
	warned  merge.Code // a warning that check must report
	// blamed is the kind of comparison that must fail, because the target changes what it is given; "" if
	// verify must find nothing.
	blamed string
	// asks are questions to the target, and the answers.
	asks [][2]string
	// after is done on the target afterwards, and then it is asked again.
	after string
	then  [][2]string
	// same names tables whose rows in the target are those of the servers, as the database shows them.
	same []string
}

// copies is a plan that copies tables.
func copies(names ...string) map[string]*merge.TablePlan {
	tables := map[string]*merge.TablePlan{}
	for _, name := range names {
		tables[name] = &merge.TablePlan{Policy: merge.Copy}
	}
	return tables
}

// many returns a statement for each number.
func many(from, to int, statement func(n int) string) []string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, statement(n))
	}
	return all
}

// mergeHostile runs the cases, each through the program and, where there is one, in the faster way.
func mergeHostile(t *testing.T, cases map[string]hostile) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			concerned := slices.DeleteFunc(dbtest.Servers(), func(target dbtest.Target) bool {
				return c.on != "" && !strings.Contains(c.on, target.Dialect) || c.flavor != "" && c.flavor != target.Name
			})
			if concerned[0].Dialect != "sqlite" && turn(t.Name(), 6) != 0 {
				nightly.Only(t, "tier one takes every sixth case that only a server can show")
			}
			chosen := dbtest.Chosen(t.Name(), concerned)
			if c.on == "" && skipped(t.Name()) {
				chosen = dbtest.ServersOf("sqlite")
			}
			dbtest.Run(t, chosen, func(t *testing.T, target dbtest.Target) {
				if c.takesARight() {
					target = target.Privileged()
				}
				servers, into, plan := small(t, target, nil, c.tables,
					slices.Concat(c.schema, c.first), slices.Concat(c.schema, c.second))
				plan.LeftOut, plan.Fires = c.leftOut, c.fires
				ways := []string{"portable", "fastest"}
				switch {
				case c.refused != "" || target.Dialect != "postgres" && c.same == nil:
					ways = ways[:1] // the other one would be the same
				case target.Dialect != "sqlite":
					ways = oneOf(t.Name(), ways)
				}
				for i, way := range ways {
					if i > 0 {
						into = newBase(t, target)
						plan.Target.DSN = into.dsn
					}
					c.merge(t, servers, into, plan, way)
				}
			})
		})
	}
}

// takesARight reports whether the tables have something for which MySQL asks for a right that an application
// seldom has: triggers, and keys that the server makes up.
func (c hostile) takesARight() bool {
	return slices.ContainsFunc(slices.Concat(c.schema, c.before, c.first, c.second), func(statement string) bool {
		return strings.HasPrefix(statement, "CREATE TRIGGER") || strings.Contains(statement, "sql_generate_invisible")
	})
}

func (c hostile) merge(t *testing.T, servers []base, into base, plan *merge.Plan, way string) {
	t.Helper()
	if c.before != nil {
		into.exec(t, c.before...)
	} else {
		into.exec(t, c.schema...)
	}
	opts := []merge.Option{merge.WithChunk(max(c.chunk, 7))}
	if way == "portable" {
		opts = append(opts, merge.WithPortableCopy())
	}
	m := open(t, plan, opts...)
	report, found := problems(t, m)
	if c.refused != "" {
		if !slices.ContainsFunc(found[c.refused], func(p merge.Problem) bool {
			return strings.Contains(p.String(), c.says) && p.Remedy != ""
		}) {
			t.Errorf("check found %v, want a problem %s that says %q and has a remedy", report.Problems, c.refused, c.says)
		}
		return
	}
	if c.warned != "" && !slices.ContainsFunc(report.Warnings, func(p merge.Problem) bool {
		return p.Code == c.warned && strings.Contains(p.String(), c.says)
	}) {
		t.Errorf("check warned of %v, want %s that says %q", report.Warnings, c.warned, c.says)
	}
	if len(report.Problems) > 0 {
		t.Fatalf("%s: check refuses it: %v", way, report.Problems)
	}
	if _, err := m.Run(t.Context()); err != nil {
		t.Fatalf("%s: %v", way, err)
	}
	v, err := m.Verify(t.Context())
	if err != nil {
		t.Fatalf("%s: verify: %v", way, err)
	}
	if c.blamed != "" && !slices.ContainsFunc(v.Failed, func(f merge.Comparison) bool { return f.What == c.blamed }) {
		t.Errorf("%s: verify finds %+v, want a %s that differs", way, v.Failed, c.blamed)
	}
	for _, failed := range v.Failed {
		if c.blamed == "" {
			t.Errorf("%s: verify: %+v", way, failed)
		}
	}
	for _, ask := range c.asks {
		if got := strings.Join(into.texts(t, into.dialect(ask[0])), ","); got != ask[1] {
			t.Errorf("%s: %s: %q, want %q", way, ask[0], got, ask[1])
		}
	}
	if c.after != "" {
		into.exec(t, c.after)
		for _, ask := range c.then {
			if got := strings.Join(into.texts(t, into.dialect(ask[0])), ","); got != ask[1] {
				t.Errorf("%s: after %s: %s: %q, want %q", way, c.after, ask[0], got, ask[1])
			}
		}
	}
	for _, name := range c.same {
		var want []string
		for _, s := range servers {
			want = append(want, s.shown(t, name)...)
		}
		slices.Sort(want)
		got := into.shown(t, name)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s holds %d rows that differ from the %d of the servers:\n got %q\nwant %q", way, name,
				len(got), len(want), firstDifference(got, want), firstDifference(want, got))
		}
	}
}

// firstDifference returns the first element that the other list lacks.
func firstDifference(a, b []string) string {
	for _, s := range a {
		if !slices.Contains(b, s) {
			return s
		}
	}
	return ""
}

// shown returns the rows of a table as the database itself writes them.
func (b base) shown(t testing.TB, table string) []string {
	t.Helper()
	if b.target.Dialect == "postgres" {
		return b.texts(t, "SELECT x::text FROM ONLY "+table+" AS x")
	}
	pool, err := b.DB.DB()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	columns, err := conn.QueryContext(t.Context(), "SELECT * FROM "+table+" WHERE 1 = 0")
	if err != nil {
		t.Fatal(err)
	}
	defer columns.Close()
	names, err := columns.Columns()
	if err != nil || columns.Err() != nil {
		t.Fatal(err, columns.Err())
	}
	// The only connection is used again below.
	if err := columns.Close(); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range names {
		if b.target.Dialect == "mysql" {
			quoted := "`" + name + "`"
			list = append(list, "COALESCE(HEX(CAST("+quoted+" AS CHAR)), 'NULL'), '/', COALESCE(HEX("+quoted+"), 'NULL')")
		} else {
			quoted := `"` + name + `"`
			list = append(list, "typeof("+quoted+") || ' ' || quote("+quoted+")")
		}
	}
	query := "SELECT " + strings.Join(list, " || ' | ' || ") + " FROM " + table
	if b.target.Dialect == "mysql" {
		query = "SELECT CONCAT(" + strings.Join(list, ", ' | ', ") + ") FROM " + table
		if _, err := conn.ExecContext(context.Background(), "SET SESSION sql_mode = ''"); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// dialect puts the words of a database into statements that were written for all.
func (b base) dialect(statement string) string {
	words := map[string][]string{
		"sqlite":   {"FOLDS", "VARCHAR(40) COLLATE NOCASE", "QUOTE", `"`, "BLOBTYPE", "BLOB", "BLOB'", "X'", "TIMESTAMPTYPE", "DATETIME", "COUNTED", "id INTEGER PRIMARY KEY AUTOINCREMENT"},
		"mysql":    {"FOLDS", "VARCHAR(40) COLLATE utf8mb4_general_ci", "QUOTE", "`", "BLOBTYPE", "VARBINARY(40)", "BLOB'", "X'", "TIMESTAMPTYPE", "DATETIME(6)", "COUNTED", "id BIGINT AUTO_INCREMENT PRIMARY KEY"},
		"postgres": {"FOLDS", "VARCHAR(40) COLLATE folded", "QUOTE", `"`, "BLOBTYPE", "BYTEA", "BLOB'", `'\x`, "TIMESTAMPTYPE", "TIMESTAMP", "COUNTED", "id BIGSERIAL PRIMARY KEY"},
	}[b.target.Dialect]
	return strings.NewReplacer(words...).Replace(statement)
}
