package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// TestVerifyFindsWhatTheTargetMakesOfAValue merges into targets that change what they are given by a trigger.
func TestVerifyFindsWhatTheTargetMakesOfAValue(t *testing.T) {
	t.Parallel()
	one, three := id(1, 1), id(2, 1)
	odd := func(columns string) string {
		return "CREATE TABLE odd (id BIGINT NOT NULL PRIMARY KEY, a BIGINT, " + columns + ")"
	}
	// Every dialect has its own words for a trigger that sets a column.
	mysql := func(set string) string {
		return "CREATE TRIGGER odd_set BEFORE INSERT ON odd FOR EACH ROW SET NEW." + set
	}
	postgres := func(set string) []string {
		return []string{"CREATE FUNCTION odd_set() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW." + set +
			"; RETURN NEW; END $$", "CREATE TRIGGER odd_set BEFORE INSERT ON odd FOR EACH ROW EXECUTE FUNCTION odd_set()"}
	}
	sqlite := func(set string) string {
		return "CREATE TRIGGER odd_set AFTER INSERT ON odd BEGIN UPDATE odd SET " + set + " WHERE id = NEW.id; END"
	}
	rows := func(id string) []string { return []string{"INSERT INTO odd (id, a) VALUES (" + id + ", 5)"} }
	timed := func(c hostile) hostile {
		c.first = []string{"INSERT INTO odd (id, a, at) VALUES (" + one + ", 5, '2025-06-07 08:09:10')"}
		c.second = []string{"INSERT INTO odd (id, a, at) VALUES (" + three + ", 6, '2025-06-07 08:09:11')"}
		c.tables, c.blamed, c.fires = copies("odd"), "checksum", []string{"odd_set"}
		return c
	}
	computed := func(c hostile) hostile {
		c.first = append([]string{odd("b BIGINT GENERATED ALWAYS AS (a * 2) STORED")}, rows(one)...)
		c.second = append([]string{odd("b BIGINT GENERATED ALWAYS AS (a * 2) STORED")}, rows(three)...)
		c.tables, c.blamed, c.warned, c.fires = copies("odd"), "checksum", merge.CodeTrigger, []string{"odd_set"}
		return c
	}
	const stamp = "at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP"
	mixed := hostile{on: "mysql postgres", tables: copies("odd"), blamed: "checksum", fires: []string{"odd_set"},
		first:  append([]string{odd("b BIGINT GENERATED ALWAYS AS (a * 2) STORED")}, rows(one)...),
		second: []string{odd("b BIGINT"), "INSERT INTO odd VALUES (" + three + ", 5, 7)"}}
	mixedMySQL, mixedPostgres := mixed, mixed
	mixedMySQL.on, mixedMySQL.before = "mysql", []string{odd("b BIGINT"), mysql("b = COALESCE(NULLIF(NEW.b, 10), 1)")}
	mixedPostgres.on = "postgres"
	mixedPostgres.before = append([]string{odd("b BIGINT")}, postgres("b = COALESCE(NULLIF(NEW.b, 10), 1)")...)
	mergeHostile(t, map[string]hostile{
		"a time with a default": timed(hostile{on: "mysql", schema: []string{odd(stamp)},
			before: []string{odd(stamp), mysql("at = '1999-01-01 00:00:00'")}}),
		"a time with a default, which a change sets again": timed(hostile{on: "mysql",
			schema: []string{odd(stamp + " ON UPDATE CURRENT_TIMESTAMP")},
			before: []string{odd(stamp + " ON UPDATE CURRENT_TIMESTAMP"), mysql("at = '1999-01-01 00:00:00'")}}),
		"a time with a default of PostgreSQL": timed(hostile{on: "postgres", schema: []string{odd(stamp)},
			before: append([]string{odd(stamp)}, postgres("at = '1999-01-01 00:00:00'")...)}),
		"a time with a default of SQLite": timed(hostile{on: "sqlite", schema: []string{odd(stamp)},
			before: []string{odd(stamp), sqlite("at = '1999-01-01 00:00:00'")}}),
		"a column that the servers compute": computed(hostile{on: "mysql",
			before: []string{odd("b BIGINT"), mysql("b = 1")}}),
		"a column that the servers compute, on PostgreSQL": computed(hostile{on: "postgres",
			before: append([]string{odd("b BIGINT")}, postgres("b = 1")...)}),
		"a column that the servers compute, on SQLite": computed(hostile{on: "sqlite",
			before: []string{odd("b BIGINT"), sqlite("b = 1")}}),
		"a column that one server computes":                mixedMySQL,
		"a column that one server computes, on PostgreSQL": mixedPostgres,
	})
}

