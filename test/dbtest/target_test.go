package dbtest_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type author struct {
	ID   int64 `gorm:"primaryKey;autoIncrement:false"`
	Name string
}

type book struct {
	ID       int64 `gorm:"primaryKey;autoIncrement:false"`
	AuthorID int64
	Author   author
}

func TestEveryTargetKeepsARow(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		migrate(t, db, &author{})
		create(t, db, &author{ID: 7, Name: "Ursula"})
		var got author
		if err := db.First(&got, 7).Error; err != nil || got.Name != "Ursula" {
			t.Fatalf("read back %+v, %v; want Ursula", got, err)
		}
		if got := db.Name(); got != target.Dialect {
			t.Errorf("GORM calls the dialect %q, the target %q", got, target.Dialect)
		}
	})
}

func TestEveryTargetEnforcesForeignKeysOnEveryConnection(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		migrate(t, db, &author{}, &book{})
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		for id := range 3 {
			conn, err := pool.Conn(t.Context()) // held until the end, so each one is different
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			_, err = conn.ExecContext(t.Context(),
				fmt.Sprintf("INSERT INTO books (id, author_id) VALUES (%d, 404)", id))
			if err == nil {
				t.Errorf("connection %d stored a book without its author", id)
			}
		}
	})
}

func TestTwoDatabasesOfATargetDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		first, second := target.Open(t, nil), target.Open(t, nil)
		migrate(t, first, &author{})
		if second.Migrator().HasTable(&author{}) {
			t.Fatal("the second database holds the table of the first")
		}
		migrate(t, second, &author{})
		create(t, first, &author{ID: 1, Name: "first"})
		create(t, second, &author{ID: 1, Name: "second"})
	})
}

func TestTwoHandlesOnOneDSNShareADatabase(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		first, second := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil)
		migrate(t, first, &author{})
		create(t, first, &author{ID: 1, Name: "shared"})
		var got author
		if err := second.First(&got, 1).Error; err != nil || got.Name != "shared" {
			t.Fatalf("the second handle read %+v, %v", got, err)
		}
	})
}

func TestTheDriverItselfOpensTheDSN(t *testing.T) {
	t.Parallel()
	drivers := map[string]string{"sqlite": "sqlite3", "postgres": "pgx", "mysql": "mysql"}
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		pool, err := sql.Open(drivers[target.Dialect], target.DSN(t))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if err := pool.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestADatabaseIsDroppedWithAConnectionAndATransactionLeftOnIt(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("the database is a file in the directory of the test")
		}
		var name string
		t.Run("leaves a transaction open", func(t *testing.T) {
			dsn := target.DSN(t)
			name = databaseName(t, target, dsn)
			// OpenDSN would close the handle, so it is not used here.
			leaked, err := gorm.Open(target.Dialector(dsn), &gorm.Config{})
			if err != nil {
				t.Fatal(err)
			}
			migrate(t, leaked, &author{})
			tx := leaked.Begin()
			create(t, tx, &author{ID: 1, Name: "never committed"})
			if !target.Exists(t, name) {
				t.Fatalf("%s does not exist while the test runs", name)
			}
		})
		if target.Exists(t, name) {
			t.Errorf("%s still exists after its test", name)
		}
	})
}

func TestManyTestsMakeDatabasesAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		for i := range 8 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				migrate(t, target.Open(t, nil), &author{})
			})
		}
	})
}

func TestOptionsReachThePoolAndTheDriver(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil, dbtest.MaxOpenConns(3), dbtest.DSNParam("clientFoundRows", "true"))
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		if got := pool.Stats().MaxOpenConnections; got != 3 {
			t.Errorf("the pool allows %d connections, want 3", got)
		}
		// An UPDATE that changes nothing counts its row on every database except MySQL and MariaDB.
		// There the parameter makes it count.
		migrate(t, db, &author{})
		create(t, db, &author{ID: 1, Name: "same"})
		update := db.Exec("UPDATE authors SET name = ? WHERE id = ?", "same", 1)
		if update.Error != nil || update.RowsAffected != 1 {
			t.Errorf("UPDATE counted %d rows, %v; want 1", update.RowsAffected, update.Error)
		}
	})
}

