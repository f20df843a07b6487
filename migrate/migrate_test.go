package migrate_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/migrate"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

// oldSchema is what a program without the plugin has made: keys that count, some of them narrow, with foreign
// keys, a table that refers to itself, a reference that nobody declared, and a natural key.
var oldSchema = map[string][]string{
	"postgres": {
		`CREATE TABLE users (id serial PRIMARY KEY, name varchar(50) NOT NULL UNIQUE, boss_id integer REFERENCES users (id))`,
		`CREATE TABLE "Orders" (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id integer NOT NULL
			REFERENCES users (id) ON DELETE CASCADE, total integer DEFAULT 5)`,
		`CREATE TABLE notes (id bigserial PRIMARY KEY, user_id integer, body text)`,
		`CREATE TABLE years (year integer PRIMARY KEY, name varchar(50))`,
		`CREATE TABLE user_tags (user_id integer REFERENCES users (id), tag varchar(20), PRIMARY KEY (user_id, tag))`,
	},
	"mysql": {
		"CREATE TABLE users (id int unsigned NOT NULL AUTO_INCREMENT COMMENT 'it''s, AUTO_INCREMENT', name varchar(50) NOT NULL " +
			"UNIQUE, boss_id int unsigned, PRIMARY KEY (id), CONSTRAINT fk_boss FOREIGN KEY (boss_id) REFERENCES users (id))",
		"CREATE TABLE `Orders` (id bigint NOT NULL AUTO_INCREMENT, user_id int unsigned NOT NULL COMMENT 'a, b', total int " +
			"DEFAULT 5, PRIMARY KEY (id), CONSTRAINT fk_user FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE)",
		"CREATE TABLE notes (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, user_id int unsigned, body text)",
		"CREATE TABLE years (year int PRIMARY KEY, name varchar(50))",
		"CREATE TABLE user_tags (user_id int unsigned, tag varchar(20), PRIMARY KEY (user_id, tag), " +
			"CONSTRAINT fk_tagged FOREIGN KEY (user_id) REFERENCES users (id))",
	},
	"sqlite": {
		"CREATE TABLE users (id integer PRIMARY KEY AUTOINCREMENT, name varchar(50) NOT NULL UNIQUE, -- a, b (c\n" +
			"boss_id integer REFERENCES users (id))",
		"CREATE TABLE `Orders` (`id` INTEGER, `user_id` integer NOT NULL, `total` integer DEFAULT (5), " +
			"PRIMARY KEY (`id`), CONSTRAINT `fk_user` FOREIGN KEY (`user_id`) REFERENCES `users`(`id`) ON DELETE CASCADE)",
		"CREATE INDEX totals ON `Orders` (total)",
		"CREATE TABLE notes (id integer PRIMARY KEY, user_id integer, body text) STRICT",
		"CREATE TABLE years (year int PRIMARY KEY, name varchar(50))",
		"CREATE TABLE user_tags (user_id integer REFERENCES users (id), tag varchar(20), PRIMARY KEY (user_id, tag))",
		"CREATE VIEW spenders AS SELECT u.name, o.total FROM users u JOIN `Orders` o ON o.user_id = u.id",
		"CREATE TRIGGER renamed AFTER UPDATE ON users BEGIN INSERT INTO notes (id, body) VALUES (100 + new.id, new.name); END",
	},
}

var oldRows = []string{
	"INSERT INTO users (name) VALUES ('a')",
	"INSERT INTO users (name, boss_id) VALUES ('b', 1)",
	"INSERT INTO Q (user_id) VALUES (1)",
	"INSERT INTO Q (user_id) VALUES (2)",
	"INSERT INTO notes (user_id, body) VALUES (2, 'x')",
	"INSERT INTO years (year, name) VALUES (2026, 'now')",
	"INSERT INTO user_tags (user_id, tag) VALUES (1, 't')",
}

// quoted puts the name of the one table in for Q that has to be quoted.
func quoted(db *gorm.DB, query string) string {
	name := "`Orders`"
	if db.Name() == "postgres" {
		name = `"Orders"`
	}
	return strings.ReplaceAll(query, " Q ", " "+name+" ")
}

func oldDatabase(t *testing.T, target dbtest.Target) *gorm.DB {
	t.Helper()
	db := target.Open(t, nil)
	suite.PlainExec(t, db, oldSchema[target.Dialect]...)
	for _, row := range oldRows {
		suite.PlainExec(t, db, quoted(db, row))
	}
	return db
}

