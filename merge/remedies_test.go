package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Who reads no further than the first answer must not lose a row by it.
func TestARemedyNamesTheLikelyAnswerFirst(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		const pets = "CREATE TABLE pets (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(9))"
		one := []string{"INSERT INTO pets VALUES (1, 'a')"}
		for name, c := range map[string]struct {
			schema, rows []string
			tables       map[string]*merge.TablePlan
			code         merge.Code
			table        string
			order        []string
		}{
			"a key that was counted, or that is one of another table": {
				rows: []string{"INSERT INTO stats VALUES (1, 5)"}, schema: []string{"CREATE TABLE stats (id BIGINT NOT NULL PRIMARY KEY, hp BIGINT)"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind}, "stats": {Policy: merge.Copy}},
				code:   merge.CodePrimaryKey, table: "stats", order: []string{"identities:", "renumber: apart", "keep_first"},
			},
			"a key of several columns": {
				rows:   []string{"INSERT INTO slots VALUES (1, 1)"},
				schema: []string{"CREATE TABLE slots (pet BIGINT NOT NULL, slot BIGINT NOT NULL, PRIMARY KEY (pet, slot))"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind}, "slots": {Policy: merge.Copy}},
				code:   merge.CodePrimaryKey, table: "slots", order: []string{"identities:", "make a table", "renumber: apart", "keep_first"},
			},
			"the key of rows that become one by another key": {
				rows:   []string{"INSERT INTO bans (mac) VALUES ('m{id}')"},
				schema: []string{"CREATE TABLE bans (COUNTED, mac VARCHAR(30) UNIQUE)"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind}, "bans": {Policy: merge.KeepFirst, Key: []string{"mac"}}},
				code:   merge.CodePrimaryKey, table: "bans", order: []string{"renumber: true", "change the rows"},
			},
			"a unique key of numbers": {
				rows:   []string{"INSERT INTO tags VALUES ({id}, 1)"},
				schema: []string{"CREATE TABLE tags (id BIGINT NOT NULL PRIMARY KEY, pet BIGINT UNIQUE)"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind}, "tags": {Policy: merge.Copy}},
				code:   merge.CodeUniqueKey, table: "tags", order: []string{"identities:", "by set:", "{server}", "keep_first"},
			},
			"a unique text": {
				rows:   []string{"INSERT INTO tags VALUES ({id}, 'x')"},
				schema: []string{"CREATE TABLE tags (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9) UNIQUE)"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind}, "tags": {Policy: merge.Copy}},
				code:   merge.CodeUniqueKey, table: "tags", order: []string{"rename", "keep_first"},
			},
			"a second unique text beside the name": {
				rows:   []string{"INSERT INTO tags VALUES ({id}, 'x', 'y')"},
				schema: []string{"CREATE TABLE tags (id BIGINT NOT NULL PRIMARY KEY, tag VARCHAR(9) UNIQUE, mail VARCHAR(9) UNIQUE)"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind},
					"tags": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "tag"}}},
				code: merge.CodeUniqueKey, table: "tags", order: []string{"mail", "set:", "{server}", "change the rows", "keep_first"},
			},
			"a reference with a word for none": {
				rows:   []string{"INSERT INTO roles VALUES ({id}, 0)"},
				schema: []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, pet_id BIGINT)"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind}, "roles": {Policy: merge.Copy,
					References: []merge.Reference{{Column: "pet_id", Table: "pets"}}}},
				code: merge.CodeOrphan, table: "roles", order: []string{"when: pet_id <> 0", "correct the rows", "orphans: null", "orphans: drop"},
			},
			"a reference of which some rows were deleted": {
				rows:   []string{"INSERT INTO roles VALUES ({id}, 7)"},
				schema: []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, pet_id BIGINT NOT NULL)"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Apart}, "roles": {Policy: merge.Copy,
					References: []merge.Reference{{Column: "pet_id", Table: "pets", When: "pet_id <> 0"}}}},
				code: merge.CodeOrphan, table: "roles", order: []string{"correct the rows",
					"when: (pet_id <> 0) AND pet_id IN (SELECT id FROM pets)", "orphans: drop"},
			},
			"a foreign key": {
				rows: []string{"INSERT INTO roles VALUES ({id}, 7)"},
				schema: []string{"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, pet_id BIGINT NOT NULL, " +
					"FOREIGN KEY (pet_id) REFERENCES pets (id))"},
				tables: map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Behind}, "roles": {Policy: merge.Copy}},
				code:   merge.CodeOrphan, table: "roles", order: []string{"correct the rows", "orphans: drop"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				onServersAtNight(t, target)
				var rows [2][]string
				for i := range rows {
					for _, row := range append(one, c.rows...) {
						rows[i] = append(rows[i], strings.ReplaceAll(row, "{id}", id(i+1, 1)))
					}
				}
				_, _, plan := small(t, target, append([]string{pets}, c.schema...), c.tables, rows[0], rows[1])
				report, found := problems(t, open(t, plan))
				for _, p := range found[c.code] {
					if p.Table != c.table {
						continue
					}
					at := -1
					for _, words := range c.order {
						next := strings.Index(p.Remedy, words)
						if next <= at {
							t.Errorf("%q does not stand where it should in the remedy %q", words, p.Remedy)
						}
						at = max(at, next)
					}
					return
				}
				t.Errorf("check found %v, want %s of %s", report.Problems, c.code, c.table)
			})
		}
	})
}

