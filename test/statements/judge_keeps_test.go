package statements_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

// What was no fault before the judge must go on working.
func TestTheJudgeKeepsWhatIsRight(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		r := openRivals(t, target)
		for name, mode := range judgeModes(target.Dialect) {
			t.Run(name, func(t *testing.T) {
				r.reopen(t, target, mode.cfg, mode.options...)
				for name, keep := range keptShapes() {
					t.Run(name, func(t *testing.T) {
						r.clear(t)
						r.our.startAt(firstNumber)
						keep(t, r)
					})
				}
			})
		}
	})
}

// wantRows compares the rows of a table, as "id text".
func (r *rivals) wantRows(t *testing.T, table string, want ...string) {
	t.Helper()
	concat := "id || ' ' || text"
	if r.ours.Name() == "mysql" {
		concat = "CONCAT(id, ' ', text)"
	}
	got := plainRows[string](t, r.ours, "SELECT "+concat+" FROM "+table)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", table, got, want)
	}
}

func keptShapes() map[string]func(t *testing.T, r *rivals) {
	updateAll := clause.OnConflict{UpdateAll: true}
	return map[string]func(t *testing.T, r *rivals){
		"one new struct twice in a slice is inserted once": func(t *testing.T, r *rivals) {
			for _, c := range []clause.OnConflict{doNothing(), updateAll,
				{Columns: onColumn("id"), DoUpdates: clause.AssignmentColumns([]string{"text"})}} {
				r.clear(t)
				r.our.startAt(firstNumber)
				one, other := &ship{Text: "one"}, &ship{Text: "other"}
				ships := []*ship{one, other, one}
				succeed(t, r.ours.Clauses(c).Create(&ships))
				if len(ships) != 3 || ships[2] != one {
					t.Errorf("the slice is %v now", ships)
				}
				r.wantRows(t, "ships", "1000 one", "1001 other")
				wantInt(t, "the ID", one.ID, 1000)
			}
		},
		"one new struct twice in a slice without a clause is refused, and the error says so": func(t *testing.T, r *rivals) {
			one := &ship{Text: "one"}
			err := r.ours.Create([]*ship{one, one}).Error
			if !errors.Is(err, snowflakeplugin.ErrContested) || !strings.Contains(err.Error(), "twice in a slice") {
				t.Errorf("the error is %v", err)
			}
			wantInt(t, "the ID", one.ID, 0)
		},
		"Save of one new struct twice inserts it once": func(t *testing.T, r *rivals) {
			one := &port{Name: "one", Text: "x"}
			succeed(t, r.ours.Save([]*port{one, one}))
			r.wantRows(t, "ports", "1000 x")
			one.Text = "y"
			succeed(t, r.ours.Save(&[]*port{one}))
			r.wantRows(t, "ports", "1000 y")
		},
		"a new row that two parents share": func(t *testing.T, r *rivals) {
			s, p, q := &ship{Text: "shared"}, &port{Name: "p", Text: "shared"}, &port{Name: "q", Text: "shared"}
			succeed(t, r.ours.Create(&[]voyage{
				{Ship: s, Port: p, Sailors: []*ship{s}, Havens: []*port{q, p}},
				{Ship: s, Port: p, Sailors: []*ship{s}, Havens: []*port{p, q}}}))
			for table, ids := range map[string][]int64{
				"ships": {int64(s.ID)}, "ports": {int64(p.ID), int64(q.ID)}} {
				got := plainRows[int64](t, r.ours, "SELECT id FROM "+table+" ORDER BY id")
				if !slices.Equal(got, ids) {
					t.Errorf("%s has %d, want %d", table, got, ids)
				}
			}
			wantInt(t, "the pairs", plainOne[int64](t, r.ours, "SELECT count(*) FROM voyage_ports"), 4)
			wantInt(t, "the voyages of the ship", plainOne[int64](t, r.ours,
				fmt.Sprint("SELECT count(*) FROM voyages WHERE ship_id = ", int64(s.ID))), 2)
		},
		"an old and a new child side by side": func(t *testing.T, r *rivals) {
			v := voyage{Text: "v", Crates: []crate{{Text: "old"}}, Passes: []permit{{Code: "a", Text: "old"}}}
			succeed(t, r.ours.Create(&v))
			public := v.Passes[0].PublicID
			v.Crates = append(v.Crates, crate{Text: "new"})
			v.Passes = append(v.Passes, permit{Code: "b", Text: "new"})
			succeed(t, r.ours.Save(&v))
			succeed(t, r.ours.Session(&gorm.Session{FullSaveAssociations: true}).Save(&v))
			wantInt(t, "the crates", plainOne[int64](t, r.ours,
				"SELECT count(*) FROM crates WHERE voyage_id = 1000"), 2)
			wantStored(t, r.ours, v.Passes[1].PublicID, "SELECT public_id FROM permits WHERE code = 'b'")
			wantStored(t, r.ours, public, "SELECT public_id FROM permits WHERE code = 'a'")
		},
		"seeding twice by fixed keys": func(t *testing.T, r *rivals) {
			for _, c := range []clause.OnConflict{doNothing(), updateAll} {
				for range 2 {
					seed := []port{{ID: 1, Name: "a", Text: "x"}, {ID: 2, Name: "b", Text: "x"}}
					succeed(t, r.ours.Clauses(c).Create(&seed))
				}
			}
			r.wantRows(t, "ports", "1 x", "2 x")
		},
		"seeding twice by name": func(t *testing.T, r *rivals) {
			for _, c := range []clause.OnConflict{doNothing(), {Columns: onColumn("name"), DoNothing: true},
				{Columns: onColumn("name"), UpdateAll: true}} {
				for range 2 {
					seed := []port{{Name: "a", Text: "x"}, {Name: "b", Text: "x"}}
					succeed(t, r.ours.Clauses(c).Create(&seed))
					wantInt(t, "the ID of a", seed[0].ID, 1000)
					wantInt(t, "the ID of b", seed[1].ID, 1001)
				}
			}
			r.wantRows(t, "ports", "1000 x", "1001 x")
		},
		"rows with and without keys under DoNothing": func(t *testing.T, r *rivals) {
			succeed(t, r.ours.Create(&[]port{{ID: 1, Name: "a", Text: "old"}, {ID: 2, Name: "b", Text: "old"}}))
			rows := []port{{Name: "b", Text: "new"}, {ID: 1, Name: "x", Text: "new"}, {Name: "c", Text: "new"},
				{ID: 3, Name: "d", Text: "new"}}
			result := r.ours.Clauses(doNothing()).Create(&rows)
			succeed(t, result)
			r.wantRows(t, "ports", "1 old", "2 old", "3 new", fmt.Sprint(rows[2].ID, " new"))
			wantInt(t, "the ID of the row that was met", rows[0].ID, 2)
			if r.ours.Name() != "mysql" {
				wantInt(t, "RowsAffected", result.RowsAffected, 2)
			}
		},
		"public IDs of rows with and without keys": func(t *testing.T, r *rivals) {
			succeed(t, r.ours.Create(&[]permit{{ID: 1, PublicID: 11, Code: "a", Text: "old"}}))
			for _, c := range []clause.OnConflict{doNothing(), updateAll} {
				rows := []permit{{ID: 1, Code: "a", Text: "old"}, {Code: fmt.Sprint(c.DoNothing)},
					{ID: snowflakeplugin.ID(2 + len(c.DoUpdates)), Code: "d"}}
				if c.UpdateAll {
					rows[2].Code, rows[2].ID = "e", 3
				}
				succeed(t, r.ours.Clauses(c).Create(&rows))
				wantInt(t, "the public ID of the old row", rows[0].PublicID, 11)
				for _, row := range rows {
					wantStored(t, r.ours, row.PublicID,
						fmt.Sprint("SELECT public_id FROM permits WHERE id = ", int64(row.ID)))
				}
			}
		},
		"a struct can be created again after it was refused": func(t *testing.T, r *rivals) {
			plainExec(t, r.ours, "INSERT INTO crates (id, text) VALUES (1001, 'theirs')")
			v := voyage{Text: "v", Crates: []crate{{Text: "ours"}}}
			if err := r.ours.Create(&v).Error; !errors.Is(err, snowflakeplugin.ErrContested) {
				t.Fatalf("the error is %v", err)
			}
			wantInt(t, "the ID of the child", v.Crates[0].ID, 0)
			if !r.ours.SkipDefaultTransaction {
				wantInt(t, "the ID", v.ID, 0)
			}
			v.ID = 0
			succeed(t, r.ours.Create(&v))
			r.wantRows(t, "crates", "1001 theirs", "1003 ours")
		},
		"a handle used again has its clause again": func(t *testing.T, r *rivals) {
			tx := r.ours.Clauses(clause.OnConflict{UpdateAll: true})
			succeed(t, tx.Create(&ship{Text: "one"}))
			succeed(t, tx.Create(&ship{ID: 1000, Text: "two"}))
			r.wantRows(t, "ships", "1000 two")
		},
		"a key of the application that is there is no matter of the judge": func(t *testing.T, r *rivals) {
			succeed(t, r.ours.Create(&port{ID: 7, Name: "a"}))
			for name, create := range map[string]func() error{
				"the key": func() error { return r.ours.Create(&port{ID: 7, Name: "b"}).Error },
				"the key, in slice": func() error {
					return r.ours.Create(&[]port{{Name: "c"}, {ID: 7, Name: "b"}}).Error
				},
				"the name": func() error { return r.ours.Create(&port{Name: "a"}).Error },
				"the name, in slice": func() error {
					return r.ours.Create(&[]port{{Name: "c"}, {Name: "a"}}).Error
				},
				"map": func() error {
					return r.ours.Model(&port{}).Create([]map[string]any{{"name": "c"}, {"name": "a"}}).Error
				},
			} {
				err := create()
				if err == nil || errors.Is(err, snowflakeplugin.ErrContested) {
					t.Errorf("%s: the error is %v", name, err)
				}
				if r.ours.TranslateError != errors.Is(err, gorm.ErrDuplicatedKey) {
					t.Errorf("%s: the error is not translated as before: %v", name, err)
				}
			}
		},
		"many rows with and without keys": func(t *testing.T, r *rivals) {
			rows := make([]ship, 0, 5000)
			for i := range 2500 {
				rows = append(rows, ship{ID: snowflakeplugin.ID(1_000_000 + i)}, ship{})
			}
			succeed(t, r.ours.Create(&[]ship{{ID: 1_000_000}, {ID: 1_000_001}}))
			succeed(t, r.ours.Save(&rows))
			wantInt(t, "the ships", plainOne[int64](t, r.ours, "SELECT count(*) FROM ships"), 5000)
			rows[4000] = ship{}
			succeed(t, r.ours.Clauses(doNothing()).Create(&rows))
			wantInt(t, "the ships", plainOne[int64](t, r.ours, "SELECT count(*) FROM ships"), 5001)
		},
		"a dry run": func(t *testing.T, r *rivals) {
			dry := r.ours.Session(&gorm.Session{DryRun: true})
			rows := []*ship{{ID: 7}, {}}
			for _, c := range []clause.OnConflict{doNothing(), updateAll} {
				succeed(t, dry.Clauses(c).Create(&rows))
			}
			wantInt(t, "the ships", plainOne[int64](t, r.ours, "SELECT count(*) FROM ships"), 0)
		},
	}
}

