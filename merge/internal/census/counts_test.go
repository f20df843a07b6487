package census_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// oddities returns what fills a server with numbers and kinds that a program may read otherwise than a database:
// negative and beyond 64 bits, absent, empty, with zeros before them and blanks behind, far apart, and in SQLite
// anything in any column.
func oddities(target dbtest.Target, server int) []string {
	wide, unsigned, flag := "NUMERIC(30,0)", "BIGINT", "BOOLEAN"
	if target.Dialect == "mysql" {
		unsigned, flag = "BIGINT UNSIGNED", "BIT(1)"
	}
	statements := []string{
		"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
		"CREATE TABLE houses (id INTEGER NOT NULL PRIMARY KEY)",
		"CREATE TABLE ranks (id BIGINT NOT NULL PRIMARY KEY)",
		"CREATE TABLE stars (id " + unsigned + " NOT NULL PRIMARY KEY, code INTEGER UNIQUE)",
		"CREATE TABLE nobodies (id INTEGER NOT NULL PRIMARY KEY)",
		"CREATE TABLE deeds (no INTEGER NOT NULL PRIMARY KEY, hero_id INTEGER, star " + unsigned + ", wide " + wide +
			", rank_id BIGINT, none INTEGER, kind INTEGER, size BIGINT, word VARCHAR(20), pad CHAR(4), truth " + flag +
			", plain INTEGER, house_id SMALLINT, low INTEGER, high INTEGER)",
		"INSERT INTO nobodies VALUES (0)",
	}
	rows := map[string][]string{}
	add := func(table, form string, values ...any) {
		rows[table] = append(rows[table], "("+fmt.Sprintf(form, values...)+")")
	}
	for n := -20; n < 2500; n++ {
		if pick(n+server*7919, 9) > 0 {
			add("heroes", "%d", n)
		}
		if n > 0 && n < 300 {
			add("houses", "%d", n)
			add("ranks", "%d", int64(n)<<34+int64(pick(n, 1000)))
			add("stars", "%d, %s", int64(n)<<50+1, []string{"NULL", fmt.Sprint(5 * n)}[min(n%3, 1)])
		}
	}
	if unsigned != "BIGINT" {
		add("stars", "18446744073709551615, -7")
		add("stars", "9223372036854775808, 0")
	}
	words := []string{"'hero'", "'Hero'", "'hero '", "''", "' '", "'01'", "'1'", "NULL"}
	for n := range 2600 {
		star, some := fmt.Sprint(int64(1+pick(n, 400))<<50+1), func(x any) string {
			return []string{"NULL", fmt.Sprint(x)}[min(n%13, 1)]
		}
		if unsigned != "BIGINT" && n%5 == 0 {
			star = "18446744073709551615"
		}
		truth := map[bool]string{true: "TRUE", false: "FALSE"}[n%3 == 0]
		if flag == "BIT(1)" {
			truth = fmt.Sprintf("b'%d'", min(n%3, 1))
		}
		wide := []string{"-99999999999999999999", "99999999999999999999", "18446744073709551615", some(pick(n, 3000))}[min(n%9, 3)]
		add("deeds", "%d, %s, %s, %s, %s, %d, %s, %d, %s, %s, %s, %s, %d, %d, %s", n, some(pick(n+server, 2600)-60), star, wide,
			some(int64(1+pick(n, 300))<<34+int64(pick(1+pick(n, 300), 1000))), pick(n, 2000)-2, some(n%5-1),
			[]int64{int64(pick(n, 1<<20)) << 20, int64(1 + pick(n, 2400))}[n%2], words[pick(n, len(words))],
			words[pick(n+1, 6)], truth, some(1+pick(n, 90)), 1+pick(n+5, 300),
			pick(n, 1<<16), some(n%4))
	}
	for _, table := range []string{"heroes", "houses", "ranks", "stars", "deeds"} {
		statements = append(statements, "INSERT INTO "+table+" VALUES "+strings.Join(rows[table], ", "))
	}
	if target.Dialect == "sqlite" && server == 2 {
		statements = append(statements, "UPDATE deeds SET hero_id = 'x' WHERE no = 1", "UPDATE deeds SET hero_id = '' WHERE no = 2",
			"UPDATE deeds SET none = 1.5 WHERE no = 3", "UPDATE deeds SET none = x'3132' WHERE no = 4",
			"UPDATE deeds SET kind = x'31' WHERE no = 5", "UPDATE deeds SET plain = '007', kind = '02' WHERE no = 6",
			"UPDATE deeds SET plain = 4e2 WHERE no = 7", "UPDATE deeds SET house_id = 9e99 WHERE no = 8",
			"UPDATE stars SET code = x'3330' WHERE code = 5", "UPDATE deeds SET high = 1.5 WHERE no = 9",
			"UPDATE deeds SET plain = x'3132' WHERE no = 10", "UPDATE deeds SET plain = 'x' WHERE no = 11")
	}
	return statements
}

