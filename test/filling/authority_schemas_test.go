package filling_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestAuthorityOfOtherSchemas(t *testing.T) { run(t, schemaBehaviors()) }

// schemaBehaviors say that the rows of a schema come from one place, wherever the leases lie.
func schemaBehaviors() []behavior {
	servers := []string{"postgres", "mariadb", "mysql"}
	return []behavior{
		{
			Name:       "two programs with leases of their own do not fill one table of a third schema",
			Everywhere: true,
			Run:        thirdSchemaHasOneAuthority,
		},
		{
			Name: "two search paths lead to two tables of leases and to one table of rows",
			Only: []string{"postgres"},
			Run:  searchPathsMeet,
		},
		{
			Name:       "a copy of the leases that fills a third database is logged with both places",
			Everywhere: true,
			Run:        copyOfLeasesIsLogged,
		},
		{
			Name:       "numbers by hand are noted in the schema of the rows",
			Everywhere: true,
			Run:        byHandInAThirdSchema,
		},
		{
			Name: "the note of another schema outlives the transaction of the application",
			Only: servers,
			Run:  noteOutlivesATransaction,
		},
		{
			Name:       "a transaction with the only connection is told to create a row outside of it",
			Everywhere: true,
			Run:        onlyConnectionInAThirdSchema,
		},
		{
			Name: "a schema in which nothing can be noted gets no row, and the error has the statement",
			Only: servers,
			Run:  schemaWithoutRights,
		},
		{
			Name:       "in schemas of the program's own nothing is noted",
			Everywhere: true,
			Run:        ownSchemasAreNotNoted,
		},
		{
			Name: "a temporary table is not noted",
			Only: []string{"postgres", "sqlite"},
			Run:  temporaryTablesAreNotNoted,
		},
		{
			Name: "a table that is not there is the database's error, and is looked for again",
			Only: []string{"postgres"},
			Run:  missingTableIsLookedForAgain,
		},
	}
}

// sharedTable is a table of rows in a schema that is that of no connection.
type sharedTable struct {
	schema string
	open   func(t *testing.T) *gorm.DB // another program, whose leases lie in a schema of its own
	admin  *gorm.DB
	dsn    string // of admin, on PostgreSQL
}

func (s sharedTable) rows() string { return s.schema + ".accounts" }

// create makes a row as a program would.
func (s sharedTable) create(db *gorm.DB, email string) (account, error) {
	a := account{Email: email}
	err := db.Table(s.rows()).Create(&a).Error
	return a, err
}

// isNoted reports whether the schema has a table of authorities.
func (s sharedTable) isNoted(t *testing.T) bool {
	t.Helper()
	if s.admin.Name() == "sqlite" {
		return plainOne[int64](t, s.admin, "SELECT count(*) FROM "+s.schema+
			".sqlite_master WHERE name = 'snowflake_authority'") > 0
	}
	return plainOne[int64](t, s.admin, "SELECT count(*) FROM information_schema.tables "+
		"WHERE table_schema = ? AND table_name = 'snowflake_authority'", s.schema) > 0
}

// share makes a schema with a table of rows, and says how programs open databases or schemas of their own from
// which they write there.
func share(t *testing.T, target dbtest.Target, opts ...dbtest.Option) sharedTable {
	t.Helper()
	var s sharedTable
	switch target.Dialect {
	case "postgres": // where every DSN leads to a schema of one database
		s.dsn = target.DSN(t)
		s.admin = target.OpenDSN(t, s.dsn, nil)
		s.schema = plainOne[string](t, s.admin, "SELECT current_schema()")
		s.open = func(t *testing.T) *gorm.DB {
			t.Helper()
			own := plainOne[string](t, target.Open(t, nil), "SELECT current_schema()")
			return target.OpenDSN(t, s.dsn, nil, append(opts, dbtest.SearchPath(own, s.schema))...)
		}
	case "mysql":
		s.admin = target.Open(t, nil)
		s.schema = s.admin.Migrator().CurrentDatabase()
		s.open = func(t *testing.T) *gorm.DB { t.Helper(); return target.Open(t, nil, opts...) }
	default:
		file := filepath.Join(t.TempDir(), "third.db")
		s.schema = "third"
		s.open = func(t *testing.T) *gorm.DB {
			t.Helper()
			db := target.Open(t, nil, dbtest.MaxOpenConns(1))
			must(t, db.Exec("ATTACH DATABASE ? AS third", file).Error, "attach")
			return db
		}
		s.admin = s.open(t)
	}
	must(t, s.admin.Exec("CREATE TABLE "+s.rows()+" (id bigint NOT NULL PRIMARY KEY, email varchar(100), "+
		"name varchar(100))").Error, "the table of the rows")
	return s
}

