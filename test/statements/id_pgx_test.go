package statements_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/pgxid"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// pgxIDs are the keys of the table for the pgx tests: small, large, and too large for a float.
var pgxIDs = []snowflakeplugin.ID{1, 9007199254740993, 1541815603606036480, maxID}

// The tests of pgx use temporary tables in one database.
func TestPgx(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Named("postgres").DSN(t)
	t.Run("binds and scans an ID", func(t *testing.T) { pgxBindsAndScansAnID(t, dsn) })
	t.Run("keeps NULL apart", func(t *testing.T) { pgxKeepsNULLApart(t, dsn) })
	t.Run("takes slices of IDs", func(t *testing.T) { pgxTakesSlicesOfIDs(t, dsn) })
	t.Run("reads arrays of IDs", func(t *testing.T) { pgxReadsArraysOfIDs(t, dsn) })
	t.Run("copies batches and collects IDs", func(t *testing.T) { pgxCopiesBatchesAndCollectsIDs(t, dsn) })
	t.Run("refuses what is no ID", func(t *testing.T) { pgxRefusesWhatIsNoID(t, dsn) })
}

// eachPgxMode runs fn in every query mode of pgx, with and without pgxid.Register. Each run has its
// own connection.
func eachPgxMode(t *testing.T, dsn string, fn func(t *testing.T, conn *pgx.Conn, m pgxMode)) {
	t.Helper()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol,
	} {
		for _, registered := range []bool{false, true} {
			m := pgxMode{registered: registered, asksServer: mode < pgx.QueryExecModeExec}
			t.Run(fmt.Sprintf("%v, registered %v", mode, registered), func(t *testing.T) {
				config, err := pgx.ParseConfig(dsn)
				if err != nil {
					t.Fatal("the DSN of the target does not parse")
				}
				config.DefaultQueryExecMode = mode
				conn, err := pgx.ConnectConfig(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close(context.Background()) })
				if registered {
					pgxid.Register(conn.TypeMap())
				}
				mustExec(t, conn, `CREATE TEMPORARY TABLE rows (
					id bigint PRIMARY KEY, parent bigint, related bigint[], name text NOT NULL,
					exact numeric(20, 0), small int, label text, real double precision)`)
				fn(t, conn, m)
			})
		}
	}
}

type pgxMode struct {
	registered bool
	asksServer bool // asks the server for the types of the arguments
}

// slices reports whether pgx can pass a slice of IDs as an argument.
func (m pgxMode) slices() bool { return m.registered || m.asksServer }

