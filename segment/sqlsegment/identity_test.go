package sqlsegment_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// onEach runs a test on every database that the driver opens by itself.
func onEach(t *testing.T, run func(t *testing.T, target dbtest.Target, pool *sql.DB)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		if target.Name == "mariadb-noreturning" {
			t.Skip("GORM alone opens it in another way")
		}
		run(t, target, openPool(t, target, target.DSN(t)))
	})
}

func exec(t *testing.T, pool *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// refused tests that no number is claimed, and returns the error.
func refused(t *testing.T, what string, s segment.TermsStore, name string) error {
	t.Helper()
	first, err := s.Claim(t.Context(), name, 1)
	if !errors.Is(err, segment.ErrWentBack) {
		t.Errorf("%s: the claim from %q returned %d, %v", what, name, first, err)
	}
	return err
}

// ways are what makes a table of counters forget.
func ways(dialect string) map[string][]string {
	text := map[string]string{"sqlite": "varchar(255)", "postgres": "varchar(255)", "mysql": "varbinary(255)"}[dialect]
	add := "ALTER TABLE snowflake_segments ADD COLUMN %s " + text + " DEFAULT '' NOT NULL"
	return map[string][]string{
		"emptied": {"DELETE FROM snowflake_segments"},
		"replaced by one of an earlier version": {
			"DROP TABLE snowflake_segments", oldTable(dialect), fmt.Sprintf(add, "kind"), fmt.Sprintf(add, "identity"),
		},
	}
}

func TestAnEmptiedTableGrantsNothingToThoseWhoKnowIt(t *testing.T) {
	onEach(t, func(t *testing.T, target dbtest.Target, pool *sql.DB) {
		dialect := sqlsegment.Dialect(target.Dialect)
		for what, statements := range ways(target.Dialect) {
			exec(t, pool, "DROP TABLE IF EXISTS snowflake_segments")
			store := newStore(t, pool, dialect)
			_, err := store.Claim(t.Context(), "orders", 100)
			must(t, err)
			exec(t, pool, statements...)
			for range 2 {
				_ = refused(t, what, store, "orders")
				err = refused(t, what, store, "fresh")
			}
			known := segment.AnyTerms()
			known.Above = 100
			if _, err := store.ClaimOn(t.Context(), "orders", 1, known); !errors.Is(err, segment.ErrWentBack) ||
				!strings.Contains(err.Error(), "\nINSERT") {
				t.Errorf("%s: a source that goes on gets %v", what, err)
			}
			if counters, err := store.Counters(t.Context(), ""); !errors.Is(err, segment.ErrWentBack) {
				t.Errorf("%s: the counters are %v, %v", what, counters, err)
			}
			// The error has what an operator does. Then a counter begins where he wants it to.
			_, statement, _ := strings.Cut(err.Error(), "\nINSERT")
			exec(t, pool, "INSERT"+strings.TrimSuffix(statement, ";"))
			must(t, segment.Raise(t.Context(), store, "orders", 5000))
			if first, err := store.Claim(t.Context(), "orders", 1); err != nil || first != 5000 {
				t.Errorf("%s: after it was put right the claim returned %d, %v", what, first, err)
			}
		}
	})
}

func TestATableThatWasMadeAnewGrantsNothingToThoseWhoKnowTheFirst(t *testing.T) {
	onEach(t, func(t *testing.T, target dbtest.Target, pool *sql.DB) {
		dialect := sqlsegment.Dialect(target.Dialect)
		store := newStore(t, pool, dialect)
		_, err := store.Claim(t.Context(), "orders", 100)
		must(t, err)
		exec(t, pool, "DROP TABLE snowflake_segments")
		other := newStore(t, pool, dialect)
		_, err = other.Claim(t.Context(), "orders", 500)
		must(t, err)
		_ = refused(t, "of the other", store, "orders")
		_ = refused(t, "of the other", store, "fresh")
		if first, err := other.Claim(t.Context(), "orders", 1); err != nil || first != 501 {
			t.Errorf("the claim of the one who made it returned %d, %v", first, err)
		}
	})
}

// Once the plugin has noted an identity, no process makes another one.
func TestATableWhoseIdentityIsNotedIsNotMadeAnew(t *testing.T) {
	onEach(t, func(t *testing.T, target dbtest.Target, pool *sql.DB) {
		dialect := sqlsegment.Dialect(target.Dialect)
		first, err := newStore(t, pool, dialect).Identity(t.Context())
		must(t, err)
		again, err := newStore(t, pool, dialect).Identity(t.Context())
		if err != nil || again != first || len(first.ID) < 20 || !strings.Contains(first.Place, "snowflake_segments") {
			t.Errorf("the identities are %+v and %+v, %v", first, again, err)
		}
		for _, what := range []string{
			"DELETE FROM snowflake_segments",
			insertOld + "('orders', 11, 0, 1, '2026-01-01T00:00:00Z')", // by a process of an earlier version
			"DROP TABLE snowflake_segments",
		} {
			exec(t, pool, what)
			if _, err := sqlsegment.New(t.Context(), pool, dialect); !errors.Is(err, segment.ErrWentBack) ||
				!strings.Contains(err.Error(), first.ID) {
				t.Errorf("after %s New returned %v", what, err)
			}
		}
	})
}

// oldTable makes the table as earlier versions do.
func oldTable(dialect string) string {
	types := map[string][2]string{
		"sqlite": {"varchar(255)", ""}, "postgres": {"varchar(255)", ""}, "mysql": {"varbinary(255)", " ENGINE=InnoDB"},
	}[dialect]
	return fmt.Sprintf("CREATE TABLE snowflake_segments (name %s NOT NULL, next bigint NOT NULL, remainder bigint "+
		"NOT NULL, modulus bigint NOT NULL, updated_at varchar(30) NOT NULL, PRIMARY KEY (name))%s", types[0], types[1])
}

const insertOld = "INSERT INTO snowflake_segments (name, next, remainder, modulus, updated_at) VALUES "

func TestATableOfAnEarlierVersionGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, target dbtest.Target, pool *sql.DB) {
		dialect := sqlsegment.Dialect(target.Dialect)
		exec(t, pool, oldTable(target.Dialect), insertOld+"('orders', 101, 0, 1, '2026-01-01T00:00:00Z')")
		store := newStore(t, pool, dialect)
		claims := func(name string, want int64) {
			t.Helper()
			if first, err := store.Claim(t.Context(), name, 1); err != nil || first != want {
				t.Errorf("the claim from %q returned %d, %v", name, first, err)
			}
		}
		claims("orders", 101)
		exec(t, pool, insertOld+"('later', 7, 0, 1, '2026-01-01T00:00:00Z')",
			"UPDATE snowflake_segments SET next = next + 10 WHERE name = 'orders'")
		claims("orders", 112)
		claims("later", 7)
		claims("new", 1)
		counters, err := store.Counters(t.Context(), "")
		if err != nil || len(counters) != 3 {
			t.Errorf("the counters are %v, %v", counters, err)
		}
		// A later version may say what a counter is for.
		exec(t, pool, "UPDATE snowflake_segments SET kind = 'kept' WHERE name = 'orders'")
		must(t, segment.Raise(t.Context(), store, "orders", 500))
		claims("orders", 500)
		var kind string
		must(t, pool.QueryRowContext(t.Context(), "SELECT kind FROM snowflake_segments WHERE name = 'orders'").Scan(&kind))
		if kind != "kept" {
			t.Errorf("the kind is %q", kind)
		}
	})
}