// run runs what a plan says, as a person does who has one connection.
func run(t *testing.T, db *gorm.DB, statements []string) {
	t.Helper()
	pool, err := db.DB()
	suite.Must(t, err, "the pool")
	conn, err := pool.Conn(t.Context())
	suite.Must(t, err, "a connection")
	defer func() { _ = conn.Close() }()
	for _, statement := range statements {
		rows, err := conn.QueryContext(t.Context(), statement)
		if err != nil {
			t.Fatalf("%s: %v\nall of them:\n%s", statement, err, strings.Join(statements, ";\n"))
		}
		for rows.Next() {
			if strings.Contains(statement, "foreign_key_check") {
				t.Errorf("a row has lost what it refers to")
			}
		}
		suite.Must(t, errors.Join(rows.Err(), rows.Close()), statement) //nolint:sqlclosecheck // there are several
	}
}

// found lists the findings of a kind as table.column.
func found(p *migrate.Plan, kind migrate.Kind) (all []string) {
	for _, f := range p.Findings {
		if f.Kind == kind {
			all = append(all, f.Table+"."+f.Column)
		}
	}
	slices.Sort(all)
	return all
}

func wants(t *testing.T, p *migrate.Plan, kind migrate.Kind, want ...string) {
	t.Helper()
	if got := found(p, kind); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", kind, got, want)
	}
}

type (
	user struct {
		ID   uint64 `gorm:"primaryKey" snowflake:"true"`
		Name string
		// BossID of an old table has no foreign key in this model.
		BossID *uint64
	}
	order struct {
		ID     int64 `gorm:"primaryKey" snowflake:"true"`
		UserID uint64
	}
)

func (order) TableName() string { return "Orders" }

// sameInAnotherMode reads a plan in a session that quotes names otherwise, and hides what it can.
func sameInAnotherMode(t *testing.T, name string, db *gorm.DB, want *migrate.Plan) {
	t.Helper()
	suite.Must(t, db.Transaction(func(tx *gorm.DB) error {
		modes := "ANSI_QUOTES"
		if name == "mariadb" {
			modes += ",NO_FIELD_OPTIONS"
		}
		before := ""
		suite.Must(t, tx.Raw("SELECT @@SESSION.sql_mode").Row().Scan(&before), "the mode")
		suite.Must(t, tx.Exec("SET SESSION sql_mode = ?", modes).Error, "another mode")
		plan, err := migrate.Read(t.Context(), tx)
		suite.Must(t, err, "Read in another mode")
		if !slices.Equal(plan.Forward, want.Forward) || !slices.Equal(plan.Back, want.Back) {
			t.Errorf("in another mode the plan is %q, want %q", plan.Forward, want.Forward)
		}
		after := ""
		suite.Must(t, tx.Raw("SELECT @@SESSION.sql_mode").Row().Scan(&after), "the mode")
		if after != modes {
			t.Errorf("the session has the mode %q now, and had %q", after, modes)
		}
		return tx.Exec("SET SESSION sql_mode = ?", before).Error
	}), "another mode")
}