// The same columns are counted by the databases, from values that are read, and from tables that are held.
func TestTheProgramCountsAsTheDatabasesDo(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, target dbtest.Target) {
		servers := make([]*sqldb.DB, 2)
		for i := range servers {
			servers[i] = opened(t, target, fmt.Sprint("s", 1+i), oddities(target, 1+i))
		}
		want, err := census.Counts(t.Context(), servers, minGenerated, "databases")
		if err != nil || len(want) < 500 {
			t.Fatalf("the databases count %d times: %v", len(want), err)
		}
		for what, text := range want {
			if regexp.MustCompile(`values:0 hits:[1-9]`).MatchString(text) {
				t.Errorf("%s: of no values, some are keys: %s", what, text)
			}
		}
		for _, how := range []string{"values", "sets", "tables"} {
			got, err := census.Counts(t.Context(), servers, minGenerated, how)
			if err != nil || len(got) != len(want) {
				t.Errorf("%s count %d times, and the databases %d times: %v", how, len(got), len(want), err)
			}
			for what, text := range want {
				if got[what] != text {
					t.Errorf("%s, by %s:\n%s, want\n%s", what, how, got[what], text)
				}
			}
		}
	})
}

// A game has a hundred small tables. A census asks about each of their columns, and not about each two of them.
func TestWhatACensusAsksDoesNotGrowWithThePairsOfColumns(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
		const columns = 24 // half of which have so few values that they may tell kinds of rows
		server := func(seed int) []string {
			statements := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY)",
				"CREATE TABLE deeds (id INTEGER NOT NULL PRIMARY KEY" + strings.Repeat(", x%d INTEGER", columns) + ")"}
			names := make([]any, columns)
			for i := range names {
				names[i] = i
			}
			statements[1] = fmt.Sprintf(statements[1], names...)
			for n := 1; n <= 300; n++ {
				row := fmt.Sprint("INSERT INTO deeds VALUES (", 90_000+n)
				for i := range columns {
					row += fmt.Sprint(", ", []int{1 + pick(n*columns+i+seed, 700), pick(n*columns+i, 4)}[i%2])
				}
				statements = append(statements, row+")", fmt.Sprintf("INSERT INTO heroes VALUES (%d)", 2*n))
			}
			return statements
		}
		servers := []*sqldb.DB{opened(t, target, "s1", server(1)), opened(t, target, "s2", server(2))}
		if n := askedBy(t, servers); n > 3*columns {
			t.Errorf("it asked a server %d times about %d columns", n, columns)
		}
	})
}

// A table of few rows refers to keys that only the database can tell. It compares all of them at once.
func TestWhatACensusAsksDoesNotGrowWithTheRows(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
		statements := []string{"CREATE TABLE heroes (id BIGINT UNSIGNED NOT NULL PRIMARY KEY)",
			"CREATE TABLE deeds (no INTEGER NOT NULL PRIMARY KEY, hero_id INTEGER, kind INTEGER)",
			"INSERT INTO heroes VALUES (18446744073709551615)"}
		for first := 0; first < 30_000; first += 1000 {
			var heroes, deeds []string
			for n := first; n < first+1000; n++ {
				heroes = append(heroes, fmt.Sprintf("(%d)", 3+7*n))
				deeds = append(deeds, fmt.Sprintf("(%d, %d, %d)", n, 3+7*n+min(n%3, 1), n%3))
			}
			statements = append(statements, "INSERT INTO heroes VALUES "+strings.Join(heroes, ", "),
				"INSERT INTO deeds VALUES "+strings.Join(deeds, ", "))
		}
		if n := askedBy(t, []*sqldb.DB{opened(t, target, "s1", statements)}); n > 60 {
			t.Errorf("it asked a server %d times about 4 columns", n)
		}
	})
}

// askedBy returns how many statements a census sends to the first of several servers.
func askedBy(t *testing.T, servers []*sqldb.DB) int64 {
	t.Helper()
	asked := func() int64 {
		rows, err := servers[0].Strings(t.Context(), servers[0].SQL("SHOW SESSION STATUS LIKE 'Questions'"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(rows[0][1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := asked()
	if _, err := census.Take(t.Context(), servers, minGenerated, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	return asked() - before
}
