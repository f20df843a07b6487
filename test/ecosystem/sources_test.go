package ecosystem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/plugin/dbresolver"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// fleet is a handle whose creates go to two sources in turn, and whose queries go to a replica. The handle's own
// database is the first source.
type fleet struct {
	db                    *gorm.DB
	first, second, replay *gorm.DB // of other programs
}

// eachFleet runs fn with the plugin used before dbresolver and after it.
func eachFleet(t *testing.T, fn func(t *testing.T, f fleet)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		for name, before := range map[string]bool{"before dbresolver": true, "after dbresolver": false} {
			for handle, prepared := range map[string]bool{"plain": false, "prepared": true} {
				t.Run(name+", "+handle, func(t *testing.T) { fn(t, newFleet(t, target, before, prepared)) })
			}
		}
	})
}

// newFleet opens the databases. Of every DSN some parts are replaced by others.
func newFleet(t *testing.T, target dbtest.Target, before, prepared bool, replaced ...string) fleet {
	t.Helper()
	dsns := []string{target.DSN(t), target.DSN(t), target.DSN(t)}
	for i, dsn := range dsns {
		dsns[i] = strings.NewReplacer(replaced...).Replace(dsn)
	}
	f := fleet{
		db:    target.OpenDSN(t, dsns[0], &gorm.Config{PrepareStmt: prepared}),
		first: target.OpenDSN(t, dsns[0], nil), second: target.OpenDSN(t, dsns[1], nil),
		replay: target.OpenDSN(t, dsns[2], nil),
	}
	for _, db := range []*gorm.DB{f.first, f.second, f.replay} {
		must(t, db.AutoMigrate(&mark{}), "AutoMigrate")
	}
	resolver := dbresolver.Register(dbresolver.Config{
		Sources:  []gorm.Dialector{target.Dialector(dsns[0]), target.Dialector(dsns[1])},
		Replicas: []gorm.Dialector{target.Dialector(dsns[2])},
		Policy:   dbresolver.StrictRoundRobinPolicy(),
	})
	own, err := f.db.DB()
	must(t, err, "the pool")
	t.Cleanup(func() {
		must(t, resolver.Call(func(pool gorm.ConnPool) error {
			if closer, ok := pool.(io.Closer); ok && pool != gorm.ConnPool(own) {
				return closer.Close()
			}
			return nil
		}), "close the pools of dbresolver")
	})
	plugin := snowflakeplugin.New(snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { must(t, plugin.Close(context.Background()), "Close") })
	plugins := []gorm.Plugin{resolver, plugin}
	if before {
		plugins = []gorm.Plugin{plugin, resolver}
	}
	for _, p := range plugins {
		must(t, f.db.Use(p), "Use of "+p.Name())
	}
	return f
}

// other is a plugin of another program, whose numbers come from elsewhere.
func other() *snowflakeplugin.Plugin { return snowflakeplugin.New(snowflakeplugin.WithNode(7)) }

func TestDBResolverEverySourceIsNotedAndNoReplicaIsWrittenTo(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f fleet) {
		for n := range 4 {
			must(t, f.db.Create(&mark{Code: fmt.Sprint(n)}).Error, "create")
		}
		must(t, f.db.Transaction(func(tx *gorm.DB) error { return tx.Create(&mark{Code: "tx"}).Error }), "a transaction")
		for name, db := range map[string]*gorm.DB{"first": f.first, "second": f.second} {
			var n int64
			must(t, db.Model(&mark{}).Count(&n).Error, "count")
			if n < 2 {
				t.Errorf("the %s source has %d rows, so this test shows nothing", name, n)
			}
			if err := db.Use(other()); !errors.Is(err, snowflakeplugin.ErrAuthority) {
				t.Errorf("Use of another program on the %s source: %v, want ErrAuthority", name, err)
			}
		}
		holds(t, f.replay, &mark{}, 0)
		for _, table := range []string{"snowflake_authority", "snowflake_nodes"} {
			if f.replay.Migrator().HasTable(table) {
				t.Errorf("the replica has the table %s", table)
			}
		}
	})
}