// Servers may have a foreign key that the target does not have, to a column that it lacks.
func TestAForeignKeyToAColumnThatTheTargetLacksIsNotFollowed(t *testing.T) {
	t.Parallel()
	plans(t, func(t *testing.T, target dbtest.Target) {
		schema := []string{
			"CREATE TABLE guilds (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(30) NOT NULL UNIQUE, was BIGINT NOT NULL UNIQUE)",
			"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, guild BIGINT NOT NULL, FOREIGN KEY (guild) REFERENCES guilds (was))",
		}
		rows := func(server int) []string {
			return []string{"INSERT INTO guilds VALUES (" + id(server, 1) + ", 'Rooks', 7)", "INSERT INTO roles VALUES (" + id(server, 2) + ", 7)"}
		}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"guilds": {Policy: merge.KeepFirst, Key: []string{"name"}, Ignore: []string{"was"}}, "roles": {Policy: merge.Copy},
		}, rows(1), rows(2))
		into.exec(t, "DROP TABLE roles", "DROP TABLE guilds",
			"CREATE TABLE guilds (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(30) NOT NULL UNIQUE)",
			"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, guild BIGINT NOT NULL)")
		giveUp(t, plan)
		run(t, opened(t, plan))
		verified(t, opened(t, plan))
	})
}

// A target may lose the primary key by which copies of names are found.
func TestVerifySaysThatTheKeyOfCopiedNamesIsLost(t *testing.T) {
	t.Parallel()
	servers := append(dbtest.ServersOf("postgres"), dbtest.ServersOf("mysql")...) // SQLite cannot lose one
	dbtest.Run(t, dbtest.Chosen(t.Name(), servers), func(t *testing.T, target dbtest.Target) {
		schema := []string{"CREATE TABLE heroes (id BIGINT NOT NULL, name VARCHAR(30) NOT NULL UNIQUE, CONSTRAINT heroes_key PRIMARY KEY (id))",
			"CREATE TABLE letters (id BIGINT NOT NULL PRIMARY KEY, sender_id BIGINT NOT NULL, sender VARCHAR(30) NOT NULL)"}
		rows := func(server int) []string {
			return []string{"INSERT INTO heroes VALUES (" + id(server, 1) + ", 'Rook')",
				"INSERT INTO letters VALUES (" + id(server, 2) + ", " + id(server, 1) + ", 'Rook')"}
		}
		copies := []merge.NameCopy{{Table: "letters", Column: "sender", Ref: "sender_id"}}
		_, into, plan := small(t, target, schema, map[string]*merge.TablePlan{
			"heroes":  {Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Copies: copies}},
			"letters": {Policy: merge.Copy, References: []merge.Reference{{Column: "sender_id", Table: "heroes"}}},
		}, rows(1), rows(2))
		run(t, opened(t, plan))
		verified(t, opened(t, plan))
		drop := "DROP PRIMARY KEY"
		if target.Dialect == "postgres" {
			drop = "DROP CONSTRAINT heroes_key"
		}
		into.exec(t, "ALTER TABLE heroes "+drop)
		report, err := opened(t, plan).Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(report.Failed); !strings.Contains(got, "catalog heroes") {
			t.Errorf("nobody hears that the target has lost a key: %s", got)
		}
	})
}

// A target may lose the only column of a table.
func TestVerifySaysThatTheOnlyColumnIsLost(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, into, plan := small(t, target, []string{"CREATE TABLE notes (word VARCHAR(9))"},
			map[string]*merge.TablePlan{"notes": {Policy: merge.Copy}}, []string{"INSERT INTO notes VALUES ('a')"}, nil)
		run(t, opened(t, plan))
		into.exec(t, "ALTER TABLE notes RENAME COLUMN word TO words")
		report, err := opened(t, plan).Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(report.Failed); !strings.Contains(got, "columns that the target lacks  word") {
			t.Errorf("nobody hears that the target has lost a column: %s", got)
		}
	})
}
