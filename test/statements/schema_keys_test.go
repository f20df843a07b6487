package statements_test

import (
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestSchemasOfKeys(t *testing.T) {
	run(t, []behavior{
		{Name: "AutoMigrate alone makes keys of the type ID that are never NULL", Everywhere: true,
			Run: keysOfIDAreNotNull},
		{Name: "Prepare makes keys of every other kind that are never NULL", Everywhere: true,
			Run: preparedKeysAreNotNull},
		{Name: "a table that counts its keys goes on counting where Omit leaves the key out", Everywhere: true,
			Run: countedKeysGoOn},
		{Name: "a table whose keys may be NULL is migrated as it is", Everywhere: true, Run: nullableKeysStay},
	})
}

type (
	// pairOfKeys has a key of two parts, one of which is embedded.
	pairOfKeys struct {
		TenantKey
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:50"`
	}
	// TenantKey is exported, because GORM embeds no other structs.
	TenantKey struct {
		TenantID snowflakeplugin.ID `gorm:"primaryKey"`
	}
	// keyDefault has a key that the database makes if the program does not.
	keyDefault struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey;default:7"`
		Name string             `gorm:"size:50"`
	}
)

// refusesNull fails unless the table refuses a row of which only that column is set.
func refusesNull(t *testing.T, db *gorm.DB, table, column string, value any) {
	t.Helper()
	insert := "INSERT INTO " + table + " (" + column + ") VALUES (?)"
	if err := db.Exec(insert, value).Error; err == nil {
		t.Errorf("a row of %s without its key was stored", table)
	}
	wantInt(t, "the number of rows in "+table, plainOne[int64](t, db, "SELECT count(*) FROM "+table), 0)
}

func keysOfIDAreNotNull(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil) // the plugin is not in use
	must(t, db.AutoMigrate(&memberByID{}, &modeled{}, &keyPointer{}, &pairOfKeys{}, &keyDefault{},
		&printer{}, &refill{}, &publisher{}, &book{}, &language{}), "AutoMigrate")
	refusesNull(t, db, "member_by_ids", "name", "a")
	refusesNull(t, db, "modeleds", "name", "a")
	refusesNull(t, db, "key_pointers", "name", "a")
	refusesNull(t, db, "pair_of_keys", "tenant_id", 5)
	refusesNull(t, db, "pair_of_keys", "id", 5)
	refusesNull(t, db, "book_languages", "book_id", 5)

	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
	yielding := db.Clauses(clause.OnConflict{DoNothing: true}).Session(&gorm.Session{})
	for what, tx := range map[string]*gorm.DB{
		"a struct":                db.Omit("ID").Create(&memberByID{Email: "a"}),
		"a map":                   db.Model(&memberByID{}).Omit("ID").Create(map[string]any{"email": "b"}),
		"a pointer":               db.Omit("ID").Create(&keyPointer{Name: "c"}),
		"a struct that yields":    yielding.Omit("ID").Create(&memberByID{Email: "d"}),
		"a map that yields":       yielding.Model(&memberByID{}).Omit("ID").Create(map[string]any{"email": "e"}),
		"a key beside the Select": yielding.Select("Email").Create(&memberByID{ID: 5, Email: "f"}),
		"nothing of a struct":     yielding.Omit("*").Create(&memberByID{ID: 6}),
	} {
		if tx.Error == nil {
			t.Errorf("%s was stored without its key", what)
		}
	}
	wantInt(t, "the number of rows without keys", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ids"), 0)
	// A default of the database still makes the key.
	succeed(t, db.Create(&keyDefault{Name: "made by the database"}))
	wantInt(t, "the key that the database has made", plainOne[int64](t, db, "SELECT id FROM key_defaults"), 7)
	succeed(t, db.Create(&pairOfKeys{TenantKey: TenantKey{5}}))
}

func preparedKeysAreNotNull(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &keyText{}, &keyBytes{}, &keyNull{}, &printer{}, &refill{}, &publisher{})
	refusesNull(t, db, "key_texts", "name", "a")
	refusesNull(t, db, "key_bytes", "name", "a")
	refusesNull(t, db, "key_nulls", "name", "a")
	for what, tx := range map[string]*gorm.DB{
		"a text":     db.Omit("ID").Create(&keyText{Name: "a"}),
		"bytes":      db.Omit("ID").Create(&keyBytes{Name: "b"}),
		"a sql.Null": db.Omit("ID").Create(&keyNull{Name: "c"}),
	} {
		if tx.Error == nil {
			t.Errorf("%s was stored without its key", what)
		}
	}
	succeed(t, db.Create(&keyNull{Name: "d"}))
}

// countedKeysGoOn is why a create with Omit is sent and not refused: a table from before the plugin makes the
// key by itself, on every database, and the model does not tell.
func countedKeysGoOn(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	column := map[string]string{
		"sqlite": "integer PRIMARY KEY", "postgres": "bigserial PRIMARY KEY",
		"mysql": "bigint AUTO_INCREMENT PRIMARY KEY",
	}[target.Dialect]
	plainExec(t, db, "CREATE TABLE member_by_ids (id "+column+", email varchar(100), name varchar(100))")
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
	made := memberByID{Email: "by the plugin"}
	succeed(t, db.Omit("ID").Clauses(clause.OnConflict{DoNothing: true}).Create(&memberByID{Email: "counted"}))
	succeed(t, db.Create(&made))
	wantInt(t, "the key that was counted",
		plainOne[int64](t, db, "SELECT id FROM member_by_ids WHERE email = 'counted'"), 1)
	wantInt(t, "the key that was made",
		plainOne[int64](t, db, "SELECT id FROM member_by_ids WHERE email = 'by the plugin'"), made.ID.Int64())
}

// nullableKeysStay migrates tables of an earlier version, whose keys may be NULL on SQLite.
func nullableKeysStay(t *testing.T, target dbtest.Target) {
	dsn, recorder := target.DSN(t), dbtest.NewRecorder()
	plainExec(t, target.OpenDSN(t, dsn, nil),
		"CREATE TABLE member_by_ids (id bigint, email varchar(100), name varchar(100), PRIMARY KEY (id))",
		"CREATE TABLE key_texts (id varchar(20), name varchar(50), PRIMARY KEY (id))",
		"CREATE TABLE key_nulls (id bigint, name varchar(50), PRIMARY KEY (id))",
		"INSERT INTO member_by_ids (id, email) VALUES (5, 'there')",
	)
	for round := range 3 {
		db := target.OpenDSN(t, dsn, &gorm.Config{Logger: recorder})
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
		must(t, db.Use(plugin), "Use")
		models := []any{&memberByID{}, &keyText{}, &keyNull{}}
		must(t, plugin.Prepare(db, models...), "Prepare")
		recorder.Reset()
		must(t, db.AutoMigrate(models...), "AutoMigrate")
		if round > 0 { // the first makes the unique keys
			onlyReads(t, recorder)
		}
		wantInt(t, "the row", plainOne[int64](t, db, "SELECT id FROM member_by_ids WHERE email = 'there'"), 5)
	}
}
