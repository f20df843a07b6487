package merge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// damage is something that is done to a complete target, and undone. Verify must say the words.
type damage struct{ name, says, harm, repair string }

// furnished is a merge into a target with one of everything that a database has besides rows.
func furnished(t *testing.T, target dbtest.Target) (base, *merge.Plan) {
	t.Helper()
	schema := []string{
		"CREATE TABLE guilds (COUNTED, tag VARCHAR(9))",
		"CREATE TABLE roles (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(16) NOT NULL DEFAULT 'x', " +
			"level INTEGER NOT NULL DEFAULT 1, guild_id BIGINT, CONSTRAINT positive CHECK (level > 0), " +
			"CONSTRAINT of_guild FOREIGN KEY (guild_id) REFERENCES guilds (id))",
		"CREATE INDEX roles_level ON roles (level)", "CREATE UNIQUE INDEX roles_name ON roles (name)",
		"CREATE INDEX roles_all ON roles (id, level, name, guild_id)",
		"CREATE VIEW strong AS SELECT id FROM roles WHERE level > 5",
		"CREATE TABLE rankings (id BIGINT NOT NULL PRIMARY KEY, points INTEGER)",
	}
	schema = append(schema, map[string][]string{
		"sqlite": {"CREATE TRIGGER shout AFTER INSERT ON rankings BEGIN SELECT 1; END"},
		"mysql":  {"CREATE TRIGGER shout BEFORE INSERT ON rankings FOR EACH ROW SET NEW.points = 1"},
		"postgres": {"CREATE TYPE mood AS ENUM ('sad', 'ok')",
			"CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
			"CREATE TRIGGER shout BEFORE INSERT ON rankings FOR EACH ROW EXECUTE FUNCTION shout()"},
	}[target.Dialect]...)
	var rows [2][]string
	for i := range rows {
		rows[i] = []string{fmt.Sprintf("INSERT INTO guilds (id, tag) VALUES (1, 'a%d'), (2, 'b%d')", i, i),
			fmt.Sprintf("INSERT INTO roles VALUES (%s, 'r%d', 3, 2)", id(i+1, 1), i)}
	}
	_, into, plan := small(t, target.Privileged(), schema, map[string]*merge.TablePlan{
		"guilds": {Policy: merge.Copy, Renumber: merge.Behind}, "roles": {Policy: merge.Copy}, "rankings": {Policy: merge.Rebuild},
	}, rows[0], rows[1])
	into.exec(t, map[string]string{"sqlite": "INSERT INTO sqlite_sequence VALUES ('guilds', 50)",
		"mysql": "ALTER TABLE guilds AUTO_INCREMENT = 51", "postgres": "SELECT setval('guilds_id_seq', 50)"}[target.Dialect])
	return into, plan
}

