package statements_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestSchemas(t *testing.T) { run(t, schemaBehaviors()) }

// schemaBehaviors test the tables that GORM creates for tagged models.
func schemaBehaviors() []behavior {
	return []behavior{
		{Name: "columns have the types of their fields, and foreign keys those of the keys", Everywhere: true,
			Run: schemaTypes},
		{Name: "migrating again alters nothing", Run: schemaMigratesAgain},
		{Name: "Prepare on a table with auto-increment alters nothing", Run: schemaOfAnOldTable},
		{Name: "no prepared model has an auto-increment column", Everywhere: true, Run: schemaWithoutAutoIncrement},
		{Name: "many2many of prepared models migrates and joins", Run: schemaOfJoins},
		{Name: "keys of every kind are stored as they are in the struct", Run: schemaOfKeys},
		{Name: "auto-increment columns of before keep the IDs of structs", Run: schemaUnprepared},
		{Name: "a table of another name keeps the IDs as well", Run: schemaOfAnotherTable},
		{Name: "Prepare prepares the table that a handle has by Scopes", Everywhere: true, Run: schemaOfScopes},
		{Name: "Prepare says what GORM cannot parse", Run: schemaThatIsNone},
		{Name: "Prepare may be called again, before Use and for several handles", Run: schemaPreparedAgain},
	}
}

// schemaModels are models with every kind of column and relation.
var schemaModels = []any{
	&everyKind{}, &memberByID{}, &memberByInt{}, &folder{}, &document{}, &contact{}, &mailbox{},
	&article{}, &visit{}, &customer{}, &language{}, &publisher{}, &book{}, &refill{}, &placing{},
	&printer{}, &keeper{}, &animal{}, &modeled{},
	&keyInt{}, &keyUint{}, &keyUint64{}, &keySerial{}, &keyText{}, &keyBytes{}, &keyPointer{}, &keyNull{},
}

type (
	// modeled embeds the plugin's Model.
	modeled struct {
		snowflakeplugin.Model
		Name string `gorm:"size:50;index"`
	}
	keyInt struct {
		ID   int    `gorm:"primaryKey" snowflake:"true"`
		Name string `gorm:"size:50;unique"`
	}
	keyUint struct {
		ID   uint   `gorm:"primaryKey" snowflake:"true"`
		Name string `gorm:"size:50;unique"`
	}
	keyUint64 struct {
		ID   uint64 `gorm:"primaryKey" snowflake:"true"`
		Name string `gorm:"size:50;unique"`
	}
	keySerial struct {
		ID   serial `gorm:"primaryKey" snowflake:"true"`
		Name string `gorm:"size:50;unique"`
	}
	keyText struct {
		ID   string `gorm:"primaryKey;size:20" snowflake:"true"`
		Name string `gorm:"size:50;unique"`
	}
	keyBytes struct {
		ID   []byte `gorm:"primaryKey;size:8" snowflake:"true"`
		Name string `gorm:"size:50;unique"`
	}
	keyPointer struct {
		ID   *snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name string              `gorm:"size:50;unique"`
	}
	keyNull struct {
		ID   sql.Null[snowflakeplugin.ID] `gorm:"primaryKey" snowflake:"true"`
		Name string                       `gorm:"size:50;unique"`
	}
)

// columnType reads the type of a column from the catalog of the database.
func columnType(t *testing.T, db *gorm.DB, table, column string) string {
	t.Helper()
	var query string
	switch db.Name() {
	case "sqlite":
		query = "SELECT type FROM pragma_table_info(?) WHERE name = ?"
	case "postgres":
		query = "SELECT data_type || coalesce('(' || character_maximum_length || ')', '') " +
			"FROM information_schema.columns " +
			"WHERE table_schema = current_schema() AND table_name = ? AND column_name = ?"
	case "mysql":
		query = "SELECT column_type FROM information_schema.columns " +
			"WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?"
	}
	return strings.ToLower(plainOne[string](t, db, query, table, column))
}

