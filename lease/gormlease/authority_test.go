package gormlease_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestStoresOnOneTableHaveOneIdentity(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		var (
			all   sync.WaitGroup
			ids   [6]lease.Identity
			errs  [6]error
			start = make(chan struct{})
		)
		for i := range ids {
			store := newStore(t, target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(2)))
			all.Go(func() {
				<-start
				ids[i], errs[i] = store.Identity(limited(t))
			})
		}
		close(start)
		all.Wait()
		must(t, errors.Join(errs[:]...))
		for _, id := range ids {
			if id != ids[0] || len(id.ID) < 20 || strings.Contains(id.ID, " ") {
				t.Errorf("the identities are %v", ids)
			}
		}
		db := target.OpenDSN(t, dsn, nil)
		other, err := newStore(t, db, gormlease.WithTable("other_nodes")).Identity(limited(t))
		must(t, err)
		elsewhere, err := newStore(t, target.Open(t, nil)).Identity(limited(t))
		must(t, err)
		if other.ID == ids[0].ID || elsewhere.ID == ids[0].ID || !strings.Contains(other.Place, "other_nodes") {
			t.Errorf("another table has the identity %v, and another database %v", other, elsewhere)
		}
		closed := newStore(t, db)
		must(t, closed.Close())
		_, err = closed.Identity(limited(t))
		complains(t, err, lease.ErrClosed)
	})
}

func TestAStoreInMemoryHasAnIdentity(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{1, 4} {
		db := inMemory(t, ":memory:", conns)
		store := newStore(t, db)
		first, err := store.Identity(limited(t))
		must(t, err)
		again, err := store.Identity(limited(t))
		must(t, err)
		if first.ID == "" || first != again {
			t.Errorf("%v and then %v", first, again)
		}
	}
}

func TestATableInASchemaHasItsIdentityBesideIt(t *testing.T) {
	t.Parallel()
	db := target(postgres).Open(t, nil)
	exec(t, db, "CREATE SCHEMA ops")
	_, err := newStore(t, db, gormlease.WithTable("ops.nodes")).Identity(limited(t))
	must(t, err)
	var n int64
	must(t, db.Table("ops.snowflake_authority").Where("subject = ?", "leases nodes").Count(&n).Error)
	if n != 1 || db.Migrator().HasTable("snowflake_authority") {
		t.Errorf("the schema has %d identities", n)
	}
}

func TestWithoutRightsTheErrorOfTheIdentitySaysWhatToRun(t *testing.T) {
	t.Parallel()
	for name, target := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin, user := openAsNobody(t, target)
			newStore(t, admin)
			exec(t, admin, "GRANT SELECT, INSERT, UPDATE ON snowflake_nodes TO "+user.name)
			store := newStore(t, user.db)
			ddl, err := gormlease.AuthorityDDL(user.db)
			must(t, err)
			_, err = store.Identity(limited(t))
			complains(t, err, errs.ErrAuthority, "denied", columnsIn(ddl), "SELECT and INSERT", "snowflake_authority")
			if strings.Contains(err.Error(), user.password) {
				t.Error("the error has the password in it")
			}
			// The statement is good as it stands there.
			_, statement, _ := strings.Cut(err.Error(), "\n\n")
			exec(t, admin, strings.TrimSuffix(statement, ";"))
			exec(t, admin, "GRANT SELECT, INSERT ON snowflake_authority TO "+user.name)
			id, err := store.Identity(limited(t))
			must(t, err)
			if same, err := newStore(t, admin).Identity(limited(t)); err != nil || same != id {
				t.Errorf("the user has %v and the administrator %v, %v", id, same, err)
			}
		})
	}
}
