package merge

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// Renames calls fn for every row that got another name, in the order of table, server and key: for
// mails and rename cards. They are in the table merge_renames as well.
func (m *Merge) Renames(ctx context.Context, fn func(Renamed) error) error {
	for _, w := range m.order {
		err := m.renamesOf(ctx, w.name, func(batch []Renamed) error {
			for _, r := range batch {
				if err := fn(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// renamesOf reads the renames of a table in batches.
func (m *Merge) renamesOf(ctx context.Context, table string, fn func(batch []Renamed) error) error {
	t := m.target
	lastServer, lastKey := int64(-1), ""
	for {
		var batch []Renamed
		q := newStatement(t.kind, "SELECT server, row_key, col, old_name, new_name FROM ",
			t.kind.quote(tableRenames),
			" WHERE tbl = ").bind(table).add(" AND (server > ").bind(lastServer).add(" OR server = ").
			bind(lastServer).
			add(" AND row_key > ").bind(lastKey).add(") ORDER BY server, row_key LIMIT 500")
		err := t.each(ctx, q, func(values []any) error {
			server, err := strconv.ParseInt(textOf(values[0]), 10, 64)
			batch = append(batch, Renamed{Table: table, Server: server, Key: textOf(values[1]),
				Column:  textOf(values[2]),
				OldName: textOf(values[3]), NewName: textOf(values[4])})
			return err
		})
		if err != nil || len(batch) == 0 {
			return err
		}
		lastServer, lastKey = batch[len(batch)-1].Server, batch[len(batch)-1].Key
		if err := fn(batch); err != nil {
			return err
		}
	}
}

// WriteRenames writes the list of renames as CSV, with a heading.
func (m *Merge) WriteRenames(ctx context.Context, to io.Writer) error {
	w := csv.NewWriter(to)
	if err := w.Write([]string{"table", "column", "server", "key", "old_name", "new_name"}); err != nil {
		return fmt.Errorf("merge: the list of renames cannot be written: %w", err)
	}
	err := m.Renames(ctx, func(r Renamed) error {
		return w.Write([]string{r.Table, r.Column, strconv.FormatInt(r.Server, 10), r.Key, r.OldName, r.NewName})
	})
	if err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

// Servers returns where every old server is now: for login servers and statistics. It is in the table
// merge_servers as well.
func (m *Merge) Servers() []MergedServer { return m.mergedServers() }

// WriteServers writes the list of servers as CSV, with a heading.
func (m *Merge) WriteServers(to io.Writer) error {
	w := csv.NewWriter(to)
	rows := [][]string{{"number", "name", "merged_into", "target"}}
	for _, s := range m.mergedServers() {
		rows = append(rows, []string{strconv.FormatInt(s.Number, 10), s.Name, strconv.FormatInt(s.MergedInto,
			10), s.Target})
	}
	return w.WriteAll(rows)
}