// PostgreSQL takes a name with capitals for another one unless it stands in quotes. A remedy that is copied has to work.
func TestARemedyHasTheQuotesThatNamesNeed(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		for _, name := range []string{`"petID"`, `"from"`} {
			schema := []string{`CREATE TABLE "Pets" ("petID" BIGINT NOT NULL PRIMARY KEY)`,
				`CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, ` + name + ` BIGINT NOT NULL)`}
			reference := merge.Reference{Column: strings.Trim(name, `"`), Table: "Pets"}
			tables := map[string]*merge.TablePlan{"Pets": {Policy: merge.Copy, Renumber: merge.Apart},
				"roles": {Policy: merge.Copy, References: []merge.Reference{reference}}}
			server := func(number int) []string {
				return []string{`INSERT INTO "Pets" VALUES (1)`, "INSERT INTO roles VALUES (" + id(number, 1) + ", 7)"}
			}
			_, _, plan := small(t, target, schema, tables, server(1), server(2))
			_, found := problems(t, open(t, plan))
			there := name + ` IN (SELECT "petID" FROM "Pets")`
			for _, want := range []string{"when: " + name + " <> 0 ", "when: " + there + " "} {
				if got := fmt.Sprint(found[merge.CodeOrphan]); !strings.Contains(got, want) {
					t.Errorf("no remedy says %s: %s", want, got)
				}
			}
			reference.When = there
			plan.Tables["roles"].References[0] = reference
			if _, found := problems(t, open(t, plan)); len(found) > 0 {
				t.Errorf("the remedy does not help: %v", found)
			}
		}
	})
}

// The draft asks about one table where the keys of several fit as well. Whoever answers that it is not this one has
// not said that the column holds no keys.
func TestARemedyDoesNotTakeAColumnForPlainBecauseItRefersToAnotherTable(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20))",
			"CREATE TABLE pets (id INTEGER NOT NULL PRIMARY KEY, tag VARCHAR(20))",
			"CREATE TABLE notes (id BIGINT NOT NULL PRIMARY KEY, props TEXT, family INTEGER)"}
		server := func(n int) (all []string) {
			for i := 1; i <= 80; i++ {
				all = append(all, fmt.Sprintf("INSERT INTO heroes VALUES (%d, 'h')", i), fmt.Sprintf("INSERT INTO pets VALUES (%d, 'p')", i),
					fmt.Sprintf(`INSERT INTO notes VALUES (%s, '{"whose": %d}', %d)`, id(n, i), i, i%9+1))
			}
			return all
		}
		_, _, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes": {Policy: merge.Copy, Renumber: merge.Apart}, "pets": {Policy: merge.Copy, Renumber: merge.Apart},
			"notes": {Policy: merge.Copy, Undecided: []merge.OpenColumn{{Column: "props", Candidate: "heroes.id", As: "path $.whose"},
				{Column: "family", Candidate: "heroes.id"}}},
		}, server(1), server(2))
		_, found := problems(t, opened(t, plan))
		p := found[merge.CodeUndecided]
		// A family is a number beside each member, and the families of two servers would become one.
		if len(p) != 2 || !strings.Contains(p[1].Remedy, "make a table of them first") || strings.Contains(p[0].Remedy, "table of them") || !strings.Contains(p[0].Remedy, "if it refers to another table, declare it there in the same way; if it holds no keys") {
			t.Errorf("check found %v", found)
		}
	})
}