func thirdSchemaHasOneAuthority(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	first, second := s.open(t), s.open(t)
	leased(t, first)
	leased(t, second)
	_, err := s.create(first, "first@example.com")
	must(t, err, "create of the first program")

	refused, err := s.create(second, "second@example.com")
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create of the second program")
	says(t, err, "schema "+s.schema, noted(t, first)["rows"].Authority, noted(t, second)["rows"].Authority)
	same(t, "the ID that was refused", refused.ID, 0)
	same(t, "the rows", plainOne[int64](t, s.admin, "SELECT count(*) FROM "+s.rows()), 1)

	for _, db := range []*gorm.DB{first, second} { // each goes on with what is its own
		must(t, db.AutoMigrate(&ticket{}), "AutoMigrate")
		must(t, db.Create(&ticket{}).Error, "create in the schema of the leases")
	}
	_, err = s.create(first, "again@example.com")
	must(t, err, "create of the first program")
}

func searchPathsMeet(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	first, second := s.open(t), s.open(t)
	leased(t, first)
	leased(t, second)
	// The name has no schema, and no program has the table in a schema of its own.
	must(t, first.Create(&account{Email: "first@example.com"}).Error, "create of the first program")
	err := second.Transaction(func(tx *gorm.DB) error {
		return tx.Create(&account{Email: "second@example.com"}).Error
	})
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create of the second program")
	says(t, err, "schema "+s.schema)
	must(t, first.Table("accounts AS a").Create(&account{Email: "again@example.com"}).Error, "create by an alias")
	err = second.Table("accounts AS a").Create(&account{Email: "again@example.com"}).Error
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create of the second program by an alias")
}

func copyOfLeasesIsLogged(t *testing.T, target dbtest.Target) {
	copyTarget := target
	if target.Dialect == "postgres" {
		copyTarget = dbtest.Named("sqlite") // the databases of the tests are schemas of one, and have one place
	}
	original, rows := target.DSN(t), target.DSN(t)
	from, to := target.OpenDSN(t, original, nil), copyTarget.Open(t, nil)
	fill := func(db *gorm.DB) (said string) {
		var out strings.Builder
		plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
		must(t, db.Use(plugin), "Use of the leases")
		must(t, target.OpenDSN(t, rows, nil).Use(plugin), "Use of the rows")
		must(t, plugin.Close(t.Context()), "Close")
		return out.String()
	}
	if said := fill(from); strings.Contains(said, "moved") {
		t.Errorf("the original says %s", said)
	}
	copyLeases(t, from, to)
	said := fill(to)
	name := "SELECT DATABASE()"
	if copyTarget.Dialect == "sqlite" {
		name = "SELECT file FROM pragma_database_list"
	}
	says(t, errors.New(said), "the leases have moved", noted(t, from)["rows"].Place, plainOne[string](t, to, name))
	if said := fill(target.OpenDSN(t, original, nil)); strings.Contains(said, "moved") {
		t.Errorf("the original says %s", said)
	}
}

func byHandInAThirdSchema(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	byHand, second := s.open(t), s.open(t)
	must(t, byHand.Use(closedAfter(t, snowflakeplugin.New(silent(), snowflakeplugin.WithNode(5)))), "Use")
	leased(t, second)
	_, err := s.create(byHand, "hand@example.com")
	must(t, err, "create with a number by hand")
	_, err = s.create(second, "leased@example.com")
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create with a leased number")
	says(t, err, "given by hand", "schema "+s.schema)
}

func noteOutlivesATransaction(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	first, second := s.open(t), s.open(t)
	leased(t, first)
	leased(t, second)
	tx := first.Begin()
	_, err := s.create(tx, "first@example.com")
	must(t, err, "create in a transaction")
	_, err = s.create(second, "second@example.com")
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create beside a transaction that goes on")
	must(t, tx.Rollback().Error, "rollback")
	_, err = s.create(second, "second@example.com")
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create after a transaction that was rolled back")
}

func onlyConnectionInAThirdSchema(t *testing.T, target dbtest.Target) {
	s := share(t, target, dbtest.MaxOpenConns(1))
	db := s.open(t)
	leased(t, db)
	inside := func(tx *gorm.DB) error {
		_, err := s.create(tx, "inside@example.com")
		return err
	}
	err := db.Transaction(inside)
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create inside")
	says(t, err, "outside of a transaction", s.schema)
	_, err = s.create(db, "outside@example.com")
	must(t, err, "create outside")
	must(t, db.Transaction(inside), "create inside")
}

