package gormlease_test

import (
	"testing"

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
	var login string
	nobody.name, nobody.password, login = target.Login(t, admin, dsn)
	if target.Dialect == "postgres" {
		exec(t, admin, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	}
	nobody.db = target.OpenDSN(t, login, nil)
	return admin, nobody
}