func TestASwitchOverAndTheWayBack(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		db := oldDatabase(t, target)
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		wants(t, plan, migrate.Counts, "Orders.id", "notes.id", "users.id")
		wants(t, plan, migrate.Undeclared, "notes.user_id")
		if target.Dialect == "mysql" {
			sameInAnotherMode(t, target.Name, db, plan)
		}
		switch target.Dialect {
		case "postgres":
			wants(t, plan, migrate.Narrow, "Orders.id", "Orders.user_id", "notes.user_id", "user_tags.user_id",
				"users.boss_id", "users.id")
		case "mysql":
			wants(t, plan, migrate.Narrow, "Orders.user_id", "notes.user_id", "user_tags.user_id", "users.boss_id",
				"users.id")
		default:
			wants(t, plan, migrate.Narrow)
		}
		run(t, db, plan.Forward)
		after, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read again")
		wants(t, after, migrate.Counts)
		wants(t, after, migrate.Narrow)
		if len(after.Forward)+len(after.Back) > 0 {
			t.Errorf("there is something to do still: %q, %q", after.Forward, after.Back)
		}
		sameRows(t, db)

		suite.Must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
		boss := user{Name: "c"}
		suite.Must(t, db.Create(&boss).Error, "create")
		suite.Must(t, db.Create(&user{Name: "d", BossID: &boss.ID}).Error, "create with a boss")
		newest := order{UserID: boss.ID}
		suite.Must(t, db.Create(&newest).Error, "create an order")
		suite.PlainExec(t, db, fmt.Sprintf("UPDATE notes SET user_id = %d", boss.ID))
		// The old program stores no row now, as its keys would be its own.
		if err := db.Exec(quoted(db, "INSERT INTO Q (user_id) VALUES (1)")).Error; err == nil {
			t.Error("a row without a key was stored")
		}
		enforced(t, db)

		// The plan of before and one of now lead back alike.
		now, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read with IDs")
		if len(now.Back) == 0 {
			t.Error("the tables have IDs, and no way leads back")
		}
		back := plan.Back
		if target.Name != "mariadb" { // one of the servers gets the other plan
			named, err := migrate.Read(t.Context(), db, "users", "Orders", "notes")
			suite.Must(t, err, "Read of tables")
			if back = named.Back; target.Dialect == "postgres" {
				back = plan.Back // a plan of now does not know that an identity was ALWAYS
			}
		}
		run(t, db, back)
		counted := suite.PlainRows[sql.NullInt64]
		suite.PlainExec(t, db, quoted(db, "INSERT INTO Q (user_id) VALUES (1)"), "INSERT INTO users (name) VALUES ('e')",
			"INSERT INTO notes (body) VALUES ('z')")
		for query, least := range map[string]int64{
			"SELECT max(id) FROM Q ": newest.ID, "SELECT id FROM users WHERE name = 'e'": int64(boss.ID) + 1,
			"SELECT max(id) FROM notes WHERE id > 1": 1,
		} {
			if got := counted(t, db, quoted(db, query)); len(got) != 1 || got[0].Int64 <= least {
				t.Errorf("%s: %v, want more than %d", query, got, least)
			}
		}
		enforced(t, db)
	})
}

// Tables of SQLite that were written by hand have comments, also where a name is looked for.
func TestCommentsDoNotHideTheKeyOfATable(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		suite.PlainExec(t, db, "CREATE TABLE users (name text, -- it's the name, or (none\n"+
			"  id integer /* a, primary key */ PRIMARY KEY AUTOINCREMENT -- the primary key\n)",
			"CREATE TABLE notes (/* the key, of course */ [id] integer, body text -- what it says\n, /* once */ PRIMARY KEY (id))",
			"INSERT INTO users (name) VALUES ('a')", "INSERT INTO notes (body) VALUES ('b')")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		wants(t, plan, migrate.Counts, "notes.id", "users.id")
		run(t, db, plan.Forward)
		for _, insert := range []string{"INSERT INTO users (name) VALUES ('c')", "INSERT INTO notes (body) VALUES ('c')"} {
			if db.Exec(insert).Error == nil {
				t.Errorf("%s: a row without a key was stored", insert)
			}
		}
		suite.PlainExec(t, db, "INSERT INTO users (id, name) VALUES (77, 'd')", "INSERT INTO notes (id, body) VALUES (77, 'd')",
			"DELETE FROM users WHERE id = 77", "DELETE FROM notes WHERE id = 77")
		run(t, db, plan.Back)
		suite.PlainExec(t, db, "INSERT INTO users (name) VALUES ('e')", "INSERT INTO notes (body) VALUES ('e')")
		for _, table := range []string{"users", "notes"} {
			if got := suite.PlainRows[int64](t, db, "SELECT max(id) FROM "+table); got[0] < 2 {
				t.Errorf("%s: the next key is %d", table, got[0])
			}
		}
		made := suite.PlainRows[string](t, db, "SELECT sql FROM sqlite_master WHERE name IN ('users', 'notes') ORDER BY name")
		if got := strings.Join(made, "\n"); strings.Count(got, "AUTOINCREMENT") != 2 || !strings.Contains(got, "-- what it says") {
			t.Errorf("the tables are now %s", got)
		}
	})
}

