package dialect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

func TestNamesAndPlaceholdersOfEveryDialect(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ quoted, inDots, all, second, list string }{
		dialect.PostgreSQL: {`"a.""b` + "`" + `"`, `"app"."t"`, `"a", "b"`, "$2", " = ANY (CAST($1 AS text[]))"},
		dialect.MySQL:      {"`a.\"b```", "`app`.`t`", "`a`, `b`", "?", " IN (?, ?)"},
		dialect.SQLite:     {"`a.\"b```", "`app`.`t`", "`a`, `b`", "?", " IN (?, ?)"},
	} {
		d, known := dialect.Of(name)
		if !known || string(d.Kind) != name {
			t.Fatalf("%s is unknown", name)
		}
		for _, c := range [][2]string{
			{d.Quote("a.\"b`"), want.quoted}, {d.Quoted("app.t"), want.inDots}, {d.QuoteAll([]string{"a", "b"}), want.all},
			{d.Bind(2), want.second}, {dialect.Write(d.Kind).In([]string{"x", "y"}).String(), want.list},
		} {
			if c[0] != c[1] {
				t.Errorf("%s: it writes %s, want %s", name, c[0], c[1])
			}
		}
	}
	if _, known := dialect.Of("sqlserver"); known {
		t.Error("SQL Server is known")
	}
}

func TestAStatementBindsWhatItCounts(t *testing.T) {
	t.Parallel()
	s := dialect.Write(dialect.PostgreSQL, "SELECT ").BindAll(1, 2).Add(" = ").Text("x").In([]string{`a"b\`, "c"})
	if want := "SELECT $1, $2 = $3::text = ANY (CAST($4 AS text[]))"; s.String() != want {
		t.Errorf("the statement is %s, want %s", s, want)
	}
	if want := []any{1, 2, "x", `{"a\"b\\","c"}`}; fmt.Sprint(s.Args) != fmt.Sprint(want) {
		t.Errorf("it binds %v, want %v", s.Args, want)
	}
}

// The errors are those of the drivers, with the codes of the manuals. Suites that run on the servers provoke
// most of them.
func TestErrorsOfEveryDialect(t *testing.T) {
	t.Parallel()
	pg := func(code string) error {
		return &pgconn.PgError{Code: code, Message: "database is locked: Error 1146: "}
	}
	my := func(number uint16) error { return &mysql.MySQLError{Number: number, Message: "no such table"} }
	said := func(number uint16, text string) error { return &mysql.MySQLError{Number: number, Message: text} }
	old := func(number uint16) error { return errors.New((&mysql.MySQLError{Number: number}).Error()) }
	is := map[string]func(error) bool{
		"busy": dialect.Busy, "locked": dialect.Locked, "missing": dialect.Missing, "read-only": dialect.ReadOnly,
		"forbidden": dialect.Forbidden, "full": dialect.Full, "unprepared": dialect.Unprepared,
		"unselected": dialect.Unselected, "undivided": dialect.Undivided,
	}
	for _, c := range []struct {
		err   error
		state string
		is    string
	}{
		{pg("40001"), "40001", "busy"},
		{pg("40P01"), "40P01", "busy"},
		{pg("55P03"), "55P03", "busy locked"},
		{pg("42P01"), "42P01", "missing"},
		{pg("25006"), "25006", "read-only"},
		{pg("42501"), "42501", "forbidden"},
		{pg("3F000"), "3F000", "forbidden"},
		{pg("53100"), "53100", "full"},
		{pg("42P05"), "42P05", "unprepared"},
		{pg("26000"), "26000", "unprepared"},
		{pg("08P01"), "08P01", ""},
		{
			&pgconn.PgError{Code: "08P01", Message: "transaction blocks not allowed in statement pooling mode"}, "08P01",
			"undivided",
		},
		{pg("22003"), "22003", ""},
		{my(1205), "1205", "busy locked"},
		{my(1213), "1213", "busy"},
		{my(1020), "1020", "busy"},
		{my(8022), "8022", "busy"},
		{my(8028), "8028", "busy"},
		{my(9007), "9007", "busy"},
		{old(1213), "1213", "busy"},
		{my(1146), "1146", "missing"},
		{my(1290), "1290", "read-only"},
		{my(1792), "1792", "read-only"},
		{my(1836), "1836", "read-only"},
		{my(3989), "3989", "read-only"},
		{my(1044), "1044", "forbidden"},
		{my(1049), "1049", "forbidden"},
		{my(1142), "1142", "forbidden"},
		{my(1021), "1021", "full"},
		{my(1114), "1114", "full"},
		{my(3675), "3675", "full"},
		{said(3, "Error writing file './a/b.frm' (Errcode: 28 \"No space left on device\")"), "3", "full"},
		{said(3, "Error writing file './a/b.frm' (OS errno 28 - No space left on device)"), "3", "full"},
		{said(3, "Error writing file './a/b28.frm' (Errcode: 13 \"Permission denied\")"), "3", ""},
		{said(1, "Can't create/write to file '/tmp/x' (Errcode: 28 \"No space left on device\")"), "1", "full"},
		{said(1005, "Can't create table `a`.`b` (errno: 135 \"No more room in record file\")"), "1005", "full"},
		{said(1005, "Can't create table `a`.`b` (errno: 150 \"Foreign key constraint is incorrectly formed\")"), "1005", ""},
		{said(1030, "Got error 28 \"No space left on device\" from storage engine InnoDB"), "1030", "full"},
		{said(1062, "Duplicate entry 'error 28' for key 'PRIMARY'"), "1062", ""},
		{my(1046), "1046", "unselected"},
		{&mysql.MySQLError{Number: 3118, Message: "Access denied. Account is locked."}, "3118", ""},
		{errors.New("database is locked"), "SQLITE_BUSY", "busy locked"},
		{errors.New("database is locked (5) (SQLITE_BUSY)"), "SQLITE_BUSY", "busy locked"}, // of modernc.org/sqlite
		{errors.New("database table is locked"), "SQLITE_LOCKED", "busy locked"},
		{errors.New("attempt to write a readonly database"), "SQLITE_READONLY", "read-only"},
		{errors.New("database or disk is full"), "SQLITE_FULL", "full"},
		{errors.New("no such table: orders"), "no such table", "missing"},
		{errors.New("unknown database app"), "unknown database", "forbidden"},
		{errors.New("Error 12: of something else"), "12", ""},
		{errors.New("an Error of something else"), "", ""},
		{nil, "", ""},
	} {
		wrapped := c.err
		if c.err != nil {
			wrapped = fmt.Errorf("reading, Error or not: %w", errors.Join(errors.New("first"), c.err))
		}
		for _, err := range []error{c.err, wrapped} {
			if got := dialect.State(err); got != c.state {
				t.Errorf("the state of %v is %q, want %q", err, got, c.state)
			}
			for name, fn := range is {
				want := strings.Contains(" "+c.is+" ", " "+name+" ")
				if got := fn(err); got != want {
					t.Errorf("%v is %s: %t, want %t", err, name, got, want)
				}
			}
		}
	}
}