func schemaTypes(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, schemaModels...)
	id := [3]string{"bigint", "bigint", "bigint(20)"}
	whole := [3]string{"integer", "bigint", "bigint(20)"}
	unsigned := [3]string{"integer", "bigint", "bigint(20) unsigned"}
	// A filled key of SQLite is no rowid.
	wholeKey := [3]string{"bigint", "bigint", "bigint(20)"}
	unsignedKey := [3]string{"bigint", "bigint", "bigint(20) unsigned"}
	text := [3]string{"text", "character varying(20)", "varchar(20)"}
	bytes := [3]string{"blob", "bytea", "varbinary(8)"}
	index := map[string]int{"sqlite": 0, "postgres": 1, "mysql": 2}[target.Dialect]
	for column, want := range map[string][3]string{
		"member_by_ids.id": id, "modeleds.id": id, "documents.public_id": id, "order.id": id,
		"customers.public_id": id, "every_kinds.ptr": id, "every_kinds.maybe": id,
		"key_pointers.id": id, "key_nulls.id": id,
		"member_by_ints.id": wholeKey, "key_ints.id": wholeKey, "key_serials.id": wholeKey,
		"every_kinds.whole": whole, "every_kinds.serial": whole, "every_kinds.ptr_whole": whole,
		"every_kinds.maybe_whole": whole, "every_kinds.defaulted": whole,
		"key_uints.id": unsignedKey, "key_uint64.id": unsignedKey, "every_kinds.counted": unsigned,
		"key_texts.id": text, "every_kinds.words": text, "every_kinds.ptr_words": text,
		"every_kinds.maybe_words": text, "key_bytes.id": bytes, "every_kinds.octets": bytes,
		// The next ones are foreign keys in models and in join tables.
		"documents.folder_id": id, "books.publisher_id": id, "animals.keeper_id": id,
		"animals.mother_id": id, "animals.chip_id": id, "book_languages.book_id": id,
		"book_languages.language_id": id, "printers.publisher_id": id,
		"placings.printer_id": whole, "printer_refills.printer_id": whole,
		"printer_refills.refill_id": whole,
	} {
		table, name, _ := strings.Cut(column, ".")
		got := columnType(t, db, table, name)
		// Newer MySQL servers omit the width, which never limited anything.
		if got != want[index] && got != strings.Replace(want[index], "bigint(20)", "bigint", 1) {
			t.Errorf("%s is %s, want %s", column, got, want[index])
		}
	}
	// A foreign key can be declared with the type of its key, and is enforced.
	err := db.Create(&animal{Name: "stray", KeeperID: 404}).Error
	if err == nil {
		t.Error("an animal of no keeper was stored")
	}
	wantInt(t, "the number of animals", plainOne[int64](t, db, "SELECT count(*) FROM animals"), 0)
}

// onlyReads fails for each recorded statement that is not a read.
func onlyReads(t *testing.T, recorder *dbtest.Recorder) {
	t.Helper()
	statements := recorder.Statements()
	if len(statements) == 0 {
		t.Error("no statement was recorded")
	}
	for _, statement := range statements {
		switch strings.ToUpper(strings.Fields(statement)[0]) {
		case "SELECT", "PRAGMA", "SHOW":
		default:
			t.Errorf("migrating again sent %s", statement)
		}
	}
}

func schemaMigratesAgain(t *testing.T, target dbtest.Target) {
	dsn, recorder := target.DSN(t), dbtest.NewRecorder()
	for round := range 2 { // the second handle parses everything again
		db := target.OpenDSN(t, dsn, &gorm.Config{Logger: recorder})
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(int64(round)))
		must(t, db.Use(plugin), "Use")
		must(t, plugin.Prepare(db, schemaModels...), "Prepare")
		recorder.Reset()
		must(t, db.AutoMigrate(schemaModels...), "AutoMigrate")
		if round > 0 {
			onlyReads(t, recorder)
		}
		// The rows and the schemas that the creates have used change nothing either.
		succeed(t, db.Create(&memberByInt{Email: fmt.Sprint(round)}))
		succeed(t, db.Create(&book{Languages: []language{{Code: fmt.Sprint(round)}}}))
		recorder.Reset()
		must(t, db.AutoMigrate(schemaModels...), "AutoMigrate again")
		onlyReads(t, recorder)
	}
}

