package merge_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// sends counts what is sent over a connection, which is mostly once for each statement.
type sends struct {
	net.Conn
	n *atomic.Int64
}

func (s sends) Write(b []byte) (int, error) {
	s.n.Add(1)
	return s.Conn.Write(b)
}

// counting is an opener whose connections count what is sent.
func counting(n *atomic.Int64) func(context.Context, string) (*sql.DB, error) {
	way := fmt.Sprintf("counting%p", n)
	mysql.RegisterDialContext(way, func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		return sends{conn, n}, err
	})
	return func(_ context.Context, dsn string) (*sql.DB, error) {
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			return nil, err
		}
		config.Net = way
		return sql.Open("mysql", config.FormatDSN())
	}
}

// A game has a hundred small tables, and whoever merges it by hand writes two statements for each. What a merge
// asks of three databases grows by so many statements with each table, to copy it included.
func TestAMergeAsksLittleOfEachSmallTable(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
		few, many := wayOf(t, target, 10), wayOf(t, target, 30)
		for step, most := range map[string]int64{"draft": 12, "check": 18, "run": 34, "verify": 16} {
			if n := (many[step] - few[step]) / 20; n > most {
				t.Errorf("%s sends %d statements more for one more table, and not %d at most", step, n, most)
			} else {
				t.Logf("%s sends %d statements more for one more table", step, n)
			}
		}
	})
}

// The same for a game that has parcels, which are counted, and lie in several rows each, and for deeds at
// different places. No column is compared by statements of its own with the parcels, nor in the rows of each place.
func TestACensusAsksLittleAboutKeysOfSeveralRowsAndKindsOfTexts(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.ServersOf("mysql")), func(t *testing.T, target dbtest.Target) {
		drafted := func(tables int) int64 {
			schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY AUTO_INCREMENT)",
				"CREATE TABLE parcels (id INTEGER NOT NULL AUTO_INCREMENT, slot INTEGER NOT NULL, PRIMARY KEY (id, slot))"}
			servers := make([][]string, 2)
			for i := range servers {
				heroes := many(1, 1500, func(n int) string { return fmt.Sprintf("(%d)", n*3+i) })
				servers[i] = []string{"INSERT INTO heroes VALUES " + strings.Join(heroes, ", "),
					"INSERT INTO parcels SELECT id * 3 DIV 4, id % 4 FROM heroes"}
			}
			for n := range tables {
				name := fmt.Sprintf("hero_deeds_%02d", n)
				schema = append(schema, "CREATE TABLE "+name+" (hero_id INTEGER NOT NULL, day INTEGER NOT NULL, worth INTEGER, "+
					"place VARCHAR(12) NOT NULL, PRIMARY KEY (hero_id, day))")
				for i := range servers {
					servers[i] = append(servers[i], "INSERT INTO "+name+" SELECT id, id * 7 % 3001, id * 13 % 2903, "+
						"CASE id % 4 WHEN 0 THEN 'sea' WHEN 1 THEN 'hill' ELSE 'wood' END FROM heroes")
				}
			}
			_, _, plan := small(t, target, schema, nil, servers...)
			sent := &atomic.Int64{}
			if _, _, err := merge.Draft(t.Context(), plan, merge.WithOpener(counting(sent))); err != nil {
				t.Fatal(err)
			}
			return sent.Load()
		}
		few, many := drafted(4), drafted(14)
		if n := (many - few) / 10; n > 22 {
			t.Errorf("a draft sends %d statements more for one more table, and not 22 at most", n)
		} else {
			t.Logf("a draft sends %d statements more for one more table", n)
		}
	})
}

// wayOf merges two servers with so many small tables that belong to heroes, and returns what each step has sent.
func wayOf(t *testing.T, target dbtest.Target, tables int) map[string]int64 {
	t.Helper()
	schema := []string{"CREATE TABLE heroes (id INTEGER NOT NULL PRIMARY KEY AUTO_INCREMENT, level INTEGER)"}
	servers := make([][]string, 2)
	for i := range servers {
		servers[i] = []string{"INSERT INTO heroes VALUES " + strings.Join(many(1, 60, func(n int) string {
			return fmt.Sprintf("(%d, %d)", n*3+i, n)
		}), ", ")}
	}
	for n := range tables {
		name := fmt.Sprintf("hero_deeds_%02d", n)
		schema = append(schema, "CREATE TABLE "+name+" (hero_id INTEGER NOT NULL, kind INTEGER NOT NULL, worth INTEGER, "+
			"PRIMARY KEY (hero_id, kind))")
		for i := range servers {
			servers[i] = append(servers[i], "INSERT INTO "+name+" SELECT id, level % 4, level * 7 % 50 FROM heroes")
		}
	}
	_, _, plan := small(t, target, schema, nil, servers...)
	sent, asked := &atomic.Int64{}, map[string]int64{}
	opener := counting(sent)
	step := func(name string, do func() error) {
		before := sent.Load()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		asked[name] = sent.Load() - before
	}
	var lock *merge.Lock
	step("draft", func() (err error) {
		plan, lock, err = merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		return err
	})
	for _, name := range []string{"check", "run", "verify"} {
		step(name, func() error {
			m, err := merge.Open(t.Context(), plan, merge.WithLock(lock), merge.WithOpener(opener))
			if err != nil {
				return err
			}
			defer m.Close()
			switch name {
			case "check":
				report, err := m.Check(t.Context())
				if err == nil && report.Verdict == merge.Undecided {
					err = fmt.Errorf("undecided: %v", report.Problems)
				}
				return err
			case "run":
				_, err := m.Run(t.Context())
				return err
			}
			report, err := m.Verify(t.Context())
			if err == nil && !report.OK {
				err = fmt.Errorf("it differs: %v", report.Failed)
			}
			return err
		})
	}
	return asked
}