// A view keeps PostgreSQL from widening a column of its table. The table goes on counting then, also where the
// client runs the other statements after the error, as psql does.
func TestASwitchOverOfPostgreSQLIsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		db := oldDatabase(t, target)
		suite.PlainExec(t, db, "CREATE VIEW names AS SELECT id, name FROM users")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		pool, err := db.DB()
		suite.Must(t, err, "the pool")
		conn, err := pool.Conn(t.Context())
		suite.Must(t, err, "a connection")
		var refused error
		for _, statement := range plan.Forward {
			_, err := conn.ExecContext(t.Context(), statement)
			refused = errors.Join(refused, err)
		}
		suite.Must(t, conn.Close(), "Close")
		if refused == nil {
			t.Fatal("a column of a view was widened")
		}
		suite.PlainExec(t, db, quoted(db, "INSERT INTO Q (user_id) VALUES (1)"), "INSERT INTO users (name) VALUES ('n')")
		suite.PlainExec(t, db, "DROP VIEW names")
		again, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read again")
		run(t, db, again.Forward)
	})
}

func sameRows(t *testing.T, db *gorm.DB) {
	t.Helper()
	for query, want := range map[string]int64{
		"SELECT count(*) FROM users": 2, "SELECT boss_id FROM users WHERE name = 'b'": 1,
		"SELECT sum(user_id * id) FROM Q ": 5, "SELECT sum(total) FROM Q ": 10, "SELECT max(id) FROM notes": 1,
	} {
		suite.Same(t, query, suite.PlainOne[int64](t, db, quoted(db, query)), want)
	}
}

// enforced fails unless the foreign keys and the indexes are there as before.
func enforced(t *testing.T, db *gorm.DB) {
	t.Helper()
	tables := []string{"users", "Orders", "user_tags"}
	if db.Name() == "sqlite" {
		suite.PlainExec(t, db, "UPDATE users SET name = 'a' WHERE name = 'a'", "DELETE FROM notes WHERE id = 101")
		suite.Same(t, "what the view has", suite.PlainOne[int64](t, db, "SELECT count(*) FROM spenders") > 1, true)
		suite.Same(t, "the indexes", suite.PlainOne[int64](t, db,
			"SELECT count(*) FROM sqlite_master WHERE name IN ('totals', 'renamed')"), 2)
		suite.Same(t, "the foreign keys", suite.PlainOne[int64](t, db, "SELECT count(*) FROM pragma_foreign_key_list('users') "+
			"WHERE \"table\" = 'users'")+suite.PlainOne[int64](t, db, "SELECT count(*) FROM pragma_foreign_key_list('Orders') "+
			"WHERE \"table\" = 'users' AND on_delete = 'CASCADE'"), 2)
		return
	}
	constraints := suite.PlainOne[int64](t, db, map[string]string{
		"postgres": "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace",
		"mysql":    "SELECT count(*) FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE()",
	}[db.Name()])
	suite.Same(t, "the foreign keys", constraints, int64(len(tables)))
	if err := db.Exec("INSERT INTO user_tags (user_id, tag) VALUES (404, 'x')").Error; err == nil {
		t.Error("a row without what it refers to was stored")
	}
	if err := db.Exec("INSERT INTO users (id, name) VALUES (77, 'a')").Error; err == nil {
		t.Error("the unique index is gone")
	}
}

type bill struct {
	ID     int64 `gorm:"primaryKey" snowflake:"true"`
	Number int64 `snowflake:"from:bills"`
}

func TestAModelSaysWhatIsToBeFilled(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		db := oldDatabase(t, target)
		suite.PlainExec(t, db, map[string]string{
			"postgres": "CREATE TABLE bills (id bigserial PRIMARY KEY, number bigint)",
			"mysql":    "CREATE TABLE bills (id bigint AUTO_INCREMENT PRIMARY KEY, number bigint)",
			"sqlite":   "CREATE TABLE bills (id integer PRIMARY KEY, number bigint)",
		}[target.Dialect])
		plan, err := migrate.Read(t.Context(), db, &bill{})
		suite.Must(t, err, "Read")
		wants(t, plan, migrate.Counts, "bills.id")
		wants(t, plan, migrate.Unguarded, "bills.number")
		suite.PlainExec(t, db, "CREATE UNIQUE INDEX numbers ON bills (number)")
		plan, err = migrate.Read(t.Context(), db, &bill{})
		suite.Must(t, err, "Read with the index")
		wants(t, plan, migrate.Unguarded)
		for _, none := range []any{"absent", "user_tags", &suite.Account{}} {
			if _, err := migrate.Read(t.Context(), db, none); !errors.Is(err, migrate.ErrDatabase) {
				t.Errorf("Read of %v: %v", none, err)
			}
		}
	})
}