func TestMariaDBReturnsRowsUnlessItIsToldNotTo(t *testing.T) {
	t.Parallel()
	type item struct {
		ID   int64 // auto-increment, so GORM asks for it with RETURNING
		Name string
	}
	for _, target := range dbtest.Targets() {
		if target.Dialect != "mysql" {
			continue
		}
		t.Run(target.Name, func(t *testing.T) {
			t.Parallel()
			recorder := dbtest.NewRecorder()
			db := target.Open(t, &gorm.Config{Logger: recorder})
			migrate(t, db, &item{})
			create(t, db, &item{Name: "one"})
			inserts := recorder.Inserts()
			want := target.Name == "mariadb" && !target.IsMySQL(t)
			if len(inserts) != 1 || strings.Contains(inserts[0], "RETURNING") != want {
				t.Errorf("inserts are %q; with RETURNING: want %v", inserts, want)
			}
		})
	}
}

func TestALoginThatMayNotCreateDatabasesGetsASchema(t *testing.T) {
	t.Parallel()
	postgres := dbtest.Targets()[1]
	name := makeRole(t)      // created before the database, so it is dropped after it
	scope := postgres.DSN(t) // the database in which the narrow login works
	owner := postgres.OpenDSN(t, scope, nil)
	if err := owner.Exec("GRANT CREATE ON DATABASE " + databaseName(t, postgres, scope) +
		" TO " + name).Error; err != nil {
		t.Fatal(err)
	}
	narrow, err := url.Parse(scope)
	if err != nil {
		t.Fatal(err)
	}
	narrow.User = url.UserPassword(name, "narrow")

	count := func() (n int) {
		err := owner.Raw("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'snowflaketest%'").
			Scan(&n).Error
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("inside", func(t *testing.T) {
		dsn := dbtest.PostgresDSNAs(t, narrow.String())
		leaked, err := gorm.Open(postgres.Dialector(dsn), &gorm.Config{})
		if err != nil {
			t.Fatal(err)
		}
		migrate(t, leaked, &author{}, &book{})
		create(t, leaked.Begin(), &author{ID: 1})
		if other := postgres.OpenDSN(t, dbtest.PostgresDSNAs(t, narrow.String()), nil); other.
			Migrator().HasTable(&author{}) {
			t.Error("a second schema holds the table of the first")
		}
		if n := count(); n != 2 {
			t.Errorf("%d schemas while two are held", n)
		}
	})
	if n := count(); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
}

func TestALoginThatIsNoSuperuserDropsADatabaseInWhichAnotherRoleWorks(t *testing.T) {
	t.Parallel()
	postgres := dbtest.Targets()[1]
	name := makeRole(t)
	if err := postgres.Admin(t, "ALTER ROLE "+name+" CREATEDB"); err != nil {
		t.Fatal(err)
	}
	login, err := url.Parse(postgres.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	superuser := login.User
	login.User = url.UserPassword(name, "narrow")
	var database string
	t.Run("inside", func(t *testing.T) {
		dsn := dbtest.PostgresDSNAs(t, login.String())
		database = databaseName(t, postgres, dsn)
		other, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		other.User = superuser
		session, err := gorm.Open(postgres.Dialector(other.String()), &gorm.Config{})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := session.DB()
		if err != nil {
			t.Fatal(err)
		}
		// The database is dropped after this has begun.
		t.Cleanup(func() { time.AfterFunc(300*time.Millisecond, func() { _ = pool.Close() }) })
	})
	if postgres.Exists(t, database) {
		t.Error("the database is left")
	}
}

// makeRole creates a PostgreSQL role with the password "narrow" and without any privileges.
func makeRole(t *testing.T) string {
	t.Helper()
	postgres, name := dbtest.Targets()[1], "snowflakerole_"+strings.ToLower(rand.Text())
	if err := postgres.Admin(t, "CREATE ROLE "+name+" LOGIN PASSWORD 'narrow'"); err != nil {
		t.Skipf("the login of the tests may not create roles: %v", err)
	}
	t.Cleanup(func() {
		if err := postgres.Admin(t, "DROP ROLE "+name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// databaseName returns the name of the database in a DSN.
func databaseName(t *testing.T, target dbtest.Target, dsn string) string {
	t.Helper()
	if target.Dialect == "mysql" {
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal("the mysql driver cannot parse the DSN")
		}
		return cfg.DBName
	}
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var name string
	err = pool.QueryRowContext(context.Background(), "SELECT current_database()").Scan(&name)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func migrate(t *testing.T, db *gorm.DB, models ...any) {
	t.Helper()
	if err := db.AutoMigrate(models...); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, db *gorm.DB, value any) {
	t.Helper()
	if err := db.Create(value).Error; err != nil {
		t.Fatal(err)
	}
}
