package dbtest

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
)

// Login makes a user of the server who may connect to the database of a DSN and do nothing there, until the
// test ends. It returns the user as GRANT wants it, its password, and the DSN with both. The test is skipped if the
// login of admin may not make users.
func (t Target) Login(tb testing.TB, admin *gorm.DB, dsn string) (user, password, login string) {
	tb.Helper()
	exec := func(statement string) {
		tb.Helper()
		if err := admin.Exec(statement).Error; err != nil {
			tb.Errorf("%s: %v", statement, err)
		}
	}
	name := "snowflakerole_" + strings.ToLower(rand.Text()[:12])
	password = rand.Text()
	if t.Dialect == dialectPostgres {
		if err := admin.Exec("CREATE ROLE " + name + " LOGIN PASSWORD '" + password + "'").Error; err != nil {
			tb.Skipf("the login of the tests may not create roles: %v", err)
		}
		tb.Cleanup(func() {
			// PostgreSQL keeps the role as long as it has rights somewhere.
			exec("DROP OWNED BY " + name)
			exec("DROP ROLE " + name)
		})
		if !strings.Contains(dsn, "://") {
			return name, password, dsn + " user=" + name + " password=" + password
		}
		u, err := url.Parse(dsn)
		if err != nil {
			tb.Fatal("the DSN is not a URL")
		}
		u.User = url.UserPassword(name, password)
		return name, password, u.String()
	}
	user = "'" + name + "'@'%'"
	if err := admin.Exec("CREATE USER " + user + " IDENTIFIED BY '" + password + "'").Error; err != nil {
		tb.Skipf("the login of the tests may not create users: %v", err)
	}
	tb.Cleanup(func() { exec("DROP USER " + user) })
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatal("the DSN is not one of the mysql driver")
	}
	// Some right on the database is needed to connect to it.
	exec("GRANT DROP ON `" + cfg.DBName + "`.* TO " + user)
	cfg.User, cfg.Passwd = name, password
	return user, password, cfg.FormatDSN()
}