// damages are those that a database of a kind can have. A table of SQLite changes by the statement that made it.
func damages(target dbtest.Target) []damage {
	all := []damage{
		{"a lost view", "view", "DROP VIEW strong", "CREATE VIEW strong AS SELECT id FROM roles WHERE level > 5"},
		{"a changed view", "> 6", "DROP VIEW strong;; CREATE VIEW strong AS SELECT id FROM roles WHERE level > 6",
			"DROP VIEW strong;; CREATE VIEW strong AS SELECT id FROM roles WHERE level > 5"},
		{"an added table", "extra", "CREATE TABLE extra (id BIGINT)", "DROP TABLE extra"},
	}
	edit := func(name, says, from, to string) damage {
		set := "PRAGMA writable_schema = 1;; UPDATE sqlite_master SET sql = replace(sql, '%s', '%s') WHERE name = 'roles';; " +
			"PRAGMA writable_schema = 0"
		double := strings.NewReplacer("'", "''")
		from, to = double.Replace(from), double.Replace(to)
		return damage{name, says, fmt.Sprintf(set, from, to), fmt.Sprintf(set, to, from)}
	}
	switch target.Dialect {
	case "sqlite":
		return append(all,
			damage{"a lost index", "roles_level", "DROP INDEX roles_level", "CREATE INDEX roles_level ON roles (level)"},
			damage{"a unique key that is none any more", "roles_name",
				"DROP INDEX roles_name;; CREATE INDEX roles_name ON roles (name)",
				"DROP INDEX roles_name;; CREATE UNIQUE INDEX roles_name ON roles (name)"},
			damage{"a lost trigger", "shout", "DROP TRIGGER shout",
				"CREATE TRIGGER shout AFTER INSERT ON rankings BEGIN SELECT 1; END"},
			damage{"an added trigger", "whisper", "CREATE TRIGGER whisper AFTER INSERT ON roles BEGIN SELECT 1; END",
				"DROP TRIGGER whisper"},
			damage{"a counter that was set back", "counter", "UPDATE sqlite_sequence SET seq = 20 WHERE name = 'guilds'",
				"UPDATE sqlite_sequence SET seq = 50 WHERE name = 'guilds'"},
			edit("another default", "DEFAULT 2", "DEFAULT 1", "DEFAULT 2"),
			edit("another type", "VARCHAR(17)", "VARCHAR(16)", "VARCHAR(17)"),
			edit("another collation", "COLLATE NOCASE", "VARCHAR(16)", "VARCHAR(16) COLLATE NOCASE"),
			edit("a lost check", "positive", "CONSTRAINT positive CHECK (level > 0),", "/**/"),
			edit("a lost foreign key", "of_guild", ", CONSTRAINT of_guild FOREIGN KEY (guild_id) REFERENCES guilds (id)", "/**/"),
			edit("a lost NOT NULL", "level", "level INTEGER NOT NULL", "level INTEGER"),
		)
	case "mysql":
		return append(all,
			damage{"a lost index", "roles_level", "DROP INDEX roles_level ON roles", "CREATE INDEX roles_level ON roles (level)"},
			damage{"a unique key that is none any more", "roles_name",
				"DROP INDEX roles_name ON roles;; CREATE INDEX roles_name ON roles (name)",
				"DROP INDEX roles_name ON roles;; CREATE UNIQUE INDEX roles_name ON roles (name)"},
			damage{"an index with its columns in another order", "roles_all",
				"DROP INDEX roles_all ON roles;; CREATE INDEX roles_all ON roles (id, name, level, guild_id)",
				"DROP INDEX roles_all ON roles;; CREATE INDEX roles_all ON roles (id, level, name, guild_id)"},
			damage{"a lost trigger", "shout", "DROP TRIGGER shout",
				"CREATE TRIGGER shout BEFORE INSERT ON rankings FOR EACH ROW SET NEW.points = 1"},
			damage{"an added trigger", "whisper", "CREATE TRIGGER whisper BEFORE INSERT ON roles FOR EACH ROW SET NEW.level = 1",
				"DROP TRIGGER whisper"},
			damage{"a counter that was set back", "counter", "ALTER TABLE guilds AUTO_INCREMENT = 20",
				"ALTER TABLE guilds AUTO_INCREMENT = 51"},
			damage{"another default", "`level`", "ALTER TABLE roles ALTER level SET DEFAULT '2'",
				"ALTER TABLE roles ALTER level SET DEFAULT '1'"},
			damage{"another type", "varchar(17)", "ALTER TABLE roles MODIFY name VARCHAR(17) NOT NULL DEFAULT 'x'",
				"ALTER TABLE roles MODIFY name VARCHAR(16) NOT NULL DEFAULT 'x'"},
			damage{"another collation", "latin1", "ALTER TABLE roles MODIFY name VARCHAR(16) CHARACTER SET latin1 NOT NULL DEFAULT 'x'",
				"ALTER TABLE roles MODIFY name VARCHAR(16) NOT NULL DEFAULT 'x'"},
			damage{"a lost check", "positive", "ALTER TABLE roles DROP CONSTRAINT positive",
				"ALTER TABLE roles ADD CONSTRAINT positive CHECK (level > 0)"},
			damage{"a lost foreign key", "of_guild", "ALTER TABLE roles DROP FOREIGN KEY of_guild",
				"ALTER TABLE roles ADD CONSTRAINT of_guild FOREIGN KEY (guild_id) REFERENCES guilds (id)"},
			damage{"a lost NOT NULL", "level", "ALTER TABLE roles MODIFY level INTEGER NULL DEFAULT '1'",
				"ALTER TABLE roles MODIFY level INTEGER NOT NULL DEFAULT '1'"},
			damage{"an added procedure", "whisper", "CREATE PROCEDURE whisper() SELECT 1", "DROP PROCEDURE whisper"},
			damage{"an added event", "whisper", "CREATE EVENT whisper ON SCHEDULE EVERY 9 YEAR STARTS '2037-01-01' DO SELECT 1",
				"DROP EVENT whisper"},
		)
	}
	return append(all,
		damage{"a lost index", "roles_level", "DROP INDEX roles_level", "CREATE INDEX roles_level ON roles (level)"},
		damage{"a unique key that is none any more", "roles_name",
			"DROP INDEX roles_name;; CREATE INDEX roles_name ON roles (name)",
			"DROP INDEX roles_name;; CREATE UNIQUE INDEX roles_name ON roles (name)"},
		damage{"a lost trigger", "shout", "DROP TRIGGER shout ON rankings",
			"CREATE TRIGGER shout BEFORE INSERT ON rankings FOR EACH ROW EXECUTE FUNCTION shout()"},
		damage{"a trigger that is switched off", "shout", "ALTER TABLE rankings DISABLE TRIGGER shout",
			"ALTER TABLE rankings ENABLE TRIGGER shout"},
		damage{"another body of a function", "function shout", "CREATE OR REPLACE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
			"CREATE OR REPLACE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$"},
		damage{"a counter that was set back", "counter", "SELECT setval('guilds_id_seq', 20)", "SELECT setval('guilds_id_seq', 50)"},
		damage{"a counter with other steps", "sequence", "ALTER SEQUENCE guilds_id_seq INCREMENT 2",
			"ALTER SEQUENCE guilds_id_seq INCREMENT 1"},
		damage{"another default", "DEFAULT 2", "ALTER TABLE roles ALTER level SET DEFAULT 2", "ALTER TABLE roles ALTER level SET DEFAULT 1"},
		damage{"another type", "varying(17)", "ALTER TABLE roles ALTER name TYPE VARCHAR(17)", "ALTER TABLE roles ALTER name TYPE VARCHAR(16)"},
		damage{"another collation", "COLLATE C", `ALTER TABLE roles ALTER name TYPE VARCHAR(16) COLLATE "C"`,
			`ALTER TABLE roles ALTER name TYPE VARCHAR(16) COLLATE "default"`},
		damage{"a lost check", "positive", "ALTER TABLE roles DROP CONSTRAINT positive",
			"ALTER TABLE roles ADD CONSTRAINT positive CHECK (level > 0)"},
		damage{"a lost foreign key", "of_guild", "ALTER TABLE roles DROP CONSTRAINT of_guild",
			"ALTER TABLE roles ADD CONSTRAINT of_guild FOREIGN KEY (guild_id) REFERENCES guilds (id)"},
		damage{"a lost NOT NULL", "level", "ALTER TABLE roles ALTER level DROP NOT NULL", "ALTER TABLE roles ALTER level SET NOT NULL"},
		damage{"another member of a type", "type mood", "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'", "ALTER TYPE mood RENAME VALUE 'fine' TO 'ok'"},
		damage{"row-level security", "rankings", "ALTER TABLE rankings ENABLE ROW LEVEL SECURITY", "ALTER TABLE rankings DISABLE ROW LEVEL SECURITY"},
	)
}

