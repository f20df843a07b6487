//go:build unix

package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

func TestACrowdThatStartsOnAnEmptyDatabaseSharesTheNumbersOut(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, target dbtest.Target) {
		shareOut(t, target, target.DSN(t), 4, 6) // each plugin has two connections
	})
}

func TestAHerdOfProcessesSharesTheNumbersOut(t *testing.T) {
	nightly.Only(t, "200 processes take a minute and 4 GB")
	const processes = 200
	t.Run("sqlite", func(t *testing.T) {
		target := dbtest.Named("sqlite")
		shareOut(t, target, target.DSN(t), processes, 1)
	})
	eachPrivateServer(t, func(t *testing.T, f flavor) {
		f.connections = 2*processes + usualConnections
		s := newServer(t, f)
		shareOut(t, f.target, f.patientDSN(s.port), processes, 1)
	})
}

// shareOut starts processes on an empty database at the same moment, each with so many plugins. There are as many
// numbers as plugins.
func shareOut(t *testing.T, target dbtest.Target, dsn string, processes, each int) {
	t.Helper()
	var crowds []*process
	for i := range processes {
		crowds = append(crowds, start(t, order{
			Role: roleCrowd, Name: fmt.Sprintf("crowd%d", i), Target: target, DSN: dsn,
			// As many numbers as there are plugins: each must find the one that is left.
			Hi: int64(processes*each - 1), Plugins: each, Span: time.Minute,
		}, nil))
	}
	for _, p := range crowds {
		eventually(t, p.Name+" does not open the database", func() bool {
			return look(p, func() bool { return p.opened }) || !p.alive()
		}, p)
	}
	for _, p := range crowds {
		p.command("go")
	}
	var nodes []int64
	late := false // some attempt
	var full []report
	for _, p := range crowds {
		eventually(t, p.Name+" does not get its numbers", func() bool { return p.isReady() || !p.alive() }, p)
		for _, r := range look(p, func() []report { return p.refused }) {
			switch r.Class {
			case classStore, classDatabase:
				late = true
				t.Logf("%s tried again: %s", p.Name, r.Error)
			default:
				full = append(full, r)
			}
		}
		nodes = append(nodes, look(p, func() []int64 { return p.ready })...)
	}
	if len(full) > 0 && !late {
		t.Errorf("%d attempts found no number, though there are as many as plugins; one of them: %+v", len(full),
			full[0])
	}
	slices.Sort(nodes)
	for i, node := range nodes {
		if node != int64(i) {
			t.Fatalf("the numbers are not 0 to %d, each once: %v", processes*each-1, nodes)
		}
	}
	db := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
	checkCrowd := func(owned bool) {
		t.Helper()
		found := records(t, db)
		if len(found) != processes*each {
			t.Errorf("%d records, where %d are used", len(found), processes*each)
		}
		for _, r := range found {
			if (r.Owner != "") != owned {
				t.Errorf("the record says %+v (owned: %t)", r, owned)
			}
		}
	}
	checkCrowd(true)
	var tables []string
	tables, err := db.Migrator().GetTables()
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(tables)), []string{"snowflake_authority", "snowflake_nodes"}) {
		t.Errorf("tables %v, %v, where two were to be made", tables, err)
	}
	for _, p := range crowds {
		p.command("close")
	}
	for _, p := range crowds {
		p.await(t)
		if p.closed == nil || p.closed.Error != "" {
			t.Errorf("%s did not close: %+v", p.Name, p.closed)
		}
	}
	checkCrowd(false)
}