// schemaOfAnOldTable tests the migration from auto-increment keys: the table stays unchanged.
func schemaOfAnOldTable(t *testing.T, target dbtest.Target) {
	dsn, recorder := target.DSN(t), dbtest.NewRecorder()
	old := target.OpenDSN(t, dsn, nil)
	must(t, old.AutoMigrate(&memberByInt{}), "AutoMigrate")
	by := memberByInt{Email: "old"}
	succeed(t, old.Create(&by)) // without the plugin, the database generates the key
	wantInt(t, "the key of the database", by.ID, 1)

	db := target.OpenDSN(t, dsn, &gorm.Config{Logger: recorder})
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	must(t, db.Use(plugin), "Use")
	must(t, plugin.Prepare(db, &memberByInt{}), "Prepare")
	recorder.Reset()
	must(t, db.AutoMigrate(&memberByInt{}), "AutoMigrate")
	onlyReads(t, recorder)
	all := []memberByInt{{Email: "old"}, {Email: "new"}}
	succeed(t, db.Clauses(doNothing()).Create(&all))
	wantInt(t, "the key of the row that was there", all[0].ID, 1)
	wantStored(t, db, all[1].ID, "SELECT id FROM member_by_ints WHERE email = 'new'")
	if all[1].ID < 1<<32 {
		t.Errorf("the key is %d, want one of the plugin's", all[1].ID)
	}
}

// autoIncrements counts the columns whose values the database generates.
func autoIncrements(t *testing.T, db *gorm.DB) int64 {
	t.Helper()
	return plainOne[int64](t, db, map[string]string{
		"sqlite": "SELECT count(*) FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'",
		"postgres": "SELECT count(*) FROM information_schema.columns WHERE table_schema = current_schema() " +
			"AND (column_default LIKE 'nextval%' OR is_identity = 'YES')",
		"mysql": "SELECT count(*) FROM information_schema.columns WHERE table_schema = DATABASE() " +
			"AND extra LIKE '%auto_increment%'",
	}[db.Name()])
}

func schemaWithoutAutoIncrement(t *testing.T, target dbtest.Target) {
	one := openAs(t, target, opening{}, &memberByInt{})
	wantInt(t, "the number of auto-increment columns", autoIncrements(t, one), 0)
	all := openAs(t, target, opening{}, schemaModels...)
	wantInt(t, "the number of auto-increment columns, that of the one untagged key",
		autoIncrements(t, all), 1)
}

func schemaOfJoins(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &printer{}, &refill{}, &placing{}, &publisher{})
	p := printer{Name: "laser", Publisher: publisher{Name: "p"},
		Cartridges: []*refill{{Code: "a"}, {Code: "b"}}}
	succeed(t, db.Create(&p))
	for _, c := range p.Cartridges {
		wantStored(t, db, c.ID, "SELECT refill_id FROM printer_refills j JOIN refills r ON "+
			"r.id = j.refill_id WHERE j.printer_id = ? AND r.code = ?", p.ID, c.Code)
	}
	var loaded printer
	succeed(t, db.Preload("Cartridges").First(&loaded, p.ID))
	wantInt(t, "the number of refills", len(loaded.Cartridges), 2)
	// The join table holds only the pairs, and each of them refers to existing rows.
	if err := db.Exec("INSERT INTO printer_refills (printer_id, refill_id) VALUES (?, 404)",
		p.ID).Error; err == nil {
		t.Error("a pair without its refill was stored")
	}
}