func TestWhatTheTargetLosesBesidesRowsIsNamed(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		into, plan := furnished(t, target)
		m := open(t, plan)
		run(t, m)
		for _, d := range damages(target) {
			into.unchecked(t, strings.Split(d.harm, ";; ")...)
			report, err := m.Verify(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			if !slices.ContainsFunc(report.Failed, func(c merge.Comparison) bool {
				return c.What == "catalog" && strings.Contains(fmt.Sprint(c), d.says)
			}) {
				t.Errorf("%s: verify finds %+v, want a difference of the catalog that says %q", d.name, report.Failed, d.says)
			}
			into.unchecked(t, strings.Split(d.repair, ";; ")...)
		}
		verified(t, m)
	})
}

func TestAKeyThatTheTargetHasLostIsNamed(t *testing.T) {
	t.Parallel()
	lose := map[string]string{"mysql": "ALTER TABLE pets MODIFY id BIGINT NOT NULL, DROP PRIMARY KEY",
		"postgres": "ALTER TABLE pets DROP CONSTRAINT pets_pkey"}
	databases(t, func(t *testing.T, target dbtest.Target) {
		if lose[target.Dialect] == "" {
			t.Skip("SQLite cannot drop a primary key")
		}
		_, into, plan := small(t, target, []string{"CREATE TABLE pets (COUNTED, name VARCHAR(9))"},
			map[string]*merge.TablePlan{"pets": {Policy: merge.Copy, Renumber: merge.Apart}},
			[]string{"INSERT INTO pets (name) VALUES ('a')"}, []string{"INSERT INTO pets (name) VALUES ('b')"})
		checked, err := open(t, plan).Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run(t, open(t, plan, merge.WithLock(checked.Lock)))
		into.exec(t, lose[target.Dialect])
		report, err := open(t, plan, merge.WithLock(checked.Lock)).Verify(t.Context())
		if err != nil || !slices.ContainsFunc(report.Failed, func(c merge.Comparison) bool {
			return c.What == "catalog" && strings.Contains(fmt.Sprint(c), "pets")
		}) {
			t.Errorf("verify: %v, %+v", err, report)
		}
	})
}
