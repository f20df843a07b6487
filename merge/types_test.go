package merge_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// typed is a table with a column of every type that games use, in the words of each database.
func typed(target dbtest.Target) string {
	return "CREATE TABLE typed (id BIGINT NOT NULL PRIMARY KEY, " + map[string]string{
		"sqlite": "big BIGINT, small INTEGER, yes BOOLEAN, ratio DOUBLE, price DECIMAL(12,4), word VARCHAR(40), " +
			"story TEXT, raw BLOB, at DATETIME, day DATE, props JSON, ref UUID",
		"mysql": "big BIGINT, small INT, yes TINYINT(1), ratio DOUBLE, price DECIMAL(12,4), word VARCHAR(40), " +
			"story LONGTEXT, raw LONGBLOB, at DATETIME(6), day DATE, props JSON, ref CHAR(36)",
		"postgres": "big BIGINT, small INTEGER, yes BOOLEAN, ratio DOUBLE PRECISION, price NUMERIC(12,4), word VARCHAR(40), " +
			"story TEXT, raw BYTEA, at TIMESTAMPTZ, day DATE, props JSONB, ref UUID",
	}[target.Dialect] + ")"
}

// typedRows are rows with what is hard to carry over.
func typedRows(target dbtest.Target, server int) []string {
	blob, yes, at, text := "X'%s'", "1", "'2025-06-07 08:09:10.123456'", `'tab	line
	back\\slash \\N "quoted" ''single'' 龍😀'`
	switch target.Dialect {
	case "postgres":
		blob, yes, at = `'\x%s'`, "TRUE", "'2025-06-07 11:09:10.123456+03'"
		text = strings.ReplaceAll(text, `\\`, `\`)
	case "sqlite":
		at = "'2025-06-07 11:09:10.123456+03:00'"
		text = strings.ReplaceAll(text, `\\`, `\`)
	}
	return []string{
		fmt.Sprintf("INSERT INTO typed VALUES (%s, 9223372036854775807, -2147483648, %s, 0.1, 12345678.9, 'Zoé  ', %s, "+
			"%s, %s, '2024-02-29', '{\"b\":1,\"a\":[1.50,\"x\"]}', '6ba7b810-9dad-11d1-80b4-00c04fd430c8')",
			id(server, 1), yes, text, fmt.Sprintf(blob, "00ff5c0a09"), at),
		fmt.Sprintf("INSERT INTO typed VALUES (%s, -9223372036854775808, 0, NULL, 1e300, 0, '', '', %s, "+
			"'1999-12-31 23:59:59', NULL, '[]', NULL)", id(server, 2), fmt.Sprintf(blob, "")),
		fmt.Sprintf("INSERT INTO typed (id) VALUES (%s)", id(server, 3)),
	}
}

// oddOpener opens sessions as a login, the settings of a server, or the DSN of an old program may have them.
func oddOpener(ctx context.Context, dsn string) (*sql.DB, error) {
	var params url.Values
	switch {
	case strings.HasPrefix(dsn, "postgres"):
		params = url.Values{"extra_float_digits": {"-15"}, "array_nulls": {"off"}, "DateStyle": {"SQL,DMY"}}
	case strings.Contains(dsn, "@"):
		params = url.Values{"parseTime": {"true"}, "loc": {"Asia/Shanghai"}, "character_set_client": {"utf8mb3"},
			"character_set_connection": {"utf8mb3"}, "character_set_results": {"utf8mb3"}, "sql_select_limit": {"7"},
			"sql_safe_updates": {"1"}, "sql_auto_is_null": {"1"}}
	default:
		return opener(ctx, dsn)
	}
	return opener(ctx, dsn+map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")]+params.Encode())
}

func TestValuesOfAllTypesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, pair := range kindPairs(t.Name()) {
		from, to := pair.from, pair.to
		for _, way := range []string{"", " portable", " by odd sessions"} {
			t.Run(from.Name+" to "+to.Name+way, func(t *testing.T) {
				t.Parallel()
				source, into := newBase(t, from), newBase(t, to)
				source.exec(t, append([]string{typed(from)}, typedRows(from, 1)...)...)
				into.exec(t, typed(to))
				plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
					Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
					Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn},
					Tables:  map[string]*merge.TablePlan{"typed": {Policy: merge.Copy}}}
				var opts []merge.Option
				switch way {
				case " portable":
					opts = append(opts, merge.WithPortableCopy())
				case " by odd sessions":
					opts = append(opts, merge.WithPortableCopy(), merge.WithOpener(oddOpener))
				}
				run(t, open(t, plan, opts...))
				// Read back as any program would, the target is as if the rows had been written there.
				direct := newBase(t, to)
				direct.exec(t, append([]string{typed(to)}, typedRows(to, 1)...)...)
				if to.Name == from.Name {
					same(t, "the target", into.dumpOf(t, "typed"), source.dumpOf(t, "typed"))
				}
				for _, question := range []string{
					"SELECT COUNT(*) FROM typed WHERE big = 9223372036854775807 AND small = -2147483648 AND ratio = 0.1",
					"SELECT COUNT(*) FROM typed WHERE price = 12345678.9 AND yes = " + map[bool]string{true: "TRUE", false: "1"}[to.Dialect == "postgres"],
					"SELECT COUNT(*) FROM typed WHERE day = '2024-02-29' AND ref = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
					"SELECT COUNT(*) FROM typed WHERE big = -9223372036854775808 AND story = '' AND yes IS NULL AND day IS NULL",
					"SELECT COUNT(*) FROM typed WHERE big IS NULL AND raw IS NULL AND at IS NULL AND props IS NULL",
					"SELECT COUNT(*) FROM typed WHERE story LIKE '%龍😀' AND word = 'Zoé  '",
				} {
					if n := into.number(t, question); n != 1 {
						t.Errorf("%s: %d", question, n)
					}
				}
				for _, column := range []string{"story", "word"} {
					query := "SELECT COALESCE(" + column + ", '-') FROM typed ORDER BY id"
					same(t, column, into.texts(t, query), direct.texts(t, query))
				}
				for _, column := range []string{"raw", "at"} {
					query := "SELECT " + column + " FROM typed ORDER BY id"
					if to.Name != "sqlite" || column != "at" {
						same(t, column, into.values(t, query), direct.values(t, query))
					}
				}
			})
		}
	}
}

// values reads one column as the driver has it.
func (b base) values(t testing.TB, query string) (all []string) {
	t.Helper()
	rows, err := b.Raw(query).Rows()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var v any
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%v", v))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestKeysOfAllSortsAreGoneThroughInChunks(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		blob, bytes := "BLOB", "X'%02x'"
		switch target.Dialect {
		case "mysql":
			blob = "VARBINARY(8)"
		case "postgres":
			blob, bytes = "BYTEA", `'\x%02x'`
		}
		schema := []string{
			"CREATE TABLE pairs (a BIGINT NOT NULL, b VARCHAR(10) NOT NULL, PRIMARY KEY (a, b))",
			"CREATE TABLE texts (k VARCHAR(20) NOT NULL PRIMARY KEY)",
			"CREATE TABLE raws (k " + blob + " NOT NULL PRIMARY KEY)",
			"CREATE TABLE keyless (n INTEGER, w VARCHAR(10))",
			"CREATE TABLE \"order\" (\"select\" BIGINT NOT NULL PRIMARY KEY, \"from\" VARCHAR(9))",
		}
		var rows [2][]string
		for i := range rows {
			for n := range 23 {
				rows[i] = append(rows[i],
					fmt.Sprintf("INSERT INTO pairs VALUES (%s, '%c')", id(i+1, n/5), 'a'+n%5),
					fmt.Sprintf("INSERT INTO texts VALUES ('%d-%d %c''')", i, n*7%23, "aAéZ"[n%4]&0x7f),
					fmt.Sprintf("INSERT INTO raws VALUES ("+bytes+")", n*10%256+i),
					fmt.Sprintf("INSERT INTO keyless VALUES (%d, %s)", n/3, map[bool]string{true: "NULL", false: "'x'"}[n%2 == 0]),
					fmt.Sprintf("INSERT INTO \"order\" VALUES (%s, 'q')", id(i+1, n)))
			}
		}
		if target.Dialect == "mysql" {
			for _, list := range [][]string{schema, rows[0], rows[1]} {
				for i := range list {
					list[i] = strings.ReplaceAll(list[i], `"`, "`")
				}
			}
		}
		tables := map[string]*merge.TablePlan{}
		for _, name := range []string{"pairs", "texts", "raws", "keyless", "order"} {
			tables[name] = &merge.TablePlan{Policy: merge.Copy}
		}
		_, into, plan := small(t, target, schema, tables, rows[0], rows[1])
		for i, opts := range [][]merge.Option{{merge.WithChunk(4)}, {merge.WithChunk(4), merge.WithPortableCopy()}, {merge.WithChunk(23)}} {
			if i > 0 {
				into = newBase(t, target)
				into.exec(t, schema...)
				plan.Target.DSN = into.dsn
			}
			run(t, open(t, plan, opts...))
			for name := range tables {
				if n := int64(len(into.dumpOf(t, name))); n != 46 {
					t.Errorf("%s has %d rows", name, n)
				}
			}
		}
	})
}

// nilConn is a connection of SQLite by a driver that returns an empty slice as nil, as those without cgo do.
type nilConn struct{ contextConn }

type contextConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type nilRows struct{ driver.Rows }

func (c nilConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.contextConn.QueryContext(ctx, query, args)
	return nilRows{rows}, err
}

func (r nilRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	for i, v := range dest {
		if b, ok := v.([]byte); ok && len(b) == 0 {
			dest[i] = []byte(nil)
		}
	}
	return err
}

// nilConnector makes such connections.
type nilConnector struct {
	driver driver.Driver
	dsn    string
}

func (c nilConnector) Driver() driver.Driver { return c.driver }

func (c nilConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return nilConn{conn.(contextConn)}, nil
}

func TestEmptyBytesAreNotNULLWhateverTheDriverReturnsForThem(t *testing.T) {
	t.Parallel()
	target := dbtest.ServersOf("sqlite")[0]
	source, into := newBase(t, target), newBase(t, target)
	const schema = "CREATE TABLE things (id BIGINT NOT NULL PRIMARY KEY, v BLOB)"
	source.exec(t, schema, fmt.Sprintf("INSERT INTO things VALUES (%s, X''), (%s, NULL), (%s, X'00')", id(1, 1), id(1, 2), id(1, 3)))
	into.exec(t, schema)
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn},
		Tables:  map[string]*merge.TablePlan{"things": {Policy: merge.Copy}}}
	byRows := []merge.Option{merge.WithPortableCopy(), merge.WithOpener(func(_ context.Context, dsn string) (*sql.DB, error) {
		db, err := sql.Open("sqlite3", dsn)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(nilConnector{db.Driver(), dsn}), db.Close()
	})}
	run(t, open(t, plan, byRows...))
	const question = "SELECT quote(v) FROM things ORDER BY id"
	same(t, "the values", into.texts(t, question), source.texts(t, question))
	into.exec(t, "UPDATE things SET v = NULL WHERE v = X''")
	if v, err := open(t, plan, byRows...).Verify(t.Context()); err != nil || v.OK {
		t.Errorf("verify does not see that an empty value is NULL by now: %v, %v", v, err)
	}
}
