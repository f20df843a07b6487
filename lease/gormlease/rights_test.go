package gormlease_test

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A user of a database server, who may connect and nothing else.
type user struct {
	db             *gorm.DB
	name, password string
}

// openAsNobody opens a fresh database as its administrator and as a new user.
func openAsNobody(t *testing.T, target dbtest.Target) (admin *gorm.DB, nobody user) {
	t.Helper()
	dsn := target.DSN(t)
	admin = target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
	name, password := "snowflakerole_"+strings.ToLower(rand.Text()[:12]), rand.Text()
	if target.Dialect == "postgres" {
		if err := admin.Exec("CREATE ROLE " + name + " LOGIN PASSWORD '" + password + "'").Error; err != nil {
			t.Skipf("the login of the tests may not create roles: %v", err)
		}
		t.Cleanup(func() {
			// PostgreSQL keeps the role as long as it has rights somewhere.
			exec(t, admin, "DROP OWNED BY "+name)
			exec(t, admin, "DROP ROLE "+name)
		})
		exec(t, admin, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
		return admin, user{target.OpenDSN(t, pgLogin(t, dsn, name, password), nil), name, password}
	}
	account := "'" + name + "'@'%'"
	if err := admin.Exec("CREATE USER " + account + " IDENTIFIED BY '" + password + "'").Error; err != nil {
		t.Skipf("the login of the tests may not create users: %v", err)
	}
	t.Cleanup(func() { exec(t, admin, "DROP USER "+account) })
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal("the DSN is not one of the mysql driver")
	}
	// Some right on the database is needed to connect to it.
	exec(t, admin, "GRANT DROP ON `"+cfg.DBName+"`.* TO "+account)
	cfg.User, cfg.Passwd = name, password
	return admin, user{target.OpenDSN(t, cfg.FormatDSN(), nil), account, password}
}

// pgLogin changes the login of a DSN of PostgreSQL.
func pgLogin(t *testing.T, dsn, name, password string) string {
	t.Helper()
	if !strings.Contains(dsn, "://") {
		return dsn + " user=" + name + " password=" + password
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN is not a URL")
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}
