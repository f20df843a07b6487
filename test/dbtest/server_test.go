package dbtest_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Nobody listens on port 1. The tests search for the password in messages.
const (
	deadPostgres = "postgres://someone:s3cret@127.0.0.1:1/x?sslmode=disable"
	deadMariaDB  = "someone:s3cret@tcp(127.0.0.1:1)/"
)

// A verdict is a testing.TB that records how the code under test ended it.
type verdict struct {
	testing.TB
	how  string // "skipped", "failed", or empty
	said string
}

func (v *verdict) Helper()                        {}
func (v *verdict) Skipf(format string, a ...any)  { v.end("skipped", fmt.Sprintf(format, a...)) }
func (v *verdict) Fatalf(format string, a ...any) { v.end("failed", fmt.Sprintf(format, a...)) }
func (v *verdict) Fatal(a ...any)                 { v.end("failed", fmt.Sprint(a...)) }

func (v *verdict) end(how, said string) {
	v.how, v.said = how, said
	runtime.Goexit() // the methods of testing.T do this, too
}

func TestAnAbsentServerSkipsAloudUnlessItIsAskedFor(t *testing.T) {
	absent := fmt.Errorf("%w: postgres: connection refused", dbtest.ErrAbsent)
	for _, c := range []struct {
		name         string
		err          error
		dsn, require string
		how          string
		says         []string
	}{
		{name: "an answer is no reason to stop", require: "postgres"},
		{
			name: "absent", err: absent,
			how: "skipped", says: []string{"SNOWFLAKE_POSTGRES_DSN", "connection refused"},
		},
		{
			name: "absent, another one required", err: absent, require: "mariadb",
			how: "skipped", says: []string{"SNOWFLAKE_POSTGRES_DSN"},
		},
		{
			name: "absent and required", err: absent, require: "mariadb, postgres",
			how: "failed", says: []string{"SNOWFLAKE_REQUIRE", "SNOWFLAKE_POSTGRES_DSN"},
		},
		{
			name: "absent where the variable points", err: absent, dsn: deadPostgres,
			how: "failed", says: []string{"SNOWFLAKE_POSTGRES_DSN is set"},
		},
		{
			name: "a slip in the list of required ones", require: "postgers",
			how: "failed", says: []string{`"postgers"`, "sqlite, postgres, mariadb, mysql"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SNOWFLAKE_POSTGRES_DSN", c.dsn)
			t.Setenv("SNOWFLAKE_REQUIRE", c.require)
			v := &verdict{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				dbtest.Demand(v, c.err)
			}()
			<-done
			if v.how != c.how {
				t.Fatalf("the test was %q, want %q; it said: %s", v.how, c.how, v.said)
			}
			for _, part := range c.says {
				if !strings.Contains(v.said, part) {
					t.Errorf("it said %q, which lacks %q", v.said, part)
				}
			}
		})
	}
}

func TestPingTellsWhatIsWrongWithoutTheDSN(t *testing.T) {
	dead := map[string]string{"postgres": deadPostgres, "mariadb": deadMariaDB, "mysql": deadMariaDB}
	for name := range dead {
		t.Run(name, func(t *testing.T) {
			variable := "SNOWFLAKE_" + strings.ToUpper(name) + "_DSN"
			t.Setenv(variable, dead[name])
			_, err := dbtest.Ping(t.Context(), name)
			if !errors.Is(err, dbtest.ErrAbsent) {
				t.Errorf("without a listener: %v, want ErrAbsent", err)
			}
			sayNothingSecret(t, err.Error())

			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go hangUp(listener)
			t.Setenv(variable, strings.ReplaceAll(dead[name], "127.0.0.1:1", listener.Addr().String()))
			if _, err := dbtest.Ping(t.Context(), name); !errors.Is(err, dbtest.ErrAbsent) {
				t.Errorf("with a listener that closes every connection: %v, want ErrAbsent", err)
			}

			// The error texts of both drivers quote input that they cannot parse.
			t.Setenv(variable, "a s3cret that is no DSN at all://")
			_, err = dbtest.Ping(t.Context(), name)
			if err == nil || !strings.Contains(err.Error(), variable) {
				t.Fatalf("with an invalid DSN: %v, want an error that names %s", err, variable)
			}
			sayNothingSecret(t, err.Error())
		})
	}
	if _, err := dbtest.Ping(t.Context(), "oracle"); err == nil || !strings.Contains(err.Error(), "oracle") {
		t.Errorf("an unknown name: %v, want an error that names it", err)
	}
}

