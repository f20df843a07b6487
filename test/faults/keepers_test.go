//go:build unix

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

const (
	// wantedStart is how long the start of all keepers should take at most, where nothing else keeps the
	// machine busy. A longer one fails no test.
	wantedStart = 15 * time.Second
	// startPatience is how long all keepers together may need on a machine that is busy.
	startPatience = 5 * time.Minute
	// longestPause is about how long a process waits at most before it tries to start again.
	longestPause = 32 * time.Second
	// mostStatements is how many statements one start may take. It takes 8 to 11. Keepers that all want
	// the same number would take hundreds.
	mostStatements = 30
)

// A fullHouse is as many keepers as there are numbers, each with a store and a connection of its
// own, as if each were a process.
type fullHouse struct {
	t       *testing.T
	stores  []*gormlease.Store
	keepers []*lease.Keeper
	again   atomic.Int64 // how many attempts were repeated because the server was too slow
}

// The default layout has 1,024 numbers. Keepers that start together on an empty database get all of
// them. The last of them have to find the few that are left.
func TestAllNumbersAreLeasedAtOnce(t *testing.T) {
	for _, f := range privateServers() {
		t.Run(f.target.Name, func(t *testing.T) {
			if !chaos.Enabled() {
				t.Skip("1,024 connections are too many for every day; \"make chaos\" opens them")
			}
			count := int(generator.Default().MaxNode()) + 1
			f.connections = count + usualConnections
			s := newServer(t, f)
			db := f.target.OpenDSN(t, f.patientDSN(s.port), nil, dbtest.MaxOpenConns(2))
			meter := newMeter(t, f.target.Name, db)

			house := newFullHouse(t, count)
			began := time.Now()
			house.fill(db)
			took, n := time.Since(began), meter.read()
			again := house.again.Load()
			t.Logf("%s: %d keepers had a number after %v, where %v is wanted; %d attempts were repeated; statements: %s",
				f.target.Name, count, took.Round(10*time.Millisecond), wantedStart, again, meter)
			// Whoever has a number already extends its window at most once a second.
			if most := (int64(count)+again)*mostStatements + int64(count)*int64(took/time.Second); n > most {
				t.Errorf("%d keepers needed %d statements to start, at most %d were expected", count, n, most)
			}
			house.checkNumbers()
			t.Logf("%s: the table has %d bytes after the start", f.target.Name, meter.bytes())
			meter.rest(time.Minute)
			meter.read()
			t.Logf("%s: at rest, statements: %s; the table has %d bytes", f.target.Name, meter, meter.bytes())
			began = time.Now()
			house.close()
			t.Logf("%s: all numbers were given back after %v", f.target.Name, time.Since(began).Round(10*time.Millisecond))
		})
	}
}

func newFullHouse(t *testing.T, count int) *fullHouse {
	t.Helper()
	return &fullHouse{t: t, stores: make([]*gormlease.Store, count), keepers: make([]*lease.Keeper, count)}
}

// fill opens all stores and acquires all keepers at once.
func (h *fullHouse) fill(db *gorm.DB) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), startPatience)
	defer cancel()
	faults := make([]error, len(h.keepers))
	var all sync.WaitGroup
	for i := range h.keepers {
		all.Go(func() { faults[i] = h.open(ctx, i, db) })
	}
	all.Wait()
	failed := slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	for _, err := range failed[:min(len(failed), maxFaults)] {
		h.t.Error(err)
	}
	if len(failed) > 0 {
		h.close()
		h.t.Fatalf("%d of %d keepers got no number", len(failed), len(h.keepers))
	}
}

// open opens a store and acquires its keeper. It tries again if the server was too slow, after pauses that grow
// and differ, as the manager of a process does: a server that is asked by all at once once more may answer none
// of them in time. A number that such an attempt has taken all the same falls free with its
// window, so until then the others may find none; that is no reason to give up either.
func (h *fullHouse) open(ctx context.Context, i int, db *gorm.DB) (err error) {
	silent := lease.WithLogger(slog.New(slog.DiscardHandler))
	for pause := time.Second; ; pause = min(2*pause, longestPause) {
		if h.stores[i] == nil {
			h.stores[i], err = gormlease.New(db)
		}
		if err == nil {
			h.keepers[i], err = lease.Acquire(ctx, h.stores[i], generator.Default(), silent)
		}
		full := errors.Is(err, lease.ErrNoFreeNode) && h.again.Load() > 0
		if !full && !tooSlow(err) || ctx.Err() != nil {
			return err
		}
		h.again.Add(1)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// tooSlow tells whether the server has not answered in time. A keeper does not use the clock of a server
// that takes longer than lease.MaxSkew to tell it.
func tooSlow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, lease.ErrStore) && strings.Contains(err.Error(), "its clock could not be compared")
}

