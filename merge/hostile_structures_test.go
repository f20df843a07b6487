package merge_test

import (
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestRareStructuresAreMergedOrRefused(t *testing.T) {
	t.Parallel()
	renumber := func(names ...string) map[string]*merge.TablePlan {
		tables := map[string]*merge.TablePlan{}
		for _, n := range names {
			tables[n] = &merge.TablePlan{Policy: merge.Copy, Renumber: merge.Behind}
		}
		return tables
	}
	mergeHostile(t, map[string]hostile{
		"an invisible column": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, gold INT INVISIBLE, v INT)"},
			first:  []string{"INSERT INTO odd (id, gold, v) VALUES (" + id(1, 1) + ", 5, 6)"},
			second: []string{"INSERT INTO odd (id, gold, v) VALUES (" + id(2, 1) + ", 7, 8)"},
			tables: map[string]*merge.TablePlan{"odd": {Policy: merge.Copy, Where: "gold > 0"}},
			same:   []string{"odd"}, asks: [][2]string{{"SELECT SUM(gold) FROM odd", "12"}}},
		"a primary key that MySQL makes up": {on: "mysql", flavor: "mysql",
			schema: []string{"SET SESSION sql_generate_invisible_primary_key = ON", "CREATE TABLE odd (gold INT)", "SET SESSION sql_generate_invisible_primary_key = OFF"},
			first:  []string{"INSERT INTO odd VALUES (5), (5)"},
			second: []string{"INSERT INTO odd VALUES (5)"},
			tables: renumber("odd"), asks: [][2]string{{"SELECT SUM(gold) FROM odd", "15"}}},
		"a key of zero in a column that counts": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, gold INT)"},
			first:  []string{"SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "INSERT INTO odd VALUES (0, 5), (1, 6)"},
			second: []string{"INSERT INTO odd VALUES (10, 5)"},
			tables: copies("odd"), same: []string{"odd"}},
		"a key of zero beside keys that are renumbered": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, gold INT)"},
			first:  []string{"INSERT INTO odd VALUES (1, 5), (2, 6)"},
			second: []string{"SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "INSERT INTO odd VALUES (0, 7), (1, 8)"},
			tables: renumber("odd"), asks: [][2]string{{"SELECT COUNT(*) FROM odd", "4"}, {"SELECT SUM(gold) FROM odd", "26"}}},
		"keys below 0, which are not renumbered": {
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, gold INT)", "CREATE TABLE kid (id BIGINT NOT NULL PRIMARY KEY, odd BIGINT, gold INT, FOREIGN KEY (odd) REFERENCES odd(id))"},
			first:  []string{"INSERT INTO odd VALUES (-1, 5), (2, 6)", "INSERT INTO kid VALUES (1, -1, 5)"},
			second: []string{"INSERT INTO odd VALUES (-1, 7), (1, 8)", "INSERT INTO kid VALUES (1, -1, 7)"},
			tables: renumber("odd", "kid"), refused: merge.CodePrimaryKey, says: "keys below 0"},
		"keys that are too large once they are renumbered": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, gold INT)"},
			first:  []string{"INSERT INTO odd VALUES (200, 5), (2, 6)"},
			second: []string{"INSERT INTO odd VALUES (100, 7), (1, 8)"},
			tables: renumber("odd"), refused: merge.CodeTotal, says: "id"},
		"rows that refer to rows of their own table, and to themselves": {
			schema: []string{"CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, up BIGINT, tag VARCHAR(9), uptag VARCHAR(9), FOREIGN KEY (up) REFERENCES odd (id))"},
			first:  []string{"INSERT INTO odd VALUES (1, 3, 'a', 'c'), (2, 1, 'b', 'a'), (3, 3, 'c', 'c')"},
			second: []string{"INSERT INTO odd VALUES (1, 3, 'd', 'f'), (2, 1, 'e', 'd'), (3, 3, 'f', 'f')"},
			tables: renumber("odd"), asks: [][2]string{{"SELECT COUNT(*) FROM odd a JOIN odd b ON b.id = a.up WHERE a.uptag = b.tag", "6"}}},
		"a key that only the database may give": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n INT GENERATED ALWAYS AS (id * 2) STORED, gold INT)"},
			first:  []string{"INSERT INTO odd (gold) VALUES (1), (2)"},
			second: []string{"INSERT INTO odd (gold) VALUES (3), (4)"},
			tables: renumber("odd"), asks: [][2]string{{"SELECT SUM(n) FROM odd", "20"}}, after: "INSERT INTO odd (gold) VALUES (9)", then: [][2]string{{"SELECT id FROM odd WHERE gold = 9", "5"}}},
		"equal rows without a key": {
			schema: []string{"CREATE TABLE odd (gold INT, name VARCHAR(20))"},
			first:  []string{"INSERT INTO odd VALUES (1, 'x'), (1, 'x'), (NULL, NULL), (NULL, NULL), (2, '')"},
			second: []string{"INSERT INTO odd VALUES (1, 'x'), (NULL, NULL)"},
			tables: copies("odd"), same: []string{"odd"}, chunk: 7},
		"a table without columns": {on: "postgres",
			schema: []string{"CREATE TABLE odd ()"},
			first:  []string{"INSERT INTO odd DEFAULT VALUES", "INSERT INTO odd DEFAULT VALUES"},
			tables: copies(), refused: merge.CodeLeftOut, says: "table without columns"},
		"an exclusion constraint over a computed column": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INT, span INT4RANGE GENERATED ALWAYS AS (int4range(a, a + 2)) STORED, EXCLUDE USING gist (span WITH &&))"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 1)"},
			second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 3)"},
			tables: copies("odd"), same: []string{"odd"}, warned: merge.CodeUncheckable, says: "odd_span_excl"},
		"large objects": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, picture OID)"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", lo_from_bytea(0, 'abc'))"},
			tables: copies("odd"), refused: merge.CodeLeftOut, says: "with 1 objects"},
		"a rule of the target that swallows rows": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, name TEXT)", "CREATE RULE quiet AS ON INSERT TO odd WHERE NEW.name = 'x' DO INSTEAD NOTHING"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'Ann')", "ALTER TABLE odd DISABLE RULE quiet", "INSERT INTO odd VALUES (" + id(1, 2) + ", 'x')"},
			tables: copies("odd"), same: []string{"odd"}},
		"row-level security of the target": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, name TEXT)", "ALTER TABLE odd ENABLE ROW LEVEL SECURITY", "ALTER TABLE odd FORCE ROW LEVEL SECURITY"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'Ann')"},
			tables: copies("odd"), same: []string{"odd"}},
		"a table that has lost and got columns": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, gone INT, name TEXT)", "ALTER TABLE odd DROP COLUMN gone", "ALTER TABLE odd ADD COLUMN late INT DEFAULT 7"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'Ann')"},
			tables: copies("odd"), same: []string{"odd"}},
		"a table without row numbers": {on: "sqlite",
			schema: []string{"CREATE TABLE odd (a TEXT, b INT, c BLOB, PRIMARY KEY (a, b)) WITHOUT ROWID"},
			first:  []string{"INSERT INTO odd VALUES ('x', 1, X'00'), ('X', 1, X'00'), ('', -1, NULL)"},
			second: []string{"INSERT INTO odd VALUES ('x', 2, X'00')"},
			tables: copies("odd"), same: []string{"odd"}},
		"a strict table": {on: "sqlite",
			schema: []string{"CREATE TABLE odd (id INTEGER PRIMARY KEY, a ANY, b REAL, c TEXT, d BLOB) STRICT"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", '5', 5, '5', X'35')", "INSERT INTO odd VALUES (" + id(1, 2) + ", 5, 1e308, '', X'')"},
			second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 5.0, 5, '5', X'35')"},
			tables: copies("odd"), same: []string{"odd"}},
		"an integer key that is no row number": {on: "sqlite",
			schema: []string{"CREATE TABLE odd (id INTEGER PRIMARY KEY DESC, a INT)"},
			first:  []string{"INSERT INTO odd VALUES (1, 1), (2, 2)"},
			second: []string{"INSERT INTO odd VALUES (3, 1), (NULL, 2), (NULL, 2)"},
			tables: copies("odd"), same: []string{"odd"}},
		"texts that differ in trailing blanks": {on: "sqlite",
			schema: []string{"CREATE TABLE odd (id INTEGER PRIMARY KEY, a TEXT COLLATE RTRIM UNIQUE)"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'x ')"},
			second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 'x')"},
			tables: copies("odd"), refused: merge.CodeUniqueKey, says: "1 row"},
		"children of accounts that become one": {
			schema: []string{"CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(9) UNIQUE)", "CREATE TABLE c (id BIGINT NOT NULL PRIMARY KEY, p BIGINT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)"},
			first:  []string{"INSERT INTO p VALUES (1, 'a'), (2, 'b')", "INSERT INTO c VALUES (" + id(1, 1) + ", 1), (" + id(1, 2) + ", 2)"},
			second: []string{"INSERT INTO p VALUES (1, 'a'), (2, 'c')", "INSERT INTO c VALUES (" + id(2, 1) + ", 1), (" + id(2, 2) + ", 2)"},
			tables: map[string]*merge.TablePlan{"p": {Policy: merge.KeepFirst, Key: []string{"login"}, Renumber: merge.Behind}, "c": {Policy: merge.Copy}},
			asks:   [][2]string{{"SELECT COUNT(*) FROM c", "4"}, {"SELECT COUNT(*) FROM c JOIN p ON p.id = c.p WHERE p.login = 'a'", "2"}}},
		"a total that is too large": {
			schema: []string{"CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, gold BIGINT)"},
			first:  []string{"INSERT INTO w VALUES (1, 9223372036854775807)"}, second: []string{"INSERT INTO w VALUES (1, 1)"},
			tables: map[string]*merge.TablePlan{"w": {Policy: merge.Sum, Key: []string{"id"}, Sum: []string{"gold"}}}, refused: merge.CodeTotal, says: "gold"},
		"a total of NULLs": {
			schema: []string{"CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, gold BIGINT)"},
			first:  []string{"INSERT INTO w VALUES (1, NULL), (2, NULL)"}, second: []string{"INSERT INTO w VALUES (1, 1), (2, NULL)"},
			tables: map[string]*merge.TablePlan{"w": {Policy: merge.Sum, Key: []string{"id"}, Sum: []string{"gold"}}}, asks: [][2]string{{"SELECT COALESCE(gold, -1) FROM w ORDER BY id", "1,-1"}}},
		"a total of many digits": {on: "postgres mysql",
			schema: []string{"CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, gold DECIMAL(30,10))"},
			first:  []string{"INSERT INTO w VALUES (1, 12345678901234567890.0000000001)"}, second: []string{"INSERT INTO w VALUES (1, 0.1000000001)"},
			tables: map[string]*merge.TablePlan{"w": {Policy: merge.Sum, Key: []string{"id"}, Sum: []string{"gold"}}}, asks: [][2]string{{"SELECT gold FROM w", "12345678901234567890.1000000002"}}},
		"UUIDs and addresses of MariaDB": {on: "mysql", flavor: "mariadb",
			schema: []string{"CREATE TABLE odd (id UUID PRIMARY KEY, ip INET6, ip4 INET4)"},
			first:  []string{"INSERT INTO odd VALUES ('123e4567-e89b-12d3-a456-426655440000', '::1', '10.0.0.1')", "INSERT INTO odd VALUES ('023e4567-e89b-12d3-a456-426655440001', NULL, NULL)"},
			second: []string{"INSERT INTO odd VALUES ('f23e4567-e89b-62d3-a456-426655440000', 'fe80::', '0.0.0.0')"},
			tables: copies("odd"), same: []string{"odd"}},
		"many UUIDs as keys": {on: "mysql", flavor: "mariadb", chunk: 7,
			schema: []string{"CREATE TABLE odd (id UUID PRIMARY KEY, n INT)"},
			first:  []string{"INSERT INTO odd SELECT UUID(), seq FROM seq_1_to_100", "INSERT INTO odd SELECT CONCAT(SUBSTR(MD5(seq),1,8),'-',SUBSTR(MD5(seq),9,4),'-4',SUBSTR(MD5(seq),13,3),'-a',SUBSTR(MD5(seq),16,3),'-',SUBSTR(MD5(seq),19,12)), seq FROM seq_1_to_100"},
			tables: copies("odd"), same: []string{"odd"}},
		"a table with periods of MariaDB": {on: "mysql", flavor: "mariadb",
			schema: []string{"CREATE TABLE odd (id BIGINT, a DATE, b DATE, PERIOD FOR p (a, b), UNIQUE (id, p WITHOUT OVERLAPS))"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", '2020-01-01', '2021-01-01')"},
			second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", '2020-01-01', '2021-01-01')"},
			tables: copies("odd"), same: []string{"odd"}},
		"a table without transactions": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INT) ENGINE=MyISAM"},
			tables: copies("odd"), refused: merge.CodeEngine, says: "MyISAM"},
		"a table in memory": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INT) ENGINE=MEMORY"},
			tables: copies("odd"), refused: merge.CodeEngine, says: "ENGINE=InnoDB"},
		"a table of Aria": {on: "mysql", flavor: "mariadb",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INT) ENGINE=Aria"},
			tables: copies("odd"), refused: merge.CodeEngine, says: "Aria"},
		"servers without transactions": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INT) ENGINE=MyISAM"},
			before: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a INT)"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 1)"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 1)"},
			tables: copies("odd"), same: []string{"odd"}},
		"texts of several character sets": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a VARCHAR(20) UNIQUE, b CHAR(4) CHARACTER SET ascii, c TEXT CHARACTER SET cp1251, d VARCHAR(9) CHARACTER SET utf16) DEFAULT CHARSET latin1 COLLATE latin1_swedish_ci"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'Zoë', 'a', 'Жук', 'Жук')"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 'ZOË', 'a', 'Жук', 'Жук')"},
			tables: map[string]*merge.TablePlan{"odd": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "a"}}}, asks: [][2]string{{"SELECT a FROM odd ORDER BY id", "Zoë,ZOË.s2"}}},
		"names in the order of a language": {on: "postgres",
			schema: []string{`CREATE TABLE odd (id BIGINT PRIMARY KEY, a VARCHAR(20) COLLATE "de-x-icu" UNIQUE)`},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'Zoë'), (" + id(1, 2) + ", 'zoe')"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 'Zoe'), (" + id(2, 2) + ", 'Zoë')"},
			tables: map[string]*merge.TablePlan{"odd": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "a"}}}, asks: [][2]string{{"SELECT a FROM odd ORDER BY id", "Zoë,Zoe,zoe,Zoë.s2"}}},
		"names that are one in small letters": {on: "postgres",
			schema: []string{`CREATE TABLE odd (id BIGINT PRIMARY KEY, a VARCHAR(20) COLLATE "de-x-icu")`, "CREATE UNIQUE INDEX odd_a ON odd (lower(a))"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'ÉLAN')"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 'élan')"},
			tables: map[string]*merge.TablePlan{"odd": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "a"}}}, asks: [][2]string{{"SELECT a FROM odd ORDER BY id", "ÉLAN,élan.s2"}}},
		"times that the server keeps current": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, a TIMESTAMP NULL, b TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), c DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)"},
			first: []string{"SET SESSION time_zone = '+08:00'", "INSERT INTO odd VALUES (" + id(1, 1) + ", '2038-01-19 11:14:07', '1970-01-01 08:00:01.000001', '2020-01-01')",
				"INSERT INTO odd VALUES (" + id(1, 2) + ", NULL, NULL, NULL)", "SET SESSION time_zone = DEFAULT"},
			tables: copies("odd"), same: []string{"odd"}},
		"a key of bytes, a UUID, a date and a character": {on: "postgres",
			schema: []string{"CREATE TABLE odd (a BYTEA, b UUID, c DATE, d \"char\", PRIMARY KEY (a, b, c, d))"},
			first:  []string{"INSERT INTO odd SELECT decode(md5(n::text), 'hex'), md5(n::text)::uuid, '2020-01-01'::date + n, chr(65 + n % 20)::\"char\" FROM generate_series(1, 50) n"},
			second: []string{"INSERT INTO odd SELECT decode(md5('x' || n), 'hex'), md5(n::text)::uuid, '2020-01-01'::date + n, chr(65 + n % 20)::\"char\" FROM generate_series(1, 50) n"},
			tables: copies("odd"), same: []string{"odd"}},
		"a unique key that is checked late": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, pos INT UNIQUE DEFERRABLE INITIALLY DEFERRED)"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 1)"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 1)"},
			tables: copies("odd"), refused: merge.CodeUniqueKey, says: "1 row"},
		"a unique index that includes a column": {on: "postgres",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, pos INT, x INT)", "CREATE UNIQUE INDEX odd_pos ON odd (pos) INCLUDE (x)"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 1, 1)"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 1, 2)"},
			tables: copies("odd"), refused: merge.CodeUniqueKey, says: "1 row"},
		"a unique key of the first characters": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, pos TEXT, UNIQUE (pos(3)))"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'abcd')"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 'abce')"},
			tables: copies("odd"), refused: merge.CodeUniqueKey, says: "1 row"},
		"a name that is unique in its first characters": {on: "mysql",
			schema: []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, pos VARCHAR(30), UNIQUE (pos(3)))"},
			first:  []string{"INSERT INTO odd VALUES (" + id(1, 1) + ", 'abcd')"}, second: []string{"INSERT INTO odd VALUES (" + id(2, 1) + ", 'abce')"},
			tables: map[string]*merge.TablePlan{"odd": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "pos"}}}, refused: merge.CodeRename, says: "pos"},
	})
}

// SELECT * leaves invisible columns out.
func TestADraftSeesNamesInInvisibleColumns(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		if target.Dialect != "mysql" {
			return
		}
		rows := []string{"INSERT INTO odd (id, name) VALUES (1, 'Ann'), (2, 'Bea')"}
		_, _, plan := small(t, target, []string{"CREATE TABLE odd (id BIGINT PRIMARY KEY, name VARCHAR(20) INVISIBLE, v INT)"},
			nil, rows, rows)
		if _, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener)); err != nil {
			t.Error(err)
		}
	})
}
