package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// mutable is a merge of two servers that has everything in it which a fault can hit.
func mutable(t testing.TB, target dbtest.Target) (base, *merge.Plan) {
	t.Helper()
	words := map[string]map[string]string{
		"sqlite": {"{float}": "DOUBLE", "{blob}": "BLOB", "{time}": "DATETIME", "{clock}": "TIME", "{bool}": "BOOLEAN",
			"{json}": "JSON", "{count}": "INTEGER NOT NULL PRIMARY KEY"},
		"mysql": {"{float}": "DOUBLE", "{blob}": "BLOB", "{time}": "DATETIME(6)", "{clock}": "TIME(6)", "{bool}": "TINYINT(1)",
			"{json}": "JSON", "{count}": "INT NOT NULL AUTO_INCREMENT PRIMARY KEY"},
		"postgres": {"{float}": "DOUBLE PRECISION", "{blob}": "BYTEA", "{time}": "TIMESTAMPTZ", "{clock}": "TIME", "{bool}": "BOOLEAN",
			"{json}": "JSONB", "{count}": "SERIAL PRIMARY KEY"},
	}[target.Dialect]
	schema := []string{
		"CREATE TABLE players (id BIGINT NOT NULL PRIMARY KEY, uid VARCHAR(20) NOT NULL UNIQUE, nickname VARCHAR(20) NOT NULL UNIQUE, " +
			"gold BIGINT, bonus BIGINT, ratio {float}, price DECIMAL(12,4), story VARCHAR(80), raw {blob}, at {time}, day DATE, " +
			"clock {clock}, yes {bool}, props {json})",
		"CREATE TABLE pets (id {count}, name VARCHAR(20) NOT NULL, owner_id BIGINT, " +
			"FOREIGN KEY (owner_id) REFERENCES players (id))",
		"CREATE TABLE mail (id BIGINT NOT NULL PRIMARY KEY, to_id BIGINT, from_id BIGINT, from_name VARCHAR(20), pet_id INTEGER, " +
			"FOREIGN KEY (to_id) REFERENCES players (id))",
		"CREATE TABLE slots (owner_id BIGINT NOT NULL, slot INTEGER NOT NULL, item VARCHAR(20), PRIMARY KEY (owner_id, slot), " +
			"FOREIGN KEY (owner_id) REFERENCES players (id))",
		"CREATE TABLE accounts (id BIGINT NOT NULL PRIMARY KEY, login VARCHAR(20) NOT NULL UNIQUE, paid INTEGER)",
		"CREATE TABLE owned (id BIGINT NOT NULL PRIMARY KEY, account_id BIGINT NOT NULL, FOREIGN KEY (account_id) REFERENCES accounts (id))",
		"CREATE TABLE settings (name VARCHAR(20) NOT NULL PRIMARY KEY, value VARCHAR(20))",
		"CREATE TABLE counters (name VARCHAR(20) NOT NULL PRIMARY KEY, amount BIGINT, best INTEGER, note VARCHAR(20))",
		"CREATE TABLE world (id INTEGER NOT NULL PRIMARY KEY, opened INTEGER, boss VARCHAR(20))",
		"CREATE TABLE rankings (id BIGINT NOT NULL PRIMARY KEY, points INTEGER)",
		"CREATE TABLE logs (n INTEGER, w VARCHAR(20))",
	}
	var rows [2][]string
	for i := range rows {
		s := i + 1
		insert := func(format string, args ...any) {
			rows[i] = append(rows[i], "INSERT INTO "+fmt.Sprintf(format, args...))
		}
		for n := 1; n <= 6; n++ {
			insert(
				"players VALUES (%s, 'u%d-%d', '%s', %d, %d, %d.123456789, %d.1234, '%s', %s, '2025-06-0%d 08:09:10.123456', "+
					"'2025-06-0%d', '10:11:12.123456', %s, '{\"a\": %d, \"b\": [1, 2]}')",
				id(s, n),
				s,
				n,
				[]string{"Falcon", "Heron", fmt.Sprint("own", s), "Osprey" + fmt.Sprint(s), "Kite" + fmt.Sprint(s), "Owl" + fmt.Sprint(s)}[n-1],
				9007199254740993-int64(
					n,
				)*1000-int64(
					s,
				),
				-100*n,
				n,
				n,
				[]string{"Zoé and more", "", "tail ", "plain text", "龍 is here", "x"}[n-1],
				raw(target, n+16*s),
				n,
				n,
				flag(target, n%2 == 0),
				n,
			)
			insert("pets (id, name, owner_id) VALUES (%d, 'pet%d-%d', %s)", n, s, n, id(s, n))
			insert("mail VALUES (%s, %s, %s, '%s', %d)", id(s, n+50), id(s, n), id(s, 1), "Falcon", n)
			insert("slots VALUES (%s, %d, 'item%d-%d')", id(s, n), n, s, n)
			insert(
				"accounts VALUES (%s, '%s', %d)",
				id(s, n+20),
				[]string{"ann", "bob", fmt.Sprint("c", s), fmt.Sprint("d", s), fmt.Sprint("e", s), fmt.Sprint("f", s)}[n-1],
				10*s+n,
			)
			insert("owned VALUES (%s, %s)", id(s, n+80), id(s, n+20))
			insert("logs VALUES (%d, 'server %d')", n/2, s)
		}
		insert("players (id, uid, nickname) VALUES (%s, 'u%d-9', 'Null%d')", id(s, 9), s, s)
		for n, name := range []string{"open", "rate"} {
			insert("settings VALUES ('%s', 'of %d')", name, s)
			insert("counters VALUES ('%s', %d, %d, 'of %d')", name, 100*s+n, s, s)
			insert("world VALUES (%d, %d, 'boss %d')", n+1, s+10, s)
		}
		insert("rankings VALUES (%s, %d)", id(s, 1), s)
	}
	for at := range schema {
		for from, to := range words {
			schema[at] = strings.ReplaceAll(schema[at], from, to)
		}
	}
	_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
		"players": {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "nickname", Keep: "older",
			Copies: []merge.NameCopy{{Table: "mail", Column: "from_name", Ref: "from_id"}}}},
		"pets":     {Policy: merge.Copy, Renumber: merge.Behind},
		"mail":     {Policy: merge.Copy, References: []merge.Reference{{Column: "pet_id", Table: "pets"}}},
		"slots":    {Policy: merge.Copy},
		"accounts": {Policy: merge.KeepFirst, Key: []string{"login"}},
		"owned":    {Policy: merge.Copy},
		"settings": {Policy: merge.KeepFirst, Key: []string{"name"}},
		"counters": {Policy: merge.Sum, Key: []string{"name"}, Sum: []string{"amount"}, Max: []string{"best"}},
		"world":    {Policy: merge.Newest, Key: []string{"id"}, By: "opened"},
		"rankings": {Policy: merge.Rebuild},
		"logs":     {Policy: merge.Copy},
	}, rows[0], rows[1])
	plan.Conserve = []merge.ConservedSum{{Name: "gold", Table: "players", Expression: "SUM(gold)"}}
	return into, plan
}

// raw is a literal of bytes.
func raw(target dbtest.Target, n int) string {
	if target.Dialect == "postgres" {
		return fmt.Sprintf(`'\x00ff%02x0a'`, n)
	}
	return fmt.Sprintf("X'00ff%02x0a'", n)
}

func flag(target dbtest.Target, yes bool) string {
	if target.Dialect == "postgres" {
		return map[bool]string{true: "TRUE", false: "FALSE"}[yes]
	}
	return map[bool]string{true: "1", false: "0"}[yes]
}
