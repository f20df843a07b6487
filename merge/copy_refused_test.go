package merge_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// strangeConn is a connection of pgx by a driver that wraps it, as those do that trace statements. It has no COPY.
type strangeConn struct {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
}

type strangeConnector struct{ driver.Connector }

func (c strangeConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	known := conn.(*stdlib.Conn)
	return strangeConn{known, known, known, known, known, known}, nil
}

// strangeOpener opens PostgreSQL by a driver that the merge does not know.
func strangeOpener(ctx context.Context, dsn string) (*sql.DB, error) {
	if !strings.HasPrefix(dsn, "postgres") {
		return opener(ctx, dsn)
	}
	connector, err := stdlib.GetDefaultDriver().(driver.DriverContext).OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(strangeConnector{connector}), nil
}

func TestARowThatCopyRefusesIsFound(t *testing.T) {
	t.Parallel()
	t.Run("by pgx", func(t *testing.T) { t.Parallel(); findRefused(t) })
	t.Run("by an unknown driver", func(t *testing.T) { t.Parallel(); findRefused(t, merge.WithOpener(strangeOpener)) })
}

func findRefused(t *testing.T, opts ...merge.Option) {
	source, into := newBase(t, dbtest.Targets()[0]), newBase(t, dbtest.Targets()[1])
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn}, Tables: map[string]*merge.TablePlan{}}
	into.exec(t, "CREATE DOMAIN short AS VARCHAR(3)")
	for i, c := range []struct{ column, bad string }{
		{"INTEGER", "2147483648"}, {"SMALLINT", "40000"}, {"VARCHAR(3)", "'four'"}, {"BOOLEAN", "7"},
		{"UUID", "'6ba7b810-9dad-11d1-80b4'"}, {"JSON", "'{'"}, {"NUMERIC(3,1)", "1000"},
		{"CHAR(3)", "'four'"}, {"short", "'four'"},
	} {
		name := fmt.Sprintf("things%d", i)
		schema := "CREATE TABLE " + name + " (id BIGINT NOT NULL PRIMARY KEY, v " + c.column + ")"
		source.exec(t, schema, fmt.Sprintf("INSERT INTO %s VALUES (%s, NULL), (%s, %s), (%s, NULL)", name, id(1, 1), id(1, 2), c.bad,
			id(1, 3)))
		into.exec(t, schema)
		plan.Tables[name] = &merge.TablePlan{Policy: merge.Copy, BadRows: "quarantine"}
	}
	report, err := open(t, plan, opts...).Run(t.Context())
	if err != nil {
		for _, p := range report.Check.Problems {
			t.Log(p)
		}
		t.Fatal(err)
	}
	for name := range plan.Tables {
		rows, aside := into.number(t, "SELECT COUNT(*) FROM "+name), into.number(t, "SELECT COUNT(*) FROM merge_quarantine WHERE tbl = '"+name+"'")
		if rows != 2 || aside != 1 {
			t.Errorf("%s: %d rows, %d aside", name, rows, aside)
		}
	}
}

func TestARowThatIsRefusedEarlyInALargeChunkIsPutAside(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[1]
	source, into := newBase(t, target), newBase(t, target)
	const schema = "CREATE TABLE things (id BIGINT NOT NULL PRIMARY KEY, v INTEGER NOT NULL, w TEXT NOT NULL"
	source.exec(t, schema+")", "INSERT INTO things SELECT n, n, repeat('x', 1000) FROM generate_series(1, 4000) AS n")
	into.exec(t, schema+", CHECK (v <> 3))")
	plan := &merge.Plan{Version: 1, Layout: merge.Layout{Preset: "game"},
		Servers: []merge.Server{{Name: "s1", Number: 1, DSN: source.dsn}},
		Target:  merge.Target{Name: "s1", Number: 1, DSN: into.dsn},
		Tables:  map[string]*merge.TablePlan{"things": {Policy: merge.Copy, BadRows: "quarantine"}}}
	report, err := open(t, plan).Run(t.Context())
	if err != nil {
		for _, p := range report.Check.Problems {
			t.Log(p)
		}
		t.Fatal(err)
	}
	if rows := into.number(t, "SELECT COUNT(*) FROM things"); rows != 3999 || report.Quarantined != 1 {
		t.Errorf("%d rows, %d aside", rows, report.Quarantined)
	}
}
