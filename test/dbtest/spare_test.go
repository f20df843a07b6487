package dbtest_test

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// spareVariable is set in the process in which tests take over databases.
const spareVariable = "DBTEST_SPARES"

// A database that a test leaves is empty for the next one, whatever was in it, and is dropped in the end.
func TestADatabaseOfPostgreSQLIsEmptiedForTheNextTest(t *testing.T) {
	postgres := dbtest.Named("postgres")
	if os.Getenv(spareVariable) == "" {
		postgres.DSN(t) // which skips the test without a server
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
		again.Env = append(os.Environ(), spareVariable+"=1")
		output, err := again.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		names := regexp.MustCompile(`database (snowflaketest_\w+)`).FindAllStringSubmatch(string(output), -1)
		if len(names) != 4 || names[0][1] != names[1][1] || names[2][1] != names[1][1] || names[3][1] == names[1][1] {
			t.Errorf("the tests used the databases %q: want one for three tests, and another after a right was given", names)
		}
		for _, name := range names {
			if postgres.Exists(t, name[1]) {
				t.Errorf("%s still exists after its process", name[1])
			}
		}
		return
	}
	for turn := range 4 {
		t.Run("a test", func(t *testing.T) {
			dsn := postgres.DSN(t)
			name := databaseName(t, postgres, dsn)
			t.Logf("database %s", name)
			db := postgres.OpenDSN(t, dsn, nil)
			var found []string
			err := db.Raw("SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace " +
				"WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema' " +
				"UNION ALL SELECT nspname FROM pg_namespace WHERE nspname = 'other' " +
				"UNION ALL SELECT oid::text FROM pg_largeobject_metadata").Scan(&found).Error
			if err != nil || len(found) > 0 {
				t.Errorf("the database has %v, %v", found, err)
			}
			statements := []string{
				"CREATE TABLE public.left_behind (id BIGINT PRIMARY KEY)", "CREATE SCHEMA other",
				"CREATE TABLE other.left_behind (id BIGSERIAL)", "SELECT lo_create(4711)",
			}
			if turn == 2 {
				statements = append(statements, "GRANT CREATE ON DATABASE "+name+" TO PUBLIC")
			}
			for _, s := range statements {
				if err := db.Exec(s).Error; err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
			leaked := db.Begin() // nobody ends it
			if err := leaked.Exec("INSERT INTO public.left_behind VALUES (1)").Error; err != nil {
				t.Fatal(err)
			}
		})
	}
}
