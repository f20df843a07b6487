package dbtest_test

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A user of MySQL with the binary log on may create no trigger without a right that applications seldom have.
// A missing right has to be met by the tests and not by a user, so the usual login is without it, too.
func TestOnlyThePrivilegedLoginOfMySQLCreatesTriggers(t *testing.T) {
	t.Parallel()
	create := func(t *testing.T, target dbtest.Target) error {
		t.Helper()
		db := target.Open(t, nil)
		migrate(t, db, &author{})
		return db.Exec("CREATE TRIGGER authors_before BEFORE INSERT ON authors FOR EACH ROW SET NEW.name = 'x'").Error
	}
	target := dbtest.Named("mysql")
	if !target.IsMySQL(t) {
		t.Skip("the server is not MySQL")
	}
	const binaryLogging = 1419
	var refused *mysql.MySQLError
	if err := create(t, target); !errors.As(err, &refused) || refused.Number != binaryLogging {
		t.Errorf("the usual login created a trigger (%v): let the server have its binary log, and give the login no SUPER", err)
	}
	if err := create(t, target.Privileged()); err != nil {
		t.Errorf("the privileged login created no trigger: %v", err)
	}
	for _, other := range dbtest.Servers() {
		if other.Name != "mysql" && other.Privileged() != other {
			t.Errorf("the privileged target of %s is another one", other.Name)
		}
	}
}
