package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// leaseTime is how package gormlease writes times.
const leaseTime = "2006-01-02T15:04:05.000000000Z"

// leaseColumns returns the columns of a table of leases, as package gormlease makes it.
func leaseColumns() []string {
	return []string{"node", "owner", "until", "version", "layout", "updated_at"}
}

// holdsLeases reports whether a table has the shape of a table of leases. Its name says nothing: gormlease
// takes any name and adds the prefix of the naming strategy.
func holdsLeases(t *sqldb.Table) bool {
	other := func(name string) bool {
		c := t.Column(name)
		if c == nil || name == "node" || name == "version" {
			return c == nil || c.Family != sqldb.FamilyInt
		}
		return c.Family != sqldb.FamilyText && c.Family != sqldb.FamilyBytes // MySQL has them as VARBINARY
	}
	return t != nil && slices.Equal(t.Primary, []string{"node"}) && !slices.ContainsFunc(leaseColumns(), other)
}

// leaseTables returns the names of the tables of leases of a database.
func leaseTables(d *sqldb.DB) []string {
	var names []string
	for name, t := range sorted(d.Tables) {
		if holdsLeases(t) {
			names = append(names, name)
		}
	}
	return names
}

// leaseProblems reports what keeps the node numbers of merged servers from being retired, and what should be
// known about it.
func leaseProblems(ws *workspace, report *CheckReport) {
	target := ws.target
	refuse := func(server, table, message, remedy string) {
		report.problem(Problem{Code: CodeLeases, Server: server, Table: table, Message: message, Remedy: remedy})
	}
	found, named := leaseTables(target), ws.plan.Target.LeaseTables
	for _, name := range named {
		if !holdsLeases(target.Tables[name]) {
			refuse(target.Name, name, "the target has no table of leases of this name",
				"correct lease_tables: of the target")
		}
	}
	if len(named) == 0 && len(found) > 1 {
		refuse(target.Name, strings.Join(found, ", "), "several tables hold leases, and it is not known which "+
			"of them is for the node numbers of the merged servers",
			"name it, or all of them, under lease_tables: of the target")
		return
	}
	tables := leaseTablesOfTarget(ws)
	for _, name := range tables {
		if p := ws.policy(name); p != Skip {
			refuse(target.Name, name, "the table holds leases, whose policy cannot be "+string(p),
				"give it the policy skip: Run itself marks the node numbers of merged servers as retired")
		}
	}
	for _, s := range ws.servers {
		own := leaseTables(s.db)
		if len(own) > 0 && len(found) == 0 {
			report.warn(Problem{Code: CodeLeases, Server: s.Name, Table: strings.Join(own, ", "),
				Message: "the server leases its node number, and the target has no table of leases to retire it in",
				Remedy: "make the table in the target first, or never let a process of the merged servers lease a " +
					"number from it"})
		}
		if len(tables) == 1 && len(own) > 1 && !slices.Contains(own, tables[0]) {
			refuse(s.Name, strings.Join(own, ", "), "several tables hold leases, and none has the name "+tables[0]+
				", as in the target", "rename the one that belongs to it on that server, or drop the others")
		}
	}
}

// leaseTablesOfTarget returns the tables of leases in which numbers are retired: those that the plan
// names, else those that have the shape.
func leaseTablesOfTarget(ws *workspace) []string {
	if named := ws.plan.Target.LeaseTables; len(named) > 0 {
		return named
	}
	return leaseTables(ws.target)
}

// nodeRecord is a row of a table of leases, in the order of leaseColumns.
type nodeRecord struct {
	node              int64
	owner, until      string
	version           int64
	layout, updatedAt string
}

// retire retires the node numbers of the servers that are merged away, in every table of leases of the
// target: whoever leases one finds it held until the year 9999. The number that the target goes on with stays
// granted for as long as it was.
func retire(ctx context.Context, ws *workspace) error {
	// The check has found no problem, but tables may have been made between two runs.
	report := &CheckReport{}
	if leaseProblems(ws, report); len(report.Problems) > 0 {
		return fmt.Errorf("%w: %s", ErrPlan, report.Problems[0])
	}
	tables := leaseTablesOfTarget(ws)
	for _, table := range tables {
		if err := retireIn(ctx, ws, table, len(tables) == 1); err != nil {
			return fmt.Errorf("table %s: node numbers cannot be retired: %w", table, err)
		}
	}
	return nil
}

// retireIn retires the numbers in one table. Its records and those of the sources are joined: of each node
// the one that is granted for longest counts. A source has them in the table of the same name or, if there
// is only one table, in the only one of its own.
func retireIn(ctx context.Context, ws *workspace, table string, only bool) error {
	records, updated := map[int64]nodeRecord{}, ""
	var last nodeRecord
	for _, d := range ws.databases() {
		name := table
		if own := leaseTables(d); only && len(own) == 1 {
			name = own[0]
		}
		if !holdsLeases(d.Tables[name]) {
			continue
		}
		rows, err := d.Strings(ctx, d.SQL("SELECT ", d.Kind.QuoteAll(leaseColumns()), " FROM ",
			d.Kind.Quote(name), " ORDER BY node"))
		if err != nil {
			return err
		}
		for _, row := range rows {
			n, err := numbers(row[0], row[3])
			if err != nil {
				return fmt.Errorf("%s: the record of node %q cannot be read: %w", d.Name, row[0], err)
			}
			last = nodeRecord{n[0], row[1], row[2], n[1], row[4], row[5]}
			updated = max(updated, last.updatedAt)
			if known, ok := records[last.node]; !ok || known.until < last.until {
				last.version = max(last.version, known.version)
				records[last.node] = last
			}
		}
	}
	if last.layout == "" {
		return nil // nobody has leased a number, so the numbers are given by hand: see merge_servers
	}
	for _, s := range ws.mergedServers() {
		if s.Number == ws.plan.Target.Number {
			continue
		}
		old := records[s.Number]
		owner, until := leaseops.Retirement(ws.plan.Target.Name, ws.plan.Target.Number)
		r := nodeRecord{s.Number, owner, until.Format(leaseTime), max(old.version, 1), last.layout, updated}
		if old.owner != r.owner {
			r.version++
		}
		records[s.Number] = r
	}
	t := ws.target
	return t.Transaction(ctx, func() error {
		for node, r := range sorted(records) {
			q := t.SQL("DELETE FROM ", t.Kind.Quote(table), " WHERE node = ").Bind(node)
			if _, err := t.Run(ctx, q); err != nil {
				return err
			}
			q = t.SQL("INSERT INTO ", t.Kind.Quote(table), " (", t.Kind.QuoteAll(leaseColumns()), ") VALUES (").
				BindAll(r.node, r.owner, r.until, r.version, r.layout, r.updatedAt).Add(")")
			if _, err := t.Run(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
}
