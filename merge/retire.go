package merge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// nodesTable is where the package gormlease keeps who may use which node number.
const nodesTable = "snowflake_nodes"

// never is later than any window of time that somebody could ask for.
const never = "9999-12-31T00:00:00.000000000Z"

// retiredOwner begins the owner of a number that is retired.
const retiredOwner = "merged into "

// Retired reports whether a record of the table of nodes, of which package lease tells, is that of a server
// that was merged into another: its IDs are in the tables of that one, so nobody may get its number again.
func Retired(owner string, until time.Time) bool {
	return strings.HasPrefix(owner, retiredOwner) && until.UTC().Year() == 9999
}

// nodeRecord is a row of the table of nodes.
type nodeRecord struct {
	node, version                   int64
	owner, until, layout, updatedAt string
}

// retire makes sure that no number of a server that is merged away is ever granted again, if the target has a
// table of nodes: whoever leases one finds it held for ever. The number that the target goes on with stays
// granted for as long as it was.
func (m *Merge) retire(ctx context.Context) error {
	nodes := m.target.tables[nodesTable]
	if nodes == nil || m.policy(nodesTable) != Skip {
		return nil
	}
	for _, name := range []string{"node", "owner", "until", "version", "layout", "updated_at"} {
		if nodes.column(name) == nil {
			return nil // it is something else that has this name
		}
	}
	records := map[int64]nodeRecord{}
	layout, updated := "", ""
	for _, d := range m.databases() {
		if d.tables[nodesTable] == nil {
			continue
		}
		rows, err := d.strings(ctx, newStatement(d.kind,
			"SELECT node, version, owner, until, layout, updated_at FROM ",
			d.kind.quote(nodesTable), " ORDER BY node"))
		if err != nil {
			return fmt.Errorf("the nodes cannot be read: %w", err)
		}
		for _, row := range rows {
			var r nodeRecord
			if _, err := fmt.Sscan(row[0]+" "+row[1], &r.node, &r.version); err != nil {
				return fmt.Errorf("the nodes of %s cannot be read: %w", d.name, err)
			}
			r.owner, r.until, r.layout, r.updatedAt = row[2], row[3], row[4], row[5]
			layout, updated = r.layout, max(updated, r.updatedAt)
			if known, ok := records[r.node]; !ok || known.until < r.until {
				r.version = max(r.version, known.version)
				records[r.node] = r
			}
		}
	}
	if layout == "" {
		return nil // nobody leases numbers, so they are given by hand: see merge_servers
	}
	for _, s := range m.servers {
		for _, number := range s.numbers {
			if number == m.plan.Target.Number {
				continue
			}
			old := records[number]
			r := nodeRecord{node: number, version: max(old.version, 1), until: never, layout: layout,
				updatedAt: updated,
				owner:     fmt.Sprintf(retiredOwner+"%s (%d)", m.plan.Target.Name, m.plan.Target.Number)}
			if old.owner != r.owner {
				r.version++
			}
			records[number] = r
		}
	}
	return m.writeNodes(ctx, records)
}

func (m *Merge) writeNodes(ctx context.Context, records map[int64]nodeRecord) error {
	t := m.target
	return t.transaction(ctx, func() error {
		for _, node := range slices.Sorted(maps.Keys(records)) {
			r := records[node]
			q := newStatement(t.kind, "DELETE FROM ", t.kind.quote(nodesTable), " WHERE node = ").bind(node)
			if _, err := t.run(ctx, q); err != nil {
				return err
			}
			q = newStatement(t.kind, "INSERT INTO ", t.kind.quote(nodesTable), " (",
				t.kind.list([]string{"node", "owner", "until", "version", "layout", "updated_at"}), ") VALUES (").
				bindList(r.node, r.owner, r.until, r.version, r.layout, r.updatedAt).add(")")
			if _, err := t.run(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
}

// resetSequences lets counters of PostgreSQL go on behind the greatest key; other databases do that by
// themselves.
func (m *Merge) resetSequences(ctx context.Context) error {
	if m.target.kind != PostgreSQL {
		return nil
	}
	for _, w := range m.order {
		for _, c := range w.to.columns {
			if c.family != familyInt || !c.fallback {
				continue
			}
			q := newStatement(PostgreSQL, "SELECT setval(s, greatest((SELECT MAX(", PostgreSQL.quote(c.name),
				") FROM ",
				PostgreSQL.quote(w.name), "), 1)) FROM pg_get_serial_sequence(").bind(PostgreSQL.quote(w.name)).
				add("::text, ").
				bind(c.name).add("::text) AS s WHERE s IS NOT NULL")
			if _, err := m.target.run(ctx, q); err != nil {
				return err
			}
		}
	}
	return nil
}