// checkNumbers fails the test unless each number is there once. A keeper that could not extend its
// window in time may have lost its number to another one. It takes another then, so the numbers are
// looked at until they are complete. But windows that overlap are never right.
func (h *fullHouse) checkNumbers() {
	h.t.Helper()
	eventually(h.t, "the numbers are not complete", func() bool {
		holders := make([][]generator.Window, len(h.keepers))
		for _, k := range h.keepers {
			w := k.Window()
			for _, other := range holders[w.Node] {
				if w.From.Before(other.Until) && other.From.Before(w.Until) {
					h.t.Fatalf("two keepers have the number %d at a time: %v and %v", w.Node, w, other)
				}
			}
			holders[w.Node] = append(holders[w.Node], w)
		}
		return !slices.ContainsFunc(holders, func(of []generator.Window) bool { return len(of) != 1 })
	}, h)
}

// state and latest tell which numbers the keepers have.
func (h *fullHouse) state() string { return h.latest() }

func (h *fullHouse) latest() string {
	nodes := make([]int64, len(h.keepers))
	for i, k := range h.keepers {
		nodes[i] = k.Window().Node
	}
	return fmt.Sprint("the numbers of the keepers: ", nodes)
}

// close gives all numbers back.
func (h *fullHouse) close() {
	h.t.Helper()
	deadline := time.Now().Add(startPatience)
	faults := make([]error, len(h.keepers))
	var all sync.WaitGroup
	for i := range h.keepers {
		all.Go(func() {
			if k := h.keepers[i]; k != nil {
				faults[i] = k.Close(context.Background())
				for pause := time.Second; errors.Is(faults[i], context.DeadlineExceeded) && time.Now().Before(deadline); {
					time.Sleep(pause/2 + rand.N(pause)) // the server was too slow
					pause = min(2*pause, longestPause)
					faults[i] = k.Close(context.Background())
				}
			}
			if h.stores[i] != nil {
				faults[i] = errors.Join(faults[i], h.stores[i].Close())
			}
		})
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		h.t.Error(err)
	}
}

// A meter asks a private server what it has done.
type meter struct {
	t        *testing.T
	db       *gorm.DB
	count    string // the query for how many statements there were
	size     string // the query for the bytes of the table
	analyze  string // what has to be done before, if anything
	last     int64
	lastTime time.Time

	statements int64         // between the last two reads
	took       time.Duration // from one to the other
}

func newMeter(t *testing.T, name string, db *gorm.DB) *meter {
	t.Helper()
	m := &meter{t: t, db: db}
	switch name {
	case "postgres":
		// Each statement of a lease is a transaction. So is the ping that pgx sends before it on a
		// connection that has rested for a second.
		m.count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
		m.size = "SELECT pg_total_relation_size('snowflake_nodes')"
	default:
		m.count = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'questions'"
		if name == "mysql" {
			m.count = strings.Replace(m.count, "information_schema", "performance_schema", 1)
		}
		m.size = "SELECT data_length + index_length FROM information_schema.tables " +
			"WHERE table_schema = database() AND table_name = 'snowflake_nodes'"
		m.analyze = "ANALYZE TABLE snowflake_nodes"
	}
	m.read()
	return m
}

func (m *meter) number(query string) (n int64) {
	m.t.Helper()
	if err := m.db.Raw(query).Scan(&n).Error; err != nil {
		m.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// read returns how many statements there were since it was called last.
func (m *meter) read() int64 {
	m.t.Helper()
	now, count := time.Now(), m.number(m.count)
	m.statements, m.took = count-m.last, now.Sub(m.lastTime)
	m.last, m.lastTime = count, now
	return m.statements
}

// String is what was read last.
func (m *meter) String() string {
	return fmt.Sprintf("%d, %.0f a second", m.statements, float64(m.statements)/m.took.Seconds())
}

// bytes is the size of the table. MariaDB knows it only after it has looked.
func (m *meter) bytes() int64 {
	m.t.Helper()
	if m.analyze != "" {
		if err := m.db.Exec(m.analyze).Error; err != nil {
			m.t.Fatalf("%s: %v", m.analyze, err)
		}
	}
	return m.number(m.size)
}

// rest lets the keepers extend their windows for a while, and counts from its beginning.
func (m *meter) rest(d time.Duration) {
	m.t.Helper()
	time.Sleep(12 * time.Second) // PostgreSQL counts up to 10 s late
	m.read()
	time.Sleep(d)
}
