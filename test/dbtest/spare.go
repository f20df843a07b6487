package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"testing"
)

// PostgreSQL takes longer to make a database, to greet the first session in it and to drop it than most
// tests need for everything else. So a package whose TestMain calls [Main] empties its databases and gives
// them to the next tests, and drops them in the end.

// A spare is an empty database that no test uses now.
type spare struct {
	dsn  string // never to be logged
	drop dropFunc
}

//nolint:gochecknoglobals // what a process has made, like the servers that it has found
var spares struct {
	mu       sync.Mutex
	kept     bool // there is somebody who drops them in the end
	byServer map[*server][]spare
}

// Main runs the tests of a package with many tests on PostgreSQL, and then the cleanups of what the package
// itself shares between its tests. It returns the exit code for TestMain.
func Main(m *testing.M, cleanups ...func()) int {
	spares.mu.Lock()
	spares.kept = true
	spares.mu.Unlock()
	code := m.Run()
	for _, cleanup := range cleanups {
		cleanup()
	}
	spares.mu.Lock()
	defer spares.mu.Unlock()
	for s, all := range spares.byServer {
		for _, one := range all {
			if err := s.dropSpare(one); err != nil {
				fmt.Fprintf(os.Stderr, "dbtest: dropping a database on %s: %v\n", s.flavor.name, err)
				code = max(code, 1)
			}
		}
	}
	return code
}

// empty takes everything out of a database of PostgreSQL that a test may have put in. A database with
// rights of its own is not emptied, and the error says so.
func empty(ctx context.Context, dsn string) (err error) {
	pool, err := sql.Open(driverPgx, dsn)
	if err != nil {
		return err
	}
	pool.SetMaxOpenConns(1)
	defer func() {
		if closed := pool.Close(); err == nil {
			err = closed
		}
	}()
	_, err = pool.ExecContext(ctx, `DO $$
		DECLARE s name;
		BEGIN
			IF EXISTS (SELECT FROM pg_database WHERE datname = current_database() AND datacl IS NOT NULL)
				OR EXISTS (SELECT FROM pg_event_trigger) OR EXISTS (SELECT FROM pg_publication)
				OR EXISTS (SELECT FROM pg_db_role_setting WHERE setconfig <> '{synchronous_commit=off}'
					AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())) THEN
				RAISE EXCEPTION 'the database is not as it was made';
			END IF;
			PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid();
			PERFORM lo_unlink(oid) FROM pg_largeobject_metadata;
			FOR s IN SELECT nspname FROM pg_namespace
				WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
			LOOP EXECUTE format('DROP SCHEMA %I CASCADE', s); END LOOP;
			CREATE SCHEMA public;
			GRANT USAGE ON SCHEMA public TO PUBLIC;
		END $$`)
	return err
}