// A unique index of PostgreSQL may have columns that it only includes. They are no part of the key.
func TestColumnsThatAKeyIncludesAreNoPartOfIt(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		suite.PlainExec(t, db, "CREATE TABLE bills (id bigserial, number bigint, PRIMARY KEY (id) INCLUDE (number))")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		wants(t, plan, migrate.Counts, "bills.id")
		plan, err = migrate.Read(t.Context(), db, &bill{})
		suite.Must(t, err, "Read of the model")
		wants(t, plan, migrate.Unguarded, "bills.number")
	})
}

// Names of columns have no case on SQLite and MySQL, and those of tables have none on SQLite, and where the files
// of MySQL have none. What another name is for the database is another one here.
func TestTheCaseOfANameCountsAsItDoesForTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		db, folds := target.Open(t, nil), target.Dialect == "sqlite"
		suite.PlainExec(t, db, map[string]string{
			"postgres": `CREATE TABLE "Bills" ("ID" bigserial PRIMARY KEY, "NUMBER" bigint)`,
			"mysql":    "CREATE TABLE Bills (ID bigint AUTO_INCREMENT PRIMARY KEY, NUMBER bigint)",
			"sqlite":   "CREATE TABLE Bills (ID integer PRIMARY KEY, NUMBER bigint)",
		}[target.Dialect])
		if target.Dialect == "mysql" {
			suite.Must(t, db.Raw("SELECT @@lower_case_table_names <> 0").Row().Scan(&folds), "the files")
		}
		if !folds { // one that the name could be taken for
			suite.PlainExec(t, db, map[string]string{
				"postgres": `CREATE VIEW bills AS SELECT "ID" AS id, "ID", "NUMBER" AS number FROM "Bills"`,
				"mysql":    "CREATE VIEW bills AS SELECT ID, NUMBER FROM Bills",
			}[target.Dialect])
		}
		for _, given := range []any{&bill{}, "bills"} {
			plan, err := migrate.Read(t.Context(), db, given)
			switch {
			case !folds && !errors.Is(err, migrate.ErrDatabase):
				t.Errorf("Read of %v in a database where Bills is another table: %v", given, err)
			case folds && err != nil:
				t.Errorf("Read of %v: %v", given, err)
			case folds && !strings.EqualFold(strings.Join(found(plan, migrate.Counts), ""), "bills.id"):
				t.Errorf("Read of %v: %v", given, plan.Findings)
			}
		}
		if target.Dialect == "mysql" {
			suite.PlainExec(t, db, "DROP VIEW IF EXISTS bills", "CREATE TABLE bills2 (ID bigint AUTO_INCREMENT PRIMARY KEY, NUMBER bigint)")
			plan, err := migrate.Read(t.Context(), db, &bill2{})
			suite.Must(t, err, "Read of columns in capitals")
			wants(t, plan, migrate.Counts, "bills2.ID")
			wants(t, plan, migrate.Unguarded, "bills2.NUMBER")
		}
	})
}

type bill2 bill

func (bill2) TableName() string { return "bills2" }

// Rows that a game has kept since the first versions of MySQL: with the key 0, and with dates of zeros.
func TestASwitchOverOfMySQLKeepsTheKeyZeroAndDatesOfZeros(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		suite.Must(t, db.Connection(func(tx *gorm.DB) error {
			for _, statement := range []string{
				"SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
				"CREATE TABLE bills (id int AUTO_INCREMENT PRIMARY KEY, " +
					"number datetime NOT NULL DEFAULT '0000-00-00 00:00:00')",
				"INSERT INTO bills (id) VALUES (0), (5)",
				"SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
				"INSERT INTO bills (id, number) VALUES (7, '2020-02-31 00:00:00')",
				"SET SESSION sql_mode = DEFAULT",
			} {
				if err := tx.Exec(statement).Error; err != nil {
					return err
				}
			}
			return nil
		}), "the old table")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		for i, statements := range [][]string{plan.Forward, plan.Back} {
			run(t, db, statements)
			kept := suite.PlainRows[string](t, db, "SELECT concat(id, ' ', number) FROM bills ORDER BY id")
			if want := []string{"0 0000-00-00 00:00:00", "5 0000-00-00 00:00:00", "7 2020-02-31 00:00:00"}; !slices.Equal(kept, want) {
				t.Errorf("after %d ways the rows are %q, want %q", i+1, kept, want)
			}
		}
	})
}