// Where GORM itself writes DO NOTHING for an association, a unique index that the model does not know refuses
// the row. It is not taken for a contested key.
func TestTheJudgeLeavesUnknownIndexesToTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		r := openRivals(t, target)
		plainExec(t, r.ours, "CREATE UNIQUE INDEX ships_text ON ships (text)",
			"INSERT INTO ships (id, text) VALUES (7, 'taken')")
		for name, create := range map[string]func() error{
			"an association": func() error { return r.ours.Create(&voyage{Ship: &ship{Text: "taken"}}).Error },
			"Save":           func() error { return r.ours.Save(&[]ship{{Text: "taken"}, {Text: "free"}}).Error },
		} {
			if err := create(); err == nil || errors.Is(err, snowflakeplugin.ErrContested) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		one := ship{Text: "taken"}
		succeed(t, r.ours.Clauses(doNothing()).Create(&one))
		if one.ID != 0 && one.ID != 7 {
			t.Errorf("the struct holds %d, which is no row's", one.ID)
		}
		r.wantRows(t, "ships", "7 taken")
	})
}

// The error names table and key, and says what is stored and what to do.
func TestAContestedKeySaysWhatToDo(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		r := openRivals(t, target)
		for _, skip := range []bool{false, true} {
			for _, translate := range []bool{false, true} {
				r.reopen(t, target, &gorm.Config{SkipDefaultTransaction: skip, TranslateError: translate})
				r.clear(t)
				plainExec(t, r.ours, "INSERT INTO ships (id, text) VALUES (1001, 'theirs')")
				for name, create := range map[string]func() error{
					"a slice":   func() error { return r.ours.Create(&[]ship{{}, {}, {}}).Error },
					"a struct":  func() error { r.our.startAt(1001); return r.ours.Create(&ship{}).Error },
					"UpdateAll": func() error { return r.ours.Save(&[]ship{{ID: 8}, {}, {}, {}}).Error },
					"a child":   func() error { return r.ours.Create(&voyage{Ship: &ship{}}).Error },
				} {
					r.our.startAt(firstNumber)
					err := create()
					suite.Says(t, err, "1001", "ships", "WithNode given twice", "stop it")
					if skip {
						suite.Says(t, err, "there is no transaction", "nothing of this statement")
					}
					if t.Failed() {
						t.Fatal(name, err)
					}
				}
				r.our.startAt(firstNumber)
				err := r.ours.Clauses(doNothing()).Create(&[]ship{{}, {}, {}}).Error
				suite.Says(t, err, "1001", "ships")
				switch {
				case skip && target.Dialect == "mysql":
					suite.Says(t, err, "nothing of this statement")
				case skip:
					suite.Says(t, err, "2 of the rows with the keys 1000, 1001, 1002")
				}
			}
		}
	})
}