func mustExec(t *testing.T, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// insertRows fills the table. The parent of each row is the previous row, and that of the first is
// NULL.
func insertRows(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	var parent *snowflakeplugin.ID
	for i, id := range pgxIDs {
		mustExec(t, conn, `INSERT INTO rows (id, parent, name, exact, label) VALUES ($1, $2, $3, $4, $5)`,
			id, parent, fmt.Sprint("row ", i), id, id.String())
		parent = &pgxIDs[i]
	}
}

func pgxBindsAndScansAnID(t *testing.T, dsn string) {
	eachPgxMode(t, dsn, func(t *testing.T, conn *pgx.Conn, _ pgxMode) {
		insertRows(t, conn)
		for _, id := range pgxIDs {
			var got, exact, label snowflakeplugin.ID
			var text string
			err := conn.QueryRow(t.Context(),
				`SELECT id, exact, label, id::text FROM rows WHERE id = $1`, id,
			).Scan(&got, &exact, &label, &text)
			if err != nil || got != id || exact != id || label != id || text != id.String() {
				t.Errorf("%d came back as %d, %d, %d, %q, %v", id, got, exact, label, text, err)
			}
		}
		var zero snowflakeplugin.ID = 5
		err := conn.QueryRow(t.Context(), `SELECT $1::bigint`, snowflakeplugin.ID(0)).Scan(&zero)
		if err != nil || zero != 0 {
			t.Errorf("zero came back as %d, %v", zero, err)
		}
	})
}

func pgxKeepsNULLApart(t *testing.T, dsn string) {
	eachPgxMode(t, dsn, func(t *testing.T, conn *pgx.Conn, _ pgxMode) {
		insertRows(t, conn)
		const query = `SELECT parent, parent FROM rows WHERE id = $1`
		for i, id := range pgxIDs {
			var pointer *snowflakeplugin.ID
			var null sql.Null[snowflakeplugin.ID]
			if err := conn.QueryRow(t.Context(), query, id).Scan(&pointer, &null); err != nil {
				t.Fatal(err)
			}
			if i == 0 && (pointer != nil || null.Valid) {
				t.Errorf("NULL came back as %v, %v", pointer, null)
			}
			if i > 0 && (pointer == nil || *pointer != pgxIDs[i-1] || null.V != pgxIDs[i-1]) {
				t.Errorf("%d came back as %v, %v", pgxIDs[i-1], pointer, null)
			}
		}
		id, other := snowflakeplugin.ID(42), snowflakeplugin.ID(43)
		err := conn.QueryRow(t.Context(), query, pgxIDs[0]).Scan(&id, &other)
		wantInvalid(t, err, "NULL: read it into a *ID or sql.Null[ID]")
		if id != 42 {
			t.Errorf("NULL changed the receiver to %d", id)
		}
		// NULL can also be an argument.
		for _, null := range []any{
			(*snowflakeplugin.ID)(nil), sql.Null[snowflakeplugin.ID]{},
		} {
			var isNull bool
			err := conn.QueryRow(t.Context(), `SELECT $1::bigint IS NULL`, null).Scan(&isNull)
			if err != nil || !isNull {
				t.Errorf("%T is NULL: %v, %v", null, isNull, err)
			}
		}
		var got snowflakeplugin.ID
		for _, set := range []any{&id, sql.Null[snowflakeplugin.ID]{V: 42, Valid: true}} {
			err := conn.QueryRow(t.Context(), `SELECT $1::bigint`, set).Scan(&got)
			if err != nil || got != 42 {
				t.Errorf("%T came back as %d, %v", set, got, err)
			}
		}
	})
}

func pgxTakesSlicesOfIDs(t *testing.T, dsn string) {
	eachPgxMode(t, dsn, func(t *testing.T, conn *pgx.Conn, m pgxMode) {
		insertRows(t, conn)
		query := func(ids any) ([]snowflakeplugin.ID, error) {
			rows, err := conn.Query(t.Context(),
				`SELECT id FROM rows WHERE id = ANY($1) ORDER BY id DESC`, ids)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[snowflakeplugin.ID])
		}
		got, err := query([]snowflakeplugin.ID{pgxIDs[3], 5, pgxIDs[1]})
		if !m.slices() {
			// Register exists for this case. If this begins to work, its documentation can be
			// shortened.
			if err == nil {
				t.Error("pgx takes a []ID without registration")
			}
			return
		}
		if want := []snowflakeplugin.ID{pgxIDs[3], pgxIDs[1]}; err != nil || !slices.Equal(got, want) {
			t.Errorf("= ANY($1) found %v, %v; want %v", got, err, want)
		}
		if got, err := query([]snowflakeplugin.ID{}); err != nil || len(got) != 0 {
			t.Errorf("= ANY of nothing found %v, %v", got, err)
		}
		if got, err := query([]snowflakeplugin.ID(nil)); err != nil || len(got) != 0 {
			t.Errorf("= ANY of NULL found %v, %v", got, err)
		}
		if got, err := query([]*snowflakeplugin.ID{&pgxIDs[1], nil}); err != nil || len(got) != 1 {
			t.Errorf("= ANY of pointers found %v, %v", got, err)
		}
		_, err = query([]snowflakeplugin.ID{-1})
		wantInvalid(t, err, "never negative")
	})
}