// A full-text or a spatial index of SQLite keeps its own tables, whose keys are their rowids, and reads them by
// those. Made anew they are broken.
func TestTablesInsideOfAnIndexOfSQLiteAreLeftAlone(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		suite.PlainExec(t, db, "CREATE TABLE bills (id integer PRIMARY KEY, number integer)",
			"CREATE TABLE words_of_bills (id integer PRIMARY KEY, body text)",
			"CREATE TABLE words_data (id integer PRIMARY KEY, body text)", // a table of the application: only fts5 has such
			"CREATE VIRTUAL TABLE words USING fts4(body)", "CREATE VIRTUAL TABLE places USING rtree(id, low, high)",
			"INSERT INTO words (body) VALUES ('alpha beta'), ('gamma')", "INSERT INTO places VALUES (7, 1, 2)")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		wants(t, plan, migrate.Counts, "bills.id", "words_data.id", "words_of_bills.id")
		run(t, db, plan.Forward)
		suite.PlainExec(t, db, "INSERT INTO words (body) VALUES ('alpha')", "INSERT INTO places VALUES (8, 1, 2)")
		for query, want := range map[string]int64{
			"SELECT count(*) FROM words WHERE words MATCH 'alpha'":    2,
			"SELECT count(*) FROM places WHERE low <= 1 AND high > 1": 2,
		} {
			suite.Same(t, query, suite.PlainOne[int64](t, db, query), want)
		}
	})
}

// The rowid of a table that is made anew is not its key any more. What the schema reads by it would read other rows.
func TestASwitchOverOfSQLiteIsRefusedWhereTheSchemaReadsRowids(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		for reader, want := range map[string]string{
			"CREATE VIRTUAL TABLE words USING fts4(content='bills', body)":                               "words",
			"CREATE TRIGGER noted AFTER INSERT ON bills BEGIN INSERT INTO notes VALUES (NEW.rowid); END": "noted",
			"CREATE VIEW numbers AS SELECT \"bills\".OID FROM bills":                                     "numbers",
			"CREATE TRIGGER Noted AFTER INSERT ON Bills BEGIN INSERT INTO notes VALUES (new . oid); END": "Noted",
			"CREATE VIEW both AS SELECT bills._ROWID_, bills.rowid FROM bills":                           "both",
			"PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('table', 'pages', 'pages', 0, " +
				"'CREATE VIRTUAL TABLE pages USING fts5(content=bills, content_rowid=rowid, body)')": "pages",
			"PRAGMA writable_schema = ON; INSERT INTO sqlite_master VALUES ('table', 'lines', 'lines', 0, " +
				"'CREATE VIRTUAL TABLE lines USING fts5(content=bills, content_rowid=id, body)')": "",
			"CREATE VIEW rowids AS SELECT bills._ROWID_ /* bills.rowid */ FROM bills":                 "",
			"CREATE VIEW aliased AS SELECT b.oid FROM notes n JOIN bills AS b":                        "aliased",
			"CREATE VIEW of AS SELECT n.oid FROM bills LEFT JOIN notes n":                             "",
			"CREATE VIEW kinds AS SELECT * FROM notes WHERE content = 'bills'":                        "",
			"CREATE VIEW others AS SELECT notes.rowid, bills.id FROM bills, notes":                    "",
			"CREATE TRIGGER named AFTER INSERT ON bills BEGIN INSERT INTO notes VALUES (NEW.id); END": "",
		} {
			db := target.Open(t, nil)
			suite.PlainExec(t, db, "CREATE TABLE bills (id integer PRIMARY KEY, body text, _rowid_ text)",
				"CREATE TABLE notes (bill integer, content text)", reader)
			_, err := migrate.Read(t.Context(), db)
			refused := errors.Is(err, migrate.ErrDatabase) && strings.Contains(err.Error(), want+" reads the table bills ")
			if refused != (want != "") || !refused && err != nil {
				t.Errorf("%s: %v", reader, err)
			}
		}
	})
}

