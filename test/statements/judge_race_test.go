package statements_test

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// Of two programs that create a row with the same new key at once, one stores its row, and the other is
// refused.
func TestOfTwoWritersAtOnceOneIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		r := openRivals(t, target)
		for name, create := range map[string]func(tx *gorm.DB, text string) error{
			"DoNothing": func(tx *gorm.DB, text string) error {
				return tx.Clauses(doNothing()).Create(&ship{Text: text}).Error
			},
			"Save": func(tx *gorm.DB, text string) error { return tx.Save(&[]ship{{Text: text}}).Error },
			"UpdateAll by name": func(tx *gorm.DB, text string) error {
				return tx.Clauses(clause.OnConflict{Columns: onColumn("name"), UpdateAll: true}).
					Create(&port{Name: text, Text: text}).Error
			},
		} {
			t.Run(name, func(t *testing.T) {
				for range 5 {
					r.clear(t)
					r.their.startAt(firstNumber)
					r.our.startAt(firstNumber)
					errs := make([]error, 2)
					var both sync.WaitGroup
					for i, tx := range []*gorm.DB{r.theirs, r.ours} {
						both.Go(func() { errs[i] = create(tx, []string{"theirs", "ours"}[i]) })
					}
					both.Wait()
					winner := ""
					for i, err := range errs {
						switch {
						case err == nil:
							winner += []string{"theirs", "ours"}[i]
						case strings.Contains(err.Error(), "Error 1213"), strings.Contains(err.Error(), "Error 1020"):
							// A deadlock of InnoDB stores nothing either, nor does an old snapshot of MariaDB.
						case !errors.Is(err, snowflakeplugin.ErrContested):
							t.Errorf("the error is %v", err)
						}
					}
					table := "ships"
					if name == "UpdateAll by name" {
						table = "ports"
					}
					r.wantRows(t, table, "1000 "+winner)
				}
			})
		}
	})
}

// A row that the transaction cannot see refuses the new one all the same.
func TestARowOutsideOfTheSnapshotRefuses(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, append(dbtest.ServersOf("postgres"), dbtest.ServersOf("mysql")...),
		func(t *testing.T, target dbtest.Target) {
			r := openRivals(t, target)
			for name, create := range map[string]func(tx *gorm.DB) error{
				"a slice":   func(tx *gorm.DB) error { return tx.Create(&[]ship{{}, {}}).Error },
				"DoNothing": func(tx *gorm.DB) error { return tx.Clauses(doNothing()).Create(&ship{}).Error },
				"Save":      func(tx *gorm.DB) error { return tx.Save(&[]ship{{ID: 7}, {}}).Error },
			} {
				r.clear(t)
				r.our.startAt(firstNumber)
				tx := r.ours.Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead})
				plainOne[int64](t, tx, "SELECT count(*) FROM ships")
				plainExec(t, r.theirs, "INSERT INTO ships (id, text) VALUES (1000, 'theirs')")
				err := create(tx)
				var state interface{ SQLState() string }
				// PostgreSQL says it so, and MariaDB, from 11.6 on, by its error 1020.
				serialization := errors.As(err, &state) && state.SQLState() == "40001" ||
					err != nil && strings.Contains(err.Error(), "Error 1020")
				if !errors.Is(err, snowflakeplugin.ErrContested) && !serialization {
					t.Errorf("%s: the error is %v", name, err)
				}
				succeed(t, tx.Rollback())
				r.wantRows(t, "ships", "1000 theirs")
			}
		})
}