func pgxReadsArraysOfIDs(t *testing.T, dsn string) {
	eachPgxMode(t, dsn, func(t *testing.T, conn *pgx.Conn, m pgxMode) {
		insertRows(t, conn)
		var all []snowflakeplugin.ID
		err := conn.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY id) FROM rows`).Scan(&all)
		if err != nil || !slices.Equal(all, pgxIDs) {
			t.Errorf("an array came back as %v, %v", all, err)
		}
		var parents []*snowflakeplugin.ID
		err = conn.QueryRow(t.Context(), `SELECT array_agg(parent ORDER BY id) FROM rows`).
			Scan(&parents)
		if err != nil || len(parents) != len(pgxIDs) || parents[0] != nil || *parents[1] != 1 {
			t.Errorf("an array with NULL came back as %v, %v", parents, err)
		}
		kept := []snowflakeplugin.ID{42}
		err = conn.QueryRow(t.Context(), `SELECT array_agg(parent ORDER BY id) FROM rows`).Scan(&kept)
		wantInvalid(t, err, "NULL")
		if !m.slices() {
			return
		}
		mustExec(t, conn, `UPDATE rows SET related = $1 WHERE id = 1`, pgxIDs)
		err = conn.QueryRow(t.Context(), `SELECT related FROM rows WHERE id = 1`).Scan(&all)
		if err != nil || !slices.Equal(all, pgxIDs) {
			t.Errorf("a stored array came back as %v, %v", all, err)
		}
	})
}

func pgxCopiesBatchesAndCollectsIDs(t *testing.T, dsn string) {
	eachPgxMode(t, dsn, func(t *testing.T, conn *pgx.Conn, m pgxMode) {
		type row struct {
			ID      snowflakeplugin.ID
			Parent  *snowflakeplugin.ID
			Related []snowflakeplugin.ID
			Name    string
		}
		want := make([]row, len(pgxIDs))
		for i, id := range pgxIDs {
			want[i] = row{ID: id, Name: fmt.Sprint(i), Related: pgxIDs[:i]}
			if i > 0 {
				want[i].Parent = &pgxIDs[i-1]
			}
		}
		n, err := conn.CopyFrom(t.Context(), pgx.Identifier{"rows"},
			[]string{"id", "parent", "related", "name"},
			pgx.CopyFromSlice(len(want), func(i int) ([]any, error) {
				return []any{want[i].ID, want[i].Parent, want[i].Related, want[i].Name}, nil
			}))
		if err != nil || n != int64(len(want)) {
			t.Fatalf("CopyFrom wrote %d rows, %v", n, err)
		}
		rows, err := conn.Query(t.Context(), `SELECT id, parent, related, name FROM rows ORDER BY id`)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
		if err != nil || len(got) != len(want) {
			t.Fatalf("collected %v, %v", got, err)
		}
		for i, g := range got {
			if w := want[i]; g.ID != w.ID || g.Name != w.Name ||
				(g.Parent == nil) != (w.Parent == nil) ||
				(g.Parent != nil && *g.Parent != *w.Parent) || !slices.Equal(g.Related, w.Related) {
				t.Errorf("row %d came back as %+v, want %+v", i, g, w)
			}
		}

		var batch pgx.Batch
		var names []string
		for _, id := range pgxIDs {
			batch.Queue(`SELECT name FROM rows WHERE id = $1`, id).QueryRow(func(r pgx.Row) error {
				var name string
				err := r.Scan(&name)
				names = append(names, name)
				return err
			})
		}
		if m.slices() {
			batch.Queue(`SELECT count(*)::text FROM rows WHERE id = ANY($1)`, pgxIDs).
				QueryRow(func(r pgx.Row) error {
					var count string
					err := r.Scan(&count)
					names = append(names, count)
					return err
				})
		}
		if err := conn.SendBatch(t.Context(), &batch).Close(); err != nil {
			t.Fatal(err)
		}
		if expect := []string{"0", "1", "2", "3", "4"}[:batch.Len()]; !slices.Equal(names, expect) {
			t.Errorf("the batch answered %v, want %v", names, expect)
		}
	})
}

func pgxRefusesWhatIsNoID(t *testing.T, dsn string) {
	eachPgxMode(t, dsn, func(t *testing.T, conn *pgx.Conn, _ pgxMode) {
		for query, why := range map[string]string{
			`SELECT (-1)::bigint`:                          "", // "never negative", or "a sign"
			`SELECT (-1)::int`:                             "",
			`SELECT 9223372036854775808::numeric`:          "largest id",
			`SELECT 1.5::numeric`:                          `"." at offset 1`,
			`SELECT '12x'::text`:                           `"x" at offset 2`,
			`SELECT 7000000000000000001::double precision`: "",
			`SELECT true`:                                  "",
			`SELECT now()`:                                 "",
			`SELECT NULL::bigint`:                          "NULL",
			`SELECT NULL::text`:                            "NULL",
		} {
			id := snowflakeplugin.ID(42)
			err := conn.QueryRow(t.Context(), query).Scan(&id)
			wantInvalid(t, err, why)
			if id != 42 {
				t.Errorf("%s changed the receiver to %d", query, id)
			}
		}
		var got snowflakeplugin.ID
		err := conn.QueryRow(t.Context(), `SELECT $1::bigint`, snowflakeplugin.ID(-1)).Scan(&got)
		wantInvalid(t, err, "-1: ids are never negative")
		err = conn.QueryRow(t.Context(), `SELECT 7::int`).Scan(&got)
		if err != nil || got != 7 {
			t.Errorf("an int came back as %d, %v", got, err)
		}
		// The connection still works.
		if err := conn.QueryRow(t.Context(), `SELECT 8::bigint`).Scan(&got); err != nil || got != 8 {
			t.Errorf("after the errors: %d, %v", got, err)
		}
	})
}