func schemaOfKeys(t *testing.T, target dbtest.Target) {
	for _, unprepared := range []bool{false, true} {
		db := openAs(t, target, opening{unprepared: unprepared}, &keyInt{}, &keyUint{}, &keyUint64{},
			&keySerial{}, &keyText{}, &keyBytes{}, &keyPointer{}, &keyNull{})
		checkKey(t, db, "key_ints", func(n string) *keyInt { return &keyInt{Name: n} },
			func(k *keyInt) any { return k.ID })
		checkKey(t, db, "key_uints", func(n string) *keyUint { return &keyUint{Name: n} },
			func(k *keyUint) any { return k.ID })
		checkKey(t, db, "key_uint64", func(n string) *keyUint64 { return &keyUint64{Name: n} },
			func(k *keyUint64) any { return k.ID })
		checkKey(t, db, "key_serials", func(n string) *keySerial { return &keySerial{Name: n} },
			func(k *keySerial) any { return k.ID })
		checkKey(t, db, "key_texts", func(n string) *keyText { return &keyText{Name: n} },
			func(k *keyText) any { return digits(k.ID) })
		checkKey(t, db, "key_bytes", func(n string) *keyBytes { return &keyBytes{Name: n} },
			func(k *keyBytes) any { return octets(k.ID) })
		checkKey(t, db, "key_pointers", func(n string) *keyPointer { return &keyPointer{Name: n} },
			func(k *keyPointer) any {
				if k.ID == nil {
					return nil
				}
				return int64(*k.ID)
			})
		checkKey(t, db, "key_nulls", func(n string) *keyNull { return &keyNull{Name: n} },
			func(k *keyNull) any { return int64(k.ID.V) })
	}
}

// checkKey creates a struct and a slice, and upserts both names again together with a new name.
func checkKey[K any](t *testing.T, db *gorm.DB, table string, fresh func(string) *K, key func(*K) any) {
	t.Helper()
	check := func(k *K, name string) string {
		t.Helper()
		var stored any
		query := "SELECT id FROM " + table + " WHERE name = ?"
		switch table {
		case "key_texts":
			stored = digits(plainOne[string](t, db, query, name))
		case "key_bytes":
			stored = octets(plainOne[[]byte](t, db, query, name))
		default:
			stored = plainOne[int64](t, db, query, name)
		}
		if got := fmt.Sprint(key(k)); got != fmt.Sprint(stored) || len(got) < 10 {
			t.Errorf("%s %s: the struct holds %s, the database %v", table, name, got, stored)
		}
		return fmt.Sprint(stored)
	}
	one, all := fresh("one"), []*K{fresh("two"), fresh("three")}
	succeed(t, db.Create(one))
	succeed(t, db.Create(&all))
	before := []string{check(one, "one"), check(all[0], "two"), check(all[1], "three")}
	again := []*K{fresh("two"), fresh("four"), fresh("one")}
	succeed(t, db.Clauses(doNothing()).Create(&again))
	if check(again[0], "two") != before[1] || check(again[2], "one") != before[0] {
		t.Errorf("%s: a row that was there changed its key", table)
	}
	check(again[1], "four")
	wantInt(t, "the number of rows in "+table, plainOne[int64](t, db, "SELECT count(*) FROM "+table), 4)
}