// Another program has noted on the second source where its IDs come from. The plugin cannot see that source in
// db.Use, so the first row that would go there finds it.
func TestDBResolverASourceOfAnotherProgramGetsNoRow(t *testing.T) {
	t.Parallel()
	eachFleet(t, func(t *testing.T, f fleet) {
		must(t, f.second.Use(other()), "Use of another program")
		refused := 0
		for n := range 4 {
			m := mark{Code: fmt.Sprint(n)}
			if err := f.db.Create(&m).Error; err != nil {
				refused++
				if !errors.Is(err, snowflakeplugin.ErrAuthority) || m.ID != 0 {
					t.Errorf("a create of a row with the ID %v: %v, want ErrAuthority and no ID", m.ID, err)
				}
			}
		}
		if refused != 2 {
			t.Errorf("%d of 4 creates are refused, want every second one", refused)
		}
		refused = 0
		for range 2 { // one goes to the first source
			tx := f.db.Clauses(dbresolver.Write).Begin()
			must(t, tx.Error, "Begin")
			if err := tx.Create(&mark{Code: "in a transaction"}).Error; errors.Is(err, snowflakeplugin.ErrAuthority) {
				refused++
			}
			must(t, tx.Rollback().Error, "Rollback")
		}
		if refused != 1 {
			t.Errorf("%d of 2 creates in transactions are refused with ErrAuthority, want 1", refused)
		}
		holds(t, f.second, &mark{}, 0)
		holds(t, f.replay, &mark{}, 0)
	})
}

// A source is noted on a connection of its own, and a file of SQLite has one writer. A transaction that is
// there already keeps the note out for as long as it lasts, so waiting is of no use.
func TestDBResolverATransactionOfSQLiteThatKeepsItsNoteOutIsToldSoAtOnce(t *testing.T) {
	t.Parallel()
	const atOnce = 3 * time.Second // the connections wait ten for a lock
	write := func(tx *gorm.DB) error { return tx.Exec("INSERT INTO marks (id, code) VALUES (1, 'raw')").Error }
	read := func(tx *gorm.DB) error { return tx.Find(&[]mark{}).Error }
	deferred := []string{"_txlock=immediate", "_txlock=deferred"}
	journal := append([]string{"_journal_mode=WAL", "_journal_mode=DELETE"}, deferred...)
	for what, c := range map[string]struct {
		begin    func(*gorm.DB) error
		replaced []string
	}{
		"has written": {write, deferred}, "has written, without WAL": {write, journal},
		"has read, without WAL": {read, journal}, "began for writing": {read, nil},
	} {
		for handle, prepared := range map[string]bool{"plain": false, "prepared": true} {
			t.Run(what+", "+handle, func(t *testing.T) {
				f := newFleet(t, dbtest.Named("sqlite"), handle == "plain", prepared, c.replaced...)
				try := func() (m mark, err error) {
					tx := f.db.Clauses(dbresolver.Write).Begin()
					must(t, tx.Error, "Begin")
					defer tx.Rollback()
					must(t, c.begin(tx), "the first statement")
					m.Code = "in a transaction"
					began := time.Now()
					err = tx.Create(&m).Error
					if took := time.Since(began); took > atOnce {
						t.Errorf("the create took %v", took)
					}
					return m, err
				}
				var m mark
				var err error
				for range 2 { // one goes to the first source, which has its note
					if m, err = try(); err != nil {
						break
					}
				}
				if !errors.Is(err, snowflakeplugin.ErrAuthority) || snowflakeplugin.Retryable(err) || m.ID != 0 {
					t.Fatalf("a create of a row with the ID %v: %v, want ErrAuthority and no ID", m.ID, err)
				}
				var file string
				must(t, f.second.Raw("SELECT file FROM pragma_database_list").Scan(&file).Error, "the file")
				for _, said := range []string{file, "locked", "outside of a transaction"} {
					if !strings.Contains(err.Error(), said) {
						t.Errorf("%q is not in: %v", said, err)
					}
				}
				for range 2 {
					must(t, f.db.Create(&mark{Code: "outside"}).Error, "create outside of a transaction")
				}
				for range 2 {
					_, err := try()
					must(t, err, "create in a transaction on a source with a note")
				}
				holds(t, f.second, &mark{}, 1)
				holds(t, f.replay, &mark{}, 0)
			})
		}
	}
}