func schemaWithoutRights(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	db, role := lesserLogin(t, target, s)
	leased(t, db)
	a, err := s.create(db, "a@example.com")
	wantErr(t, err, snowflakeplugin.ErrAuthority, "create")
	says(t, err, "CREATE TABLE IF NOT EXISTS", s.schema, "snowflake_authority", "SELECT and INSERT", "WithOwnSchemas")
	same(t, "the ID that was refused", a.ID, 0)

	_, ddl, _ := strings.Cut(err.Error(), "CREATE TABLE")
	ddl, _, _ = strings.Cut(ddl, ";")
	must(t, s.admin.Exec("CREATE TABLE"+ddl).Error, "the statement of the error")
	must(t, s.admin.Exec("GRANT SELECT, INSERT ON "+s.schema+".snowflake_authority TO "+role).Error, "grant")
	_, err = s.create(db, "a@example.com")
	must(t, err, "create with the rights")
}

// lesserLogin opens a database or schema of its own as a user who may write the rows and nothing else of theirs.
func lesserLogin(t *testing.T, target dbtest.Target, s sharedTable) (db *gorm.DB, role string) {
	t.Helper()
	if target.Dialect == "mysql" {
		own := target.DSN(t)
		role, _, login := target.Login(t, s.admin, own)
		for _, statement := range []string{
			"GRANT ALL ON `" + target.OpenDSN(t, own, nil).Migrator().CurrentDatabase() + "`.* TO " + role,
			"GRANT SELECT, INSERT ON " + s.rows() + " TO " + role,
		} {
			must(t, s.admin.Exec(statement).Error, statement)
		}
		return target.OpenDSN(t, login, nil), role
	}
	role, _, login := target.Login(t, s.admin, s.dsn)
	for _, statement := range []string{
		"CREATE SCHEMA AUTHORIZATION " + role, "GRANT USAGE ON SCHEMA " + s.schema + " TO " + role,
		"GRANT SELECT, INSERT ON " + s.rows() + " TO " + role,
	} {
		must(t, s.admin.Exec(statement).Error, statement)
	}
	return target.OpenDSN(t, login, nil, dbtest.SearchPath(role)), role
}

func ownSchemasAreNotNoted(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	db := s.open(t)
	pattern := s.schema[:len(s.schema)-2] + "*"
	plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithOwnSchemas("other", pattern))
	must(t, db.Use(closedAfter(t, plugin)), "Use")
	a, err := s.create(db, "a@example.com")
	must(t, err, "create")
	same(t, "an ID is there", a.ID != 0, true)
	same(t, "a note of the schema is there", s.isNoted(t), false)

	err = s.open(t).Use(snowflakeplugin.New(silent(), snowflakeplugin.WithOwnSchemas("[")))
	wantErr(t, err, snowflakeplugin.ErrOptions, "Use with a pattern that is none")
	says(t, err, `WithOwnSchemas("[")`)
}

func temporaryTablesAreNotNoted(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil, dbtest.MaxOpenConns(1))
	leased(t, db)
	must(t, db.Exec("CREATE TEMPORARY TABLE accounts (id bigint NOT NULL PRIMARY KEY, email varchar(100), "+
		"name varchar(100))").Error, "CREATE TEMPORARY TABLE")
	for _, name := range map[string][]string{
		"postgres": {"accounts", "pg_temp.accounts"}, "sqlite": {"accounts", "temp.accounts"},
	}[target.Dialect] {
		must(t, db.Table(name).Create(&account{Email: name}).Error, "create in "+name)
	}
	catalog := map[string]string{
		"postgres": "SELECT count(*) FROM pg_class WHERE relname = 'snowflake_authority' AND relpersistence = 't'",
		"sqlite":   "SELECT count(*) FROM temp.sqlite_master WHERE name = 'snowflake_authority'",
	}[target.Dialect]
	same(t, "the temporary tables of authorities", plainOne[int64](t, db, catalog), 0)
}

func missingTableIsLookedForAgain(t *testing.T, target dbtest.Target) {
	s := share(t, target)
	db, other := s.open(t), s.open(t)
	leased(t, db)
	leased(t, other)
	if err := db.Create(&ticket{}).Error; err == nil || !strings.Contains(err.Error(), "42P01") {
		t.Errorf("create without a table: %v", err)
	}
	must(t, s.admin.AutoMigrate(&ticket{}), "AutoMigrate")
	must(t, db.Create(&ticket{}).Error, "create")
	wantErr(t, other.Create(&ticket{}).Error, snowflakeplugin.ErrAuthority, "create of another program")
}
