package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Servers that are equally old have the same keys, from the same beginning to the same end. Then neither the
// numbers that are keys nor those at which they end tell one server from the other, and what refers is found by
// where its values end, or by where the keys begin.
func TestADraftAsksAboutServersWhoseKeysAreAlike(t *testing.T) {
	t.Parallel()
	schema := []string{
		"CREATE TABLE heroes (COUNTED, level INTEGER)",
		"CREATE TABLE stats (hero INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, wins INTEGER)",
		"CREATE TABLE guilds (COUNTED, members VARCHAR(99), notes VARCHAR(99), marks VARCHAR(20), word VARCHAR(20))",
		"CREATE TABLE items (COUNTED, bound_to INTEGER, kind INTEGER)",
	}
	texts := []string{"stats.hero", "guilds.members", "guilds.notes"}
	numbers := slices.Concat(texts, []string{"items.bound_to"})
	for _, c := range []struct {
		name               string
		first, keys, every int // each so many-th hero was deleted
		refer              []string
	}{
		{"one was deleted", 1, 150, 1000, numbers},
		{"some were deleted", 1, 150, 9, texts},
		{"from a thousand on", 1000, 150, 9, append(numbers, "guilds.marks", "guilds.word")},
		{"few of them", 5001, 14, 9, append(numbers, "guilds.marks", "guilds.word")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rows := func(server int) (statements []string) {
				values := map[string][]string{}
				add := func(table, format string, args ...any) {
					values[table] = append(values[table], "("+fmt.Sprintf(format, args...)+")")
				}
				n := server
				hero := func() int { // any one, also if it was deleted
					n += 7
					return c.first + n*n%c.keys
				}
				for i := range c.keys {
					if id := c.first + i; i%c.every != 3 {
						add("heroes (id, level)", "%d, %d", id, i*server%20)
						add("stats (hero, wins)", "%d, %d", id, i*7%13)
					}
				}
				for i := range 2 * c.keys {
					add("guilds (members, notes, marks, word)", `'%d,%d,%d', '{"chief": %d, "size": %d}', '%d:%d', 'hero_%d'`,
						hero(), c.first+i%c.keys, hero(), c.first+i%c.keys, i%5, c.first+i%c.keys, i%10, c.first+i%c.keys)
				}
				for i := range 2 * c.keys {
					add("items (bound_to, kind)", "%d, %d", c.first+i%c.keys, (i+server)%5)
				}
				for table, all := range values {
					statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(all, ", "))
				}
				return statements
			}
			dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
				_, _, plan := small(t, target, schema, nil, rows(1), rows(2))
				draft := draftOf(t, plan)
				var found []string
				for name, p := range draft.Tables {
					for _, open := range p.Undecided {
						if open.Candidate == "heroes.id" && (open.Column != "notes" || open.As == "path $.chief") {
							found = append(found, name+"."+open.Column)
						}
					}
				}
				if heroes := draft.Identities["heroes"]; heroes != nil {
					found = append(found, heroes.In...)
				}
				for _, column := range c.refer {
					if !slices.Contains(found, column) {
						t.Errorf("%s may refer to heroes, and the draft has %q", column, found)
					}
				}
				if p := draft.Tables["guilds"]; p.Policy != merge.Copy {
					t.Errorf("guilds have the policy %s: %s", p.Policy, p.Note)
				}
			})
		})
	}
}

// Two tables may have keys of one name that no database counts, and each number of the shorter table is a key of the
// longer one, which proves nothing. A sender is a hero only in letters of one kind, in which the numbers end where his
// keys do, and those of other kinds are mostly none.
func TestADraftAsksAboutKeysThatAreCalledAlike(t *testing.T) {
	t.Parallel()
	schema := []string{
		"CREATE TABLE heroes (guid INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, level INTEGER)",
		"CREATE TABLE items (guid INTEGER DEFAULT 0 NOT NULL PRIMARY KEY, kind INTEGER)",
		"CREATE TABLE sales (COUNTED, itemowner INTEGER)",
		"CREATE TABLE letters (COUNTED, kind INTEGER, sender INTEGER)",
	}
	rows := func(server int) (statements []string) {
		heroes := 200 - 30*server
		add := func(table, format string, args ...any) {
			statements = append(statements, fmt.Sprintf("INSERT INTO "+table+" VALUES ("+format+")", args...))
		}
		for n := range 4 * heroes {
			if n < heroes {
				add("heroes (guid, level)", "%d, %d", n+1, n*server%60)
				add("sales (itemowner)", "%d", n+1)
				add("sales (itemowner)", "%d", n*13%heroes+1)
				add("letters (kind, sender)", "0, %d", n*11%heroes+1)
				add("letters (kind, sender)", "2, %d", (n*n*31+server)%20000+1)
			}
			add("items (guid, kind)", "%d, %d", n+1, (n+server)%9)
		}
		return statements
	}
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		_, _, plan := small(t, target, schema, nil, rows(1), rows(2))
		draft := draftOf(t, plan)
		for table, want := range map[string]merge.OpenColumn{
			"sales":   {Column: "itemowner", Candidate: "heroes.guid"},
			"letters": {Column: "sender", Candidate: "heroes.guid", When: "kind = 0"},
		} {
			found := draft.Tables[table].Undecided
			if !slices.ContainsFunc(found, func(o merge.OpenColumn) bool {
				o.Evidence = ""
				return o == want
			}) {
				t.Errorf("%s: %+v, want %+v", table, found, want)
			}
		}
	})
}
