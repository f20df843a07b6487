package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// TestWordsThatAreNoKeysAreReported has words in lists that cannot be keys of the table, which a database may
// refuse even to compare with its keys.
func TestWordsThatAreNoKeysAreReported(t *testing.T) {
	t.Parallel()
	const a, b = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
	words := func(declared, first, second, list string) hostile {
		return hostile{
			schema: []string{"CREATE TABLE p (id " + declared + " NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)",
				"CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, l VARCHAR(200))"},
			first: []string{"INSERT INTO p VALUES ('" + first + "', 'a')"},
			second: []string{"INSERT INTO p VALUES ('" + second + "', 'a')", "INSERT INTO c VALUES (" + id(2, 1) + ", '" + second + "')",
				"INSERT INTO c VALUES (" + id(2, 2) + ", '" + second + "," + list + "')"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}},
				"c": {Policy: merge.Copy, References: []merge.Reference{{Column: "l", Table: "p", List: ","}}}},
			refused: merge.CodeOrphan, says: "s2: c: l: 1 row",
		}
	}
	on := func(dialect string, c hostile) hostile {
		c.on = dialect
		return c
	}
	uuids := words("UUID", a, b, "all")
	uuids.on, uuids.flavor = "mysql", "mariadb"
	enums := on("postgres", words("mood", "ape", "bee", "all"))
	enums.schema = append([]string{"CREATE TYPE mood AS ENUM ('ape', 'bee')"}, enums.schema...)
	mergeHostile(t, map[string]hostile{
		"a word among UUIDs":                        on("postgres", words("UUID", a, b, "all")),
		"a word among UUIDs of MariaDB":             uuids,
		"a UUID that is too short":                  on("postgres", words("UUID", a, b, a[:30])),
		"a word among dates":                        words("DATE", "2024-01-01", "2024-01-02", "all"),
		"a day that no month has":                   words("DATE", "2024-01-01", "2024-01-02", "2024-02-30"),
		"a date of zeros":                           words("DATE", "2024-01-01", "2024-01-02", "0000-00-00"),
		"a word among times":                        words("TIMESTAMPTYPE", "2024-01-01 10:00:00", "2024-01-02 10:00:00", "all"),
		"a word among fractions":                    words("DECIMAL(9,2)", "1.5", "2.5", "all"),
		"a number that only some programs read":     words("DECIMAL(9,2)", "1.5", "2.5", "0x1p-2"),
		"a word among numbers":                      words("INTEGER", "1", "2", "all"),
		"a number that is too large for its column": words("INTEGER", "1", "2", "9999999999"),
		"a number that is too large for any column": words("BIGINT", "1", "2", "99999999999999999999"),
		"a number beyond the sign":                  words("BIGINT", "1", "2", "9999999999999999999"),
		"a word that an ENUM lacks":                 enums,
		"a word among addresses":                    on("postgres", words("INET", "10.0.0.1/32", "10.0.0.2/32", "all")),
	})
}