// Definitions of keys as people write them.
func TestKeysOfSQLiteAreSwitchedOverHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		for _, definition := range []string{
			"(\n -- the key, first)\n id integer primary key -- counted\n, number text)",
			"(number text, /* the ( key */ id integer /* PRIMARY KEY */ primary key)",
			"(number text, id integer, constraint \"the key\" primary key (id autoincrement))",
			"(id integer constraint pk primary key asc on conflict fail autoincrement, number text, check (number <> ')')) -- (",
			"([id] integer primary key, number text default 'primary key, )', twice int as (id * 2))",
			"(id integer constraint \"it's \"\"the\"\" key\" primary key check (id <> 'it''s'), number text)",
			"(id integer, \"primary\" text default 'primary key', number text, primary /* the */ key (\"id\"autoincrement))",
			"(\"ü\" text, \"Ü\" text, id integer, number text, constraint k /* a */ primary -- key\n key (id))",
		} {
			db := target.Open(t, nil)
			suite.PlainExec(t, db, "CREATE TABLE \"bills (\" "+definition, "INSERT INTO \"bills (\" (id, number) VALUES (7, 'a')",
				"CREATE TABLE plain (id integer PRIMARY KEY, x text) WITHOUT /* a ) */ ROWID", "INSERT INTO plain VALUES (1 << 50, 'x')")
			plan, err := migrate.Read(t.Context(), db)
			if err != nil {
				t.Errorf("%s: %v", definition, err)
				continue
			}
			run(t, db, plan.Forward)
			if err := db.Exec("INSERT INTO \"bills (\" (number) VALUES ('b')").Error; err == nil {
				t.Errorf("%s: a row without a key was stored", definition)
			}
			run(t, db, plan.Back)
			suite.PlainExec(t, db, "INSERT INTO \"bills (\" (number) VALUES ('b')")
			suite.Same(t, definition, suite.PlainOne[int64](t, db, "SELECT sum(id) FROM \"bills (\""), 15)
			again, err := migrate.Read(t.Context(), db)
			suite.Must(t, err, "Read again")
			wants(t, again, migrate.Counts, "bills (.id")
		}
	})
}

// SQLite notes the table of a trigger in the letters of the trigger.
func TestATriggerOfSQLiteIsKeptInWhateverLettersItNamesItsTable(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		suite.PlainExec(t, db, "CREATE TABLE bills (id integer PRIMARY KEY, \"ü\" text)", "CREATE TABLE notes (text text)",
			"CREATE TRIGGER noted AFTER INSERT ON Bills BEGIN INSERT INTO notes VALUES (NEW.\"ü\"); END")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		run(t, db, plan.Forward)
		suite.PlainExec(t, db, "INSERT INTO bills VALUES (7, 'a')")
		run(t, db, plan.Back)
		suite.PlainExec(t, db, "INSERT INTO bills VALUES (8, 'b')")
		suite.Same(t, "notes", suite.PlainOne[int64](t, db, "SELECT count(*) FROM notes"), 2)
	})
}

// Columns that a table inherits are changed with those of its parent, if the parent has the key. If it has none, a table
// has one of its own.
func TestInheritedColumnsOfPostgreSQLMayBeKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		suite.PlainExec(t, db, "CREATE TABLE things (id bigserial, name text)",
			"CREATE TABLE bills (PRIMARY KEY (id)) INHERITS (things)",
			"CREATE TABLE codes (code text PRIMARY KEY, id bigserial)",
			"CREATE TABLE lists (PRIMARY KEY (id)) INHERITS (codes)",
			"INSERT INTO bills (name) VALUES ('a'), ('b')")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		wants(t, plan, migrate.Counts, "bills.id", "lists.id")
		run(t, db, plan.Forward)
		if db.Exec("INSERT INTO bills DEFAULT VALUES").Error == nil {
			t.Error("a row without a key was stored")
		}
		run(t, db, plan.Back)
		suite.PlainExec(t, db, "INSERT INTO bills (name) VALUES ('c')")
		suite.Same(t, "the greatest key", suite.PlainOne[int64](t, db, "SELECT max(id) FROM bills"), 3)
	})
}

// A partition has the column of its table, which is changed there.
func TestPartitionsOfPostgreSQLAreSwitchedOverWithTheirTable(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		suite.PlainExec(t, db, "CREATE TABLE bills (id bigserial PRIMARY KEY, number int) PARTITION BY HASH (id)",
			"CREATE TABLE bills_0 PARTITION OF bills FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
			"CREATE TABLE bills_1 PARTITION OF bills FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
			"INSERT INTO bills (number) VALUES (1), (2), (3)",
			"CREATE TABLE zeros (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number int)",
			"INSERT INTO zeros (id) OVERRIDING SYSTEM VALUE VALUES (0)")
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		wants(t, plan, migrate.Counts, "bills.id", "zeros.id")
		run(t, db, plan.Forward)
		suite.PlainExec(t, db, "INSERT INTO bills (id, number) VALUES (1000000000000, 4)")
		run(t, db, plan.Back)
		suite.PlainExec(t, db, "INSERT INTO bills (number) VALUES (5)", "INSERT INTO zeros (number) VALUES (5)")
		suite.Same(t, "the greatest key", suite.PlainOne[int64](t, db, "SELECT max(id) FROM bills"), 1000000000001)
	})
}

