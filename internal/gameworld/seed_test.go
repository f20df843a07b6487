package gameworld_test

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/gameworld"
)

// labels are what a row is known by without its key.
var labels = map[string]string{
	"accounts": "login", "guilds": "name", "roles": "nickname", "items": "created_at",
}

// dump writes every row of every table as a line, on every database in the same way: in place of keys
// the label of the row that they belong to, and in the order of the lines.
func dump(t *testing.T, db *sql.DB) map[string][]string {
	t.Helper()
	lines := map[string][]string{}
	for _, table := range gameworld.Tables() {
		var selected, joined []string
		for i, name := range columnsOf(t, db, table) {
			at := slices.IndexFunc(references, func(r [3]string) bool { return r[0] == table && r[1] == name })
			switch {
			case at >= 0:
				refs := references[at][2]
				selected = append(selected, fmt.Sprintf("p%d.%s", i, labels[refs]))
				joined = append(joined, fmt.Sprintf(" LEFT JOIN %s p%d ON p%d.id = c.%s", refs, i, i, name))
			case name != "id" || table == "world":
				selected = append(selected, "c."+name)
			}
		}
		query := "SELECT " + strings.Join(selected, ", ") + " FROM " + table + " c" + strings.Join(joined, "")
		lines[table] = linesOf(t, db, query)
		slices.Sort(lines[table])
	}
	return lines
}

// columnsOf lists the columns of a table, in their order.
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

func linesOf(t *testing.T, db *sql.DB, query string) (lines []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values, places := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		places[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i, v := range values {
			fmt.Fprintf(&b, "%s=%s|", names[i], written(names[i], v))
		}
		lines = append(lines, b.String())
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// written is a value in the same letters, whichever driver it came from.
func written(column string, v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		if column == "face" {
			return hex.EncodeToString(v)
		}
		return fmt.Sprintf("%q", v)
	case string:
		return fmt.Sprintf("%q", v)
	case bool:
		return map[bool]string{false: `"0"`, true: `"1"`}[v]
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%q", fmt.Sprint(v))
}

// same compares two dumps.
func same(t *testing.T, what string, a, b map[string][]string) {
	t.Helper()
	for _, table := range gameworld.Tables() {
		if len(a[table]) == 0 || len(a[table]) != len(b[table]) {
			t.Errorf("%s: %s has %d and %d rows", what, table, len(a[table]), len(b[table]))
			continue
		}
		for i, line := range a[table] {
			if line != b[table][i] {
				t.Errorf("%s: %s differs, for example\n%s\n%s", what, table, line, b[table][i])
				break
			}
		}
	}
}

func TestTheSeedRepeatsEverythingButTheKeys(t *testing.T) {
	t.Parallel()
	cfg := gameworld.Config{
		Server: 4, Roles: 300, Seed: 11, Clash: 0.3, Names: gameworld.ExactNames, Faults: gameworld.Faults{
			Taken: 5, Twins: 3, Orphans: 2,
		},
	}
	databases(t, func(t *testing.T, target dbtest.Target) {
		one, two := create(t, target, cfg), create(t, target, cfg)
		first := dump(t, one.DB)
		same(t, "the same again", first, dump(t, two.DB))
		if fmt.Sprint(one.Summary) != fmt.Sprint(two.Summary) {
			t.Errorf("the summaries are %v and %v", one.Summary, two.Summary)
		}
		if slices.Equal(keys(t, one.DB), keys(t, two.DB)) {
			t.Error("the keys are the same too, so nothing really made them")
		}
		// And so on every kind of database.
		sqlite := dbtest.Targets()[0]
		same(t, "on SQLite", first, dump(t, create(t, sqlite, cfg).DB))
		// The layout changes the keys alone.
		cfg := cfg
		cfg.Layout = generator.Game16()
		same(t, "another layout", first, dump(t, create(t, target, cfg).DB))
	})
}

func TestAnotherSeedOrServerIsAnotherWorld(t *testing.T) {
	t.Parallel()
	sqlite := dbtest.Targets()[0]
	cfg := gameworld.Config{Server: 4, Roles: 300, Seed: 11}
	first := dump(t, create(t, sqlite, cfg).DB)
	for what, change := range map[string]func(c *gameworld.Config){
		"seed":   func(c *gameworld.Config) { c.Seed++ },
		"server": func(c *gameworld.Config) { c.Server++ },
	} {
		other := cfg
		change(&other)
		second := dump(t, create(t, sqlite, other).DB)
		for _, table := range gameworld.Tables() {
			if slices.Equal(first[table], second[table]) {
				t.Errorf("another %s has the same %s", what, table)
			}
		}
	}
}

// A missing table leaves the others as they are.
func TestAFaultChangesNothingElse(t *testing.T) {
	t.Parallel()
	sqlite := dbtest.Targets()[0]
	cfg := gameworld.Config{Server: 4, Roles: 300, Seed: 11}
	whole := create(t, sqlite, cfg)
	cfg.Faults = gameworld.Faults{MissingTable: "items", OtherType: "guilds.notice"}
	less := create(t, sqlite, cfg)
	for query := range map[string]bool{
		"SELECT sum(gold) FROM mail": true, "SELECT sum(funds) FROM guilds": true, "SELECT sum(amount) FROM gold_ledger": true,
		"SELECT sum(closeness) FROM friends": true, "SELECT sum(level) FROM roles": true,
		"SELECT count(*) FROM guilds WHERE notice IS NOT NULL": true,
	} {
		if a, b := number(t, whole.DB, query), number(t, less.DB, query); a != b || a == 0 {
			t.Errorf("%s: %d without and %d with the faults", query, a, b)
		}
	}
}