// TestTheEnvironmentDecidesWhetherAServerIsMissed runs this test binary again, because a process
// searches for each server only once.
func TestTheEnvironmentDecidesWhetherAServerIsMissed(t *testing.T) {
	t.Parallel()
	if os.Getenv("DBTEST_AGAIN") != "" {
		dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) { target.DSN(t) })
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
	again.Env = append(os.Environ(), "DBTEST_AGAIN=1", "SNOWFLAKE_REQUIRE=",
		"SNOWFLAKE_POSTGRES_DSN="+deadPostgres, "SNOWFLAKE_MARIADB_DSN="+deadMariaDB,
		"SNOWFLAKE_MYSQL_DSN="+deadMariaDB)
	output, err := again.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the run ended with %v, want a failure\n%s", err, output)
	}
	for _, line := range []string{
		"--- PASS: " + t.Name() + "/sqlite",
		"--- FAIL: " + t.Name() + "/postgres",
		"--- FAIL: " + t.Name() + "/mariadb ",
		"--- FAIL: " + t.Name() + "/mariadb-noreturning",
		"--- FAIL: " + t.Name() + "/mysql ",
		"SNOWFLAKE_MARIADB_DSN is set",
		"SNOWFLAKE_MYSQL_DSN is set",
	} {
		if !strings.Contains(string(output), line) {
			t.Errorf("the output lacks %q:\n%s", line, output)
		}
	}
	sayNothingSecret(t, string(output))
}

// hangUp accepts connections and closes them at once. The port of a container does so while its
// server is starting.
func hangUp(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		conn.Close()
	}
}

func TestPingTellsARefusal(t *testing.T) {
	narrow := makeRole(t)
	dsn, err := url.Parse(dbtest.Targets()[1].AdminDSN(t))
	if err != nil {
		t.Skip("the administrator's DSN is not a URL")
	}
	dsn.User = url.UserPassword(narrow, "narrow")
	dsn.Path = "/no_such_database"
	t.Setenv("SNOWFLAKE_POSTGRES_DSN", dsn.String())
	if _, err := dbtest.Ping(t.Context(), "postgres"); !errors.Is(err, dbtest.ErrRefused) {
		t.Errorf("with a database that does not exist: %v, want ErrRefused", err)
	}
}

func TestTheAdministratorsPoolIsClosedWithTheLastDatabase(t *testing.T) {
	// This test is not parallel. The count belongs to the process, so no other test may use a
	// database at the same time.
	for _, target := range dbtest.Targets() {
		if target.Dialect == "sqlite" {
			continue
		}
		t.Run(target.Name, func(t *testing.T) {
			t.Run("while two are held", func(t *testing.T) {
				target.DSN(t)
				target.DSN(t)
				if uses, open := target.AdminPools(t); uses != 2 || !open {
					t.Errorf("%d uses, open: %v; want 2, true", uses, open)
				}
			})
			if uses, open := target.AdminPools(t); uses != 0 || open {
				t.Errorf("afterwards %d uses, open: %v; want 0, false", uses, open)
			}
		})
	}
}

func TestADSNIsChangedInOnePlaceOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dsn, key, value, want string }{
		{
			"postgres://u:p%40ss@h:5432/old?sslmode=disable", "dbname", "new",
			"postgres://u:p%40ss@h:5432/new?sslmode=disable",
		},
		{"postgresql://h/?dbname=old", "dbname", "new", "postgresql://h/new"},
		{"postgres://h/kept", "search_path", "s", "postgres://h/kept?search_path=s"},
		{"host=h dbname=old", "dbname", "new", "host=h dbname=old dbname=new"},
	} {
		got, err := dbtest.PostgresDSN(c.dsn, c.key, c.value)
		if err != nil || got != c.want {
			t.Errorf("%s=%s: %q, %v; want %q", c.key, c.value, got, err, c.want)
		}
	}
	if _, err := dbtest.PostgresDSN("postgres://u:s3cret@%zz/", "dbname", "x"); err == nil {
		t.Error("a broken URL was accepted")
	} else {
		sayNothingSecret(t, err.Error())
	}
	found := dbtest.DSNParam("clientFoundRows", "true")
	zone := dbtest.DSNParam("time_zone", "'+00:00'")
	const params = "clientFoundRows=true&time_zone=%27%2B00%3A00%27"
	for dsn, want := range map[string]string{
		"u:p?/q@tcp(h:1)/db":            "u:p?/q@tcp(h:1)/db?" + params,
		"u@tcp(h:1)/db?charset=utf8mb4": "u@tcp(h:1)/db?charset=utf8mb4&" + params,
	} {
		if got := dbtest.MySQLDSN(dsn, found, zone); got != want {
			t.Errorf("parameters give %q, want %q", got, want)
		}
	}
	if got := dbtest.MySQLDSN("u@tcp(h:1)/db"); got != "u@tcp(h:1)/db" {
		t.Errorf("no parameter gives %q", got)
	}
}

func sayNothingSecret(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "s3cret") {
		t.Errorf("the text contains a password: %s", text)
	}
}
