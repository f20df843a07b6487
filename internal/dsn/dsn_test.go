package dsn_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dsn"
)

func TestADSNIsReadForItsDriver(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dsn.DSN{
		"postgres://u:p@h/d":            {Driver: dsn.PostgreSQL, Native: "postgres://u:p@h/d"},
		"postgresql://h/d":              {Driver: dsn.PostgreSQL, Native: "postgresql://h/d"},
		"host=h dbname=d":               {Driver: dsn.PostgreSQL, Native: "host=h dbname=d"},
		"mysql://u:p%40@h/d":            {Driver: dsn.MySQL, Native: "u:p@@tcp(h:3306)/d"},
		"mariadb://u@[::1]:7/a%2Fb?x=y": {Driver: dsn.MySQL, Native: "u@tcp([::1]:7)/a%2Fb?x=y"},
		"mysql://h:/d":                  {Driver: dsn.MySQL, Native: "@tcp(h:3306)/d"},
		"u:p@tcp(h)/d":                  {Driver: dsn.MySQL, Native: "u:p@tcp(h)/d"},
		"mysql:p@tcp(h)/d":              {Driver: dsn.MySQL, Native: "mysql:p@tcp(h)/d"}, // a login named mysql
		"u@unix(/run/s)/d":              {Driver: dsn.MySQL, Native: "u@unix(/run/s)/d"},
		"a.db":                          {Driver: dsn.SQLite, Path: "a.db"},
		"//a.db":                        {Driver: dsn.SQLite, Path: "//a.db"},
		"sqlite:a.db":                   {Driver: dsn.SQLite, Path: "a.db"},
		"sqlite://a.db":                 {Driver: dsn.SQLite, Path: "a.db"},
		"sqlite:///a.db":                {Driver: dsn.SQLite, Path: "/a.db"},
		"file:a.db":                     {Driver: dsn.SQLite, Path: "a.db"},
	} {
		if got, err := dsn.Parse(text); got != want || err != nil {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"mysql://", "mysql://u:p@[::1/d", "mysql://u:%zz@h/d"} {
		if got, err := dsn.Parse(text); err == nil {
			t.Errorf("%s is %+v", text, got)
		}
	}
}

func TestAFileHasSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a b#.db":            "file:a%20b%23.db?mode=rw",
		"file:a.db?mode=ro":  "file:a.db?mode=ro",
		"sqlite:a.db?x=a%20": "file:a.db?mode=rw&x=a+",
		"a.db?x=%zz":         "",
	} {
		d, err := dsn.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.File(map[string]string{"mode": "rw"}); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
}

// FuzzNoPasswordIsShown writes a password in every form of a DSN. No error has it, also if a driver repeats
// what it was given or what it made of that, and the driver of MySQL finds the same login in what was a URL.
func FuzzNoPasswordIsShown(f *testing.F) {
	for _, password := range []string{
		"correct-horse", "Gandalf/7", "p@ssword", "two words", "it's mine'", `back\slash\`, "100%zz%41",
		"a:b?c#d&e=f", "x)/y@tcp(z", "scheme://in", "host=me", "a+b c",
	} {
		f.Add(password, "sh/op?")
	}
	f.Fuzz(func(t *testing.T, password, database string) {
		if len(password) < 5 || strings.Contains(password, "xxx") {
			return // it may be in the texts by chance
		}
		login, name := url.UserPassword("app", password).String(), url.PathEscape(database)
		quoted := "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(password) + "'"
		for text, written := range map[string]string{
			"postgres://" + login + "@h/" + name:                        login[len("app:"):],
			"postgres://h/d?password=" + url.QueryEscape(password):      url.QueryEscape(password),
			"host=h password=" + quoted + " dbname=d":                   quoted,
			"mysql://" + login + "@h/" + name:                           login[len("app:"):],
			"mysql://app:" + password + "@[::1/d":                       password,
			"mysql://app:" + password + "@h/d?" + url.QueryEscape(name): password,
			"app:" + password + "@tcp(h)/d":                             password,
			"app:" + password + "@unix(/s)/d":                           password,
			"sqlite:/no/" + password + "?":                              "",
			password:                                                    "",
			password + "?%zz":                                           "",
		} {
			d, err := dsn.Parse(text)
			if err == nil {
				_, err = d.File(nil)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("%q: %v", text, err)
			}
			if written == "" {
				continue
			}
			message := "driver: " + text + " | " + written + " | " + password + " | refused"
			for _, said := range []string{dsn.Redact(message, text), dsn.SecretsOf("a.db", text).Clean(message)} {
				if strings.Contains(said, password) {
					t.Errorf("%q: %q has %q", text, said, password)
				}
			}
		}
		d, err := dsn.Parse("mysql://" + login + "@h/" + name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := mysql.ParseDSN(d.Native)
		if err != nil || c.User != "app" || c.Passwd != password || c.DBName != database || c.Addr != "h:3306" {
			t.Errorf("%q is %+v, %v", d.Native, c, err)
		}
	})
}
