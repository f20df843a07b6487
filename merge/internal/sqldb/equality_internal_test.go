package sqldb

import "testing"

// SQLite says which collation a column has in the statement that made its table, and nowhere else.
func TestTheCollationsOfSQLiteAreReadOutOfTheStatement(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ statement, a, b string }{
		"none":                    {"CREATE TABLE t (a TEXT, b TEXT)", "", ""},
		"one":                     {"CREATE TABLE t (a TEXT COLLATE nocase NOT NULL, b TEXT)", "NOCASE", ""},
		"quoted":                  {"CREATE TABLE \"t\" (`a` VARCHAR(9) COLLATE \"NOCASE\", [b] TEXT COLLATE [rtrim])", "NOCASE", "RTRIM"},
		"the usual one":           {"CREATE TABLE t (a TEXT COLLATE BINARY, b DECIMAL(4, 2) COLLATE NOCASE)", "", "NOCASE"},
		"of a key":                {"CREATE TABLE t (a TEXT, b TEXT, UNIQUE (a COLLATE NOCASE))", "", ""},
		"beside a comment":        {"CREATE TABLE t (a TEXT, -- names, b\n b TEXT COLLATE NOCASE)", "the collation of t.a", "the collation of t.b"},
		"with a name like others": {"CREATE TABLE t (ab TEXT COLLATE NOCASE, a TEXT, b TEXT COLLATE own)", "", "OWN"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := &Table{Name: "t", Columns: []*Column{{Name: "a", Family: FamilyText}, {Name: "b", Family: FamilyText}}}
			sqliteFolds(table, c.statement)
			if a, b := table.Columns[0].folds, table.Columns[1].folds; a != c.a || b != c.b {
				t.Errorf("the collations are %q and %q, want %q and %q", a, b, c.a, c.b)
			}
		})
	}
}

// PostgreSQL and MariaDB take a UUID in several forms.
func TestAUUIDHasOneForm(t *testing.T) {
	t.Parallel()
	const plain = "0190f3a4-5b6c-7d8e-9fab-00000000000a"
	for text, want := range map[string]string{
		plain: plain, "0190F3A4-5B6C-7D8E-9FAB-00000000000A": plain, "{0190f3a45b6c7d8e9fab00000000000a}": plain,
		"": "", "heron": "", "0190f3a4-5b6c-7d8e-9fab-0000000000zz": "",
	} {
		if got := plainUUID(text); got != want {
			t.Errorf("%q is the UUID %q, want %q", text, got, want)
		}
	}
}