func TestWithoutTheRightToAddColumnsTheErrorHasTheStatement(t *testing.T) {
	onEach(t, func(t *testing.T, target dbtest.Target, _ *sql.DB) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite has no rights")
		}
		dsn := target.DSN(t)
		admin := target.OpenDSN(t, dsn, nil)
		user, _, login := target.Login(t, admin, dsn)
		must(t, admin.Exec(oldTable(target.Dialect)).Error)
		must(t, admin.Exec("GRANT SELECT, INSERT, UPDATE ON snowflake_segments TO "+user).Error)
		dialect, pool := sqlsegment.Dialect(target.Dialect), openPool(t, target, login)
		_, err := sqlsegment.New(t.Context(), pool, dialect)
		if !errors.Is(err, sqlsegment.ErrTable) {
			t.Fatalf("New returned %v", err)
		}
		_, statements, _ := strings.Cut(err.Error(), "ALTER TABLE")
		for statement := range strings.SplitSeq("ALTER TABLE"+statements, ";\n") {
			if statement != "" {
				must(t, admin.Exec(statement).Error)
			}
		}
		if first, err := newStore(t, pool, dialect).Claim(t.Context(), "orders", 1); err != nil || first != 1 {
			t.Errorf("the claim returned %d, %v", first, err)
		}
	})
}

func TestATableOfAnotherShapeGetsNoColumns(t *testing.T) {
	onEach(t, func(t *testing.T, target dbtest.Target, pool *sql.DB) {
		exec(t, pool, "CREATE TABLE snowflake_segments (name varchar(40) PRIMARY KEY, length bigint)")
		_, err := sqlsegment.New(t.Context(), pool, sqlsegment.Dialect(target.Dialect))
		if !errors.Is(err, sqlsegment.ErrTable) || !strings.Contains(err.Error(), "CREATE TABLE") {
			t.Errorf("New returned %v", err)
		}
		if _, err := pool.ExecContext(t.Context(), "UPDATE snowflake_segments SET identity = ''"); err == nil {
			t.Error("somebody else's table has a column more")
		}
	})
}