// MySQL keeps what a statement has done before the one that fails. Foreign keys are away for as short as can be, because
// a plan that is made while they are does not know them.
func TestColumnsOfMySQLWithoutForeignKeysAreChangedFirst(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		db := oldDatabase(t, target)
		versioned := ""
		if strings.HasPrefix(target.Name, "mariadb") {
			suite.PlainExec(t, db, "CREATE TABLE versions (id int AUTO_INCREMENT PRIMARY KEY) WITH SYSTEM VERSIONING")
			versioned = "versions.id"
		}
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		if !strings.Contains(strings.Join(found(plan, migrate.Counts), " "), versioned) {
			t.Errorf("the table with versions was not found: %v", plan.Findings)
		}
		dropped := slices.IndexFunc(plan.Forward, func(s string) bool { return strings.Contains(s, "DROP FOREIGN KEY") })
		for i, statement := range plan.Forward {
			if strings.Contains(statement, "`notes`") && i > dropped {
				t.Errorf("%q comes behind %q", statement, plan.Forward[dropped])
			}
		}
		run(t, db, plan.Forward)
		run(t, db, plan.Back)
	})
}

// The greatest key is followed by one that the sequence of before would give.
func TestAnIdentityOfPostgreSQLCountsAgainAsItDid(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		options := func() string {
			return suite.PlainOne[string](t, db, "SELECT concat_ws(' ', seqstart, seqincrement, seqmin, seqcache) FROM pg_sequence "+
				"WHERE seqrelid = pg_get_serial_sequence('bills', 'id')::regclass")
		}
		suite.PlainExec(t, db, "CREATE TABLE bills (id int GENERATED ALWAYS AS IDENTITY (START WITH 0 INCREMENT BY 2 MINVALUE 0 "+
			"CACHE 5) PRIMARY KEY, number int)", "INSERT INTO bills (number) VALUES (1), (2)")
		before := options()
		plan, err := migrate.Read(t.Context(), db)
		suite.Must(t, err, "Read")
		run(t, db, plan.Forward)
		suite.PlainExec(t, db, "INSERT INTO bills (id, number) VALUES (1000000000000, 3)")
		run(t, db, plan.Back)
		suite.Same(t, "the options", options(), before)
		suite.PlainExec(t, db, "INSERT INTO bills (number) VALUES (5)")
		suite.Same(t, "the greatest key", suite.PlainOne[int64](t, db, "SELECT max(id) FROM bills"), 1000000000002)
	})
}

// SQLite takes many words for a type, but only INTEGER and no order for a key that it counts.
func TestKeysOfSQLiteCountWhateverTheirTypeWas(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("sqlite"), func(t *testing.T, target dbtest.Target) {
		for _, key := range []string{
			"bigint(20) PRIMARY KEY", "bigint(20) NOT NULL PRIMARY KEY DESC", "UNSIGNED BIG INT PRIMARY KEY ON CONFLICT FAIL",
			"integer PRIMARY KEY DESC", "bigint /* an ID */ (20) CONSTRAINT own PRIMARY KEY ASC", "[int] NOT NULL, PRIMARY KEY (id DESC)",
			"'integer'PRIMARY KEY", `"DEFAULT int"PRIMARY KEY`,
		} {
			db := target.Open(t, nil)
			suite.PlainExec(t, db, "CREATE TABLE bills (number int, id "+key+")", "INSERT INTO bills VALUES (1, 2000000000000)")
			plan, err := migrate.Read(t.Context(), db)
			suite.Must(t, err, "Read")
			run(t, db, plan.Forward)
			suite.Same(t, key+": primary keys", suite.PlainOne[int](t, db, "SELECT sum(pk) FROM pragma_table_info('bills')"), 1)
			run(t, db, plan.Back)
			suite.PlainExec(t, db, "INSERT INTO bills (number) VALUES (5)")
			suite.Same(t, key, suite.PlainOne[int64](t, db, "SELECT max(id) FROM bills"), 2000000000001)
		}
	})
}
