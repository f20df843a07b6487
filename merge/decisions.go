package merge

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// decisions say what becomes of single rows. A check keeps them in temporary tables, which disappear with the
// connection. A run stores them in permanent tables before it copies anything.
type decisions struct {
	ws        *workspace
	offsets   *keyOffsets
	permanent bool
	// How many decisions there are, by table and server number. Tables without any need no look-ups.
	// differing counts the dropped rows that have other values than those that stay.
	renames, drops, moves, values, differing map[tableServer]int64
}

func newDecisions(ws *workspace, offsets *keyOffsets, permanent bool) *decisions {
	return &decisions{ws: ws, offsets: offsets, permanent: permanent}
}

// name returns the quoted name of a decision table.
func (d *decisions) name(table string) string {
	if !d.permanent {
		table = "tmp_" + table
	}
	return d.ws.target.Kind.Quote(table)
}

// begin makes the temporary tables.
func (d *decisions) begin(ctx context.Context) error {
	*d = *newDecisions(d.ws, d.offsets, false)
	for name, columns := range map[string]string{
		tableRenames: renamesColumns, tableDrops: dropsColumns, tableValues: valuesColumns,
	} {
		t := d.ws.target
		if err := t.Exec(ctx, "DROP "+temporaryWord(t.Kind)+"TABLE IF EXISTS "+d.name(name)); err != nil {
			return err
		}
		if err := t.Exec(ctx, ddl(t.Kind, "tmp_"+name, columns, true)); err != nil {
			return err
		}
	}
	return nil
}

// keep copies the decisions to the permanent tables, in the transaction of the caller.
func (d *decisions) keep(ctx context.Context) error {
	t := d.ws.target
	for _, name := range []string{tableRenames, tableDrops, tableValues} {
		q := sqldb.NewStatement(t.Kind, "INSERT INTO ", t.Kind.Quote(name), " SELECT * FROM ", d.name(name),
			" ORDER BY tbl, server, row_key")
		if name == tableValues {
			q.Add(", col")
		}
		if _, err := t.Run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// count counts the decisions of every table and server.
func (d *decisions) count(ctx context.Context) error {
	if err := d.offsets.find(ctx); err != nil {
		return err
	}
	if err := d.analyze(ctx); err != nil {
		return err
	}
	d.renames, d.drops = map[tableServer]int64{}, map[tableServer]int64{}
	d.moves, d.values = map[tableServer]int64{}, map[tableServer]int64{}
	d.differing = map[tableServer]int64{}
	for _, c := range []struct {
		table, where string
		into         map[tableServer]int64
	}{
		{tableRenames, "", d.renames}, {tableDrops, "", d.drops}, {tableValues, "", d.values},
		{tableDrops, " WHERE row_key <> keeper_key", d.moves}, {tableDrops, " WHERE differs = 1", d.differing},
	} {
		if err := d.counts(ctx, d.name(c.table)+c.where, c.into); err != nil {
			return err
		}
	}
	for of, n := range d.drops {
		if j := d.ws.jobs[of.table]; j != nil && j.plan.Renumber != "" {
			d.moves[of] = n // keys that were equal on two servers are not equal any more
		}
	}
	return nil
}

// counts counts the rows of a list by table and server.
func (d *decisions) counts(ctx context.Context, list string, into map[tableServer]int64) error {
	q := sqldb.NewStatement(d.ws.target.Kind, "SELECT tbl, server, COUNT(*) FROM ",
		list, " GROUP BY tbl, server")
	return d.ws.target.Each(ctx, q, func(values []any) error {
		server, err := strconv.ParseInt(sqldb.Text(values[1]), 10, 64)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(sqldb.Text(values[2]), 10, 64)
		into[tableServer{sqldb.Text(values[0]), server}] = n
		return err
	})
}

// analyze lets PostgreSQL know how many decisions there are. It takes tables that it knows nothing of for
// small ones, and would read a whole table for every batch of a look-up.
func (d *decisions) analyze(ctx context.Context) error {
	if d.ws.target.Kind != sqldb.PostgreSQL {
		return nil
	}
	for _, name := range []string{tableRenames, tableDrops, tableValues} {
		if err := d.ws.target.Exec(ctx, "ANALYZE "+d.name(name)); err != nil {
			return err
		}
	}
	return nil
}

// total sums counts over all tables and servers.
func total(counts map[tableServer]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// newNames looks up the new names of some rows of a table, by their keys.
func (d *decisions) newNames(ctx context.Context, of tableServer, keys []string) (map[string]string, error) {
	names := map[string]string{}
	err := d.lookup(ctx, tableRenames, []string{"new_name"}, of, keys, func(key string, v []string) error {
		names[key] = v[0]
		return nil
	})
	return names, err
}

// lookup reads the decisions about some rows of a table, which are named by their keys. It calls fn with the
// columns that were asked for.
func (d *decisions) lookup(ctx context.Context, table string, columns []string, of tableServer, keys []string,
	fn func(key string, values []string) error) error {
	batch := 1000
	if d.ws.target.Kind == sqldb.PostgreSQL {
		batch = 10_000 // which are bound as one array
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for part := range slices.Chunk(keys, batch) {
		q := sqldb.NewStatement(d.ws.target.Kind, "SELECT row_key, ", strings.Join(columns, ", "), " FROM ",
			d.name(table), " WHERE tbl = ").Bind(of.table).Add(" AND server = ").Bind(of.server).
			Add(" AND row_key")
		q.In(part)
		err := d.ws.target.EachSteady(ctx, q, func(values []any) error {
			texts := make([]string, len(columns))
			for i := range texts {
				texts[i] = sqldb.Text(values[i+1])
			}
			return fn(sqldb.Text(values[0]), texts)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
