package dialect_test

import (
	"slices"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

func TestTheNameWithWhichATextBeginsIsReadInParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind dialect.Kind
		text string
		want []string
	}{
		{dialect.PostgreSQL, `"orders"`, []string{"orders"}},
		{dialect.PostgreSQL, `"shop"."orders"`, []string{"shop", "orders"}},
		{dialect.PostgreSQL, `Shop . Orders AS o`, []string{"shop", "orders"}},
		{dialect.PostgreSQL, `"a.b""c".ünde$1 o`, []string{`a.b"c`, "ünde$1"}},
		{dialect.MySQL, "`Shop`.`a``b`", []string{"Shop", "a`b"}},
		{dialect.MySQL, "Shop.Orders", []string{"Shop", "Orders"}},
		{dialect.SQLite, `[main].[or ders] AS o`, []string{"main", "or ders"}},
		{dialect.SQLite, "`aux`.\"t\"", []string{"aux", "t"}},
		{dialect.SQLite, "(SELECT 1)", nil},
		{dialect.PostgreSQL, `"unclosed`, nil},
		{dialect.PostgreSQL, `shop.`, nil},
		{dialect.PostgreSQL, ``, nil},
		{dialect.PostgreSQL, `""`, nil},
	} {
		if got := c.kind.Parts(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s is %q, want %q", c.kind, c.text, got, c.want)
		}
	}
}

// What is written is read again, and no text makes the reader fail.
func FuzzParts(f *testing.F) {
	f.Add("shop", "orders", " AS o")
	f.Add("a.b", "c`d\"e", ".")
	f.Add("", "]", "[")
	f.Fuzz(func(t *testing.T, schema, table, rest string) {
		for _, kind := range []dialect.Kind{dialect.PostgreSQL, dialect.MySQL, dialect.SQLite} {
			kind.Parts(rest)
			want := []string{schema, table}
			if schema == "" || table == "" {
				want = nil
			}
			if got := kind.Parts(kind.QuoteParts([]string{schema, table}) + " AS " + rest); !slices.Equal(got, want) {
				t.Errorf("%s: %q and %q are read as %q", kind, schema, table, got)
			}
		}
	})
}
