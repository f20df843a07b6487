package merge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// decisions are what becomes of single rows. A check keeps them in temporary tables, which end with the
// connection; a run makes them permanent before it copies anything.
type decisions struct {
	m         *Merge
	permanent bool
	// How many there are, by table and number of the server. Where there are none, nobody has to look.
	renames, drops, moves, values map[tableServer]int64
}

type tableServer struct {
	table  string
	server int64
}

// name is that of one of the decision tables, quoted.
func (d *decisions) name(table string) string {
	if !d.permanent {
		table = "tmp_" + table
	}
	return d.m.target.kind.quote(table)
}

// ddl makes a table of the merge.
func (m *Merge) ddl(name, columns string, temporary bool) string {
	text, suffix := "CREATE TABLE IF NOT EXISTS ", ""
	if temporary {
		text = "CREATE TEMPORARY TABLE "
	}
	if m.target.kind == MySQL {
		suffix = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
	}
	return text + m.target.kind.quote(name) + " (" + columns + ")" + suffix
}

// The columns of the decision tables; they are the same on all databases. A key is at most as long as
// MySQL can index beside the rest.
const (
	renamesColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(512) NOT NULL, " +
		"col VARCHAR(64) NOT NULL, old_name VARCHAR(2000) NOT NULL, new_name VARCHAR(2000) NOT NULL, " +
		"PRIMARY KEY (tbl, server, row_key)"
	dropsColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(512) NOT NULL, " +
		"keeper_server BIGINT NOT NULL, keeper_key VARCHAR(512) NOT NULL, reason VARCHAR(200) NOT NULL, " +
		"PRIMARY KEY (tbl, server, row_key)"
	valuesColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(448) NOT NULL, " +
		"col VARCHAR(64) NOT NULL, value VARCHAR(2000), PRIMARY KEY (tbl, server, row_key, col)"
)

// begin makes the temporary tables.
func (d *decisions) begin(ctx context.Context) error {
	*d = decisions{m: d.m}
	for name, columns := range map[string]string{
		tableRenames: renamesColumns, tableDrops: dropsColumns, tableValues: valuesColumns,
	} {
		t := d.m.target
		if err := t.exec(ctx, "DROP "+temporaryWord(t.kind)+"TABLE IF EXISTS "+d.name(name)); err != nil {
			return err
		}
		if err := t.exec(ctx, d.m.ddl("tmp_"+name, columns, true)); err != nil {
			return err
		}
	}
	return nil
}

// temporaryWord makes sure that on MySQL no other table is meant, and that no transaction ends.
func temporaryWord(k Kind) string {
	if k == MySQL {
		return "TEMPORARY "
	}
	return ""
}

// keep copies the decisions into the permanent tables; it is part of the transaction of the caller.
func (d *decisions) keep(ctx context.Context) error {
	t := d.m.target
	for _, name := range []string{tableRenames, tableDrops, tableValues} {
		q := newStatement(t.kind, "INSERT INTO ", t.kind.quote(name), " SELECT * FROM ", d.name(name),
			" ORDER BY tbl, server, row_key")
		if name == tableValues {
			q.add(", col")
		}
		if _, err := t.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// count finds out where there are decisions.
func (d *decisions) count(ctx context.Context) error {
	if err := d.m.findOffsets(ctx); err != nil {
		return err
	}
	d.renames, d.drops = map[tableServer]int64{}, map[tableServer]int64{}
	d.moves, d.values = map[tableServer]int64{}, map[tableServer]int64{}
	for _, c := range []struct {
		table, where string
		into         map[tableServer]int64
	}{
		{tableRenames, "", d.renames}, {tableDrops, "", d.drops}, {tableValues, "", d.values},
		{tableDrops, " WHERE row_key <> keeper_key", d.moves},
	} {
		err := d.m.target.each(ctx, newStatement(d.m.target.kind, "SELECT tbl, server, COUNT(*) FROM ",
			d.name(c.table), c.where, " GROUP BY tbl, server"), func(values []any) error {
			server, err := strconv.ParseInt(textOf(values[1]), 10, 64)
			if err != nil {
				return err
			}
			n, err := strconv.ParseInt(textOf(values[2]), 10, 64)
			c.into[tableServer{textOf(values[0]), server}] = n
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// total sums up over tables and servers.
func total(counts map[tableServer]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// touches tells whether rows of a feed may arrive other than they are.
func (d *decisions) touches(f *feed) bool {
	number := d.m.servers[f.server].Number
	own := tableServer{f.work.name, number}
	if f.work.plan.Policy == Custom || d.renames[own]+d.drops[own]+d.values[own] > 0 {
		return true
	}
	if d.m.renumbered(f) {
		return true
	}
	for _, ref := range f.work.refs {
		if d.moves[tableServer{ref.parent, number}] > 0 {
			return true
		}
	}
	return len(d.copiesInto(f)) > 0
}

// lookup reads decisions about the rows of a table that the keys name.
func (d *decisions) lookup(
	ctx context.Context, table, column string, of tableServer, keys []string, fn func(key, column,
		value string),
) error {
	const batch = 500
	slices.Sort(keys)
	keys = slices.Compact(keys)
	col := "''"
	if table == tableValues {
		col = "col"
	}
	for len(keys) > 0 {
		n := min(batch, len(keys))
		q := newStatement(d.m.target.kind, "SELECT row_key, ", col, ", ", column, " FROM ", d.name(table),
			" WHERE tbl = ").bind(of.table).add(" AND server = ").bind(of.server).add(" AND row_key IN (")
		for i, key := range keys[:n] {
			if i > 0 {
				q.add(", ")
			}
			q.bind(key)
		}
		err := d.m.target.each(ctx, q.add(")"), func(values []any) error {
			fn(textOf(values[0]), textOf(values[1]), textOf(values[2]))
			return nil
		})
		if err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// keyValue makes the value of a column again of a key that keyText wrote.
func keyValue(text string, to *column) (any, error) {
	parts, err := keyParts(text)
	if err != nil || len(parts) != 1 {
		return nil, fmt.Errorf("the key %s is not of one column", text)
	}
	return canonical(parts[0], to, false)
}