func schemaUnprepared(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{unprepared: true}, &memberByInt{})
	wantInt(t, "the number of auto-increment columns", autoIncrements(t, db), 1)
	one, all := memberByInt{Email: "a"}, []memberByInt{{Email: "b"}, {ID: 5, Email: "c"}, {Email: "d"}}
	pointers, m := []*memberByInt{{Email: "e"}, {Email: "f"}}, map[string]any{"email": "g"}
	succeed(t, db.Create(&one))
	succeed(t, db.Create(&all))
	succeed(t, db.Create(&pointers))
	succeed(t, db.Model(&memberByInt{}).Create(m))
	for _, row := range append(all, one, *pointers[0], *pointers[1]) {
		wantStored(t, db, row.ID, "SELECT id FROM member_by_ints WHERE email = ?", row.Email)
		if row.ID != 5 && row.ID < 1<<32 {
			t.Errorf("the key of %s is %d, want one of the plugin's", row.Email, row.ID)
		}
	}
	wantInt(t, "the key that was given", all[1].ID, 5)
	checkMap[int64](t, db, m, "id", "SELECT id FROM member_by_ints WHERE email = 'g'")
	wantInt(t, "the number of rows", plainOne[int64](t, db, "SELECT count(*) FROM member_by_ints"), 7)
}

func schemaOfAnotherTable(t *testing.T, target dbtest.Target) {
	db := openAs(t, target, opening{}, &memberByInt{})
	must(t, db.Table("archive").AutoMigrate(&memberByInt{}), "AutoMigrate")
	all := []memberByInt{{Email: "a"}, {Email: "b"}}
	succeed(t, db.Table("archive").Create(&all))
	maps := []map[string]any{{"email": "c"}, {"email": "d"}}
	succeed(t, db.Table("archive").Model(&memberByInt{}).Create(maps))
	for _, row := range all {
		wantStored(t, db, row.ID, "SELECT id FROM archive WHERE email = ?", row.Email)
	}
	for _, m := range maps {
		checkMap[int64](t, db, m, "id", "SELECT id FROM archive WHERE email = ?", m["email"])
	}
	wantInt(t, "the number of rows in the model's own table",
		plainOne[int64](t, db, "SELECT count(*) FROM member_by_ints"), 0)
}

func schemaOfScopes(t *testing.T, target dbtest.Target) {
	db, plugin := open(t, target, nil)
	ran := 0
	inner := func(tx *gorm.DB) *gorm.DB { ran++; return tx.Table("archive") }
	archive := db.Scopes(func(tx *gorm.DB) *gorm.DB { return tx.Scopes(inner) })
	must(t, plugin.Prepare(archive, &memberByInt{}), "Prepare")
	wantInt(t, "runs of the scope in Prepare", ran, 1)
	must(t, archive.AutoMigrate(&memberByInt{}), "AutoMigrate on the same handle")
	wantInt(t, "runs of the scope in both", ran, 2)
	wantInt(t, "the number of auto-increment columns", autoIncrements(t, db), 0)
	if !db.Migrator().HasTable("archive") || db.Migrator().HasTable(&memberByInt{}) {
		t.Error("the handle has made another table")
	}
	one := memberByInt{Email: "a"}
	succeed(t, db.Scopes(inner).Create(&one))
	wantStored(t, db, one.ID, "SELECT id FROM archive")
}

func schemaThatIsNone(t *testing.T, target dbtest.Target) {
	db, plugin := open(t, target, nil)
	for _, model := range []any{nil, 5, "text", map[string]any{}} {
		if err := plugin.Prepare(db, &memberByInt{}, model); err == nil {
			t.Errorf("Prepare of %T: no error", model)
		}
	}
	must(t, plugin.Prepare(db), "Prepare of nothing")
}

func schemaPreparedAgain(t *testing.T, target dbtest.Target) {
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	for range 2 {
		db := target.Open(t, nil)
		must(t, plugin.Prepare(db, &memberByInt{}), "Prepare before Use")
		must(t, db.Use(plugin), "Use")
		must(t, plugin.Prepare(db, &memberByInt{}, memberByInt{}, &[]memberByInt{}), "Prepare again")
		must(t, db.AutoMigrate(&memberByInt{}), "AutoMigrate")
		wantInt(t, "the number of auto-increment columns", autoIncrements(t, db), 0)
		one := memberByInt{Email: "a"}
		succeed(t, db.Create(&one))
		wantStored(t, db, one.ID, "SELECT id FROM member_by_ints")
	}
}
