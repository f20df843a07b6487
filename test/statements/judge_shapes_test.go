package statements_test

import (
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// judgedShape is a create of ours whose new row meets a stranger's by its key. Both sources start so that the
// numbers of the two rows are equal: what the stranger creates has the number firstNumber+at.
type judgedShape struct {
	name   string
	at     int64
	only   string                  // a dialect, or "" for all
	theirs any                     // a pointer to what the stranger has created before
	before func(tx *gorm.DB) error // what we have created before, if anything
	ours   func(tx *gorm.DB) error // what must be refused
}

// firstNumber is the first number of ours in a shape.
const firstNumber = 1000

func judgedShapes() []judgedShape {
	ship1 := func() any { return &ship{Text: "theirs"} }
	updateAll := clause.OnConflict{UpdateAll: true}
	full := &gorm.Session{FullSaveAssociations: true}
	onID := func(c clause.OnConflict) clause.OnConflict { c.Columns = onColumn("id"); return c }
	onName := func(c clause.OnConflict) clause.OnConflict { c.Columns = onColumn("name"); return c }
	sets := clause.AssignmentColumns([]string{"text"})
	voyageOf := func(tx *gorm.DB) error { return tx.Create(&voyage{ID: 5, Text: "ours"}).Error }
	old := func(rows any) func(*gorm.DB) error {
		return func(tx *gorm.DB) error { return tx.Create(rows).Error }
	}
	create := func(row func() any, clauses ...clause.Expression) func(*gorm.DB) error {
		return func(tx *gorm.DB) error { return tx.Clauses(clauses...).Create(row()).Error }
	}
	shapes := []judgedShape{
		{name: "a struct", theirs: ship1(), ours: create(func() any { return &ship{} })},
		{name: "a slice", theirs: ship1(), at: 1, ours: create(func() any { return &[]ship{{}, {}, {}} })},
		{name: "a slice with a key of ours", theirs: ship1(), at: 0,
			ours: create(func() any { return &[]ship{{ID: 7}, {}} })},
		{name: "FirstOrCreate", theirs: ship1(),
			ours: func(tx *gorm.DB) error { return tx.FirstOrCreate(&ship{}, ship{Text: "none"}).Error }},
		{name: "Save", theirs: ship1(), ours: func(tx *gorm.DB) error { return tx.Save(&ship{}).Error }},

		{name: "has one", at: 1, theirs: &logbook{Text: "theirs"},
			ours: create(func() any { return &voyage{Log: &logbook{}} })},
		{name: "has many", at: 2, theirs: &crate{Text: "theirs"},
			ours: create(func() any { return &voyage{Crates: []crate{{}, {}, {}}} })},
		{name: "has many with a further unique key", at: 1, theirs: &permit{Code: "a", Text: "theirs"},
			ours: create(func() any { return &voyage{Passes: []permit{{Code: "b"}, {Code: "c"}}} })},
		{name: "polymorphic", at: 1, theirs: &stamp{Text: "theirs"},
			ours: create(func() any { return &voyage{Stamps: []stamp{{}, {}}} })},
		{name: "belongs to", at: 1, theirs: ship1(),
			ours: create(func() any { return &voyage{Ship: &ship{}} })},
		{name: "belongs to, with a further unique key", at: 1, theirs: &port{Name: "a", Text: "theirs"},
			ours: create(func() any { return &voyage{Port: &port{Name: "b"}} })},
		{name: "belongs to, for a slice", at: 3, theirs: ship1(),
			ours: create(func() any { return &[]voyage{{Ship: &ship{}}, {Ship: &ship{}}} })},
		{name: "many to many", at: 2, theirs: ship1(),
			ours: create(func() any { return &voyage{Sailors: []*ship{{}, {}}} })},
		{name: "many to many, with a further unique key", at: 2, theirs: &port{Name: "a", Text: "theirs"},
			ours: create(func() any { return &voyage{Havens: []*port{{Name: "b"}, {Name: "c"}}} })},
		{name: "many to many, an old one and a new one", theirs: ship1(), before: old(&ship{ID: 7}), at: 1,
			ours: create(func() any { return &voyage{Sailors: []*ship{{ID: 7}, {}}} })},
		{name: "many to many, an old one and a new one, with a further unique key", at: 1,
			theirs: &port{Name: "a", Text: "theirs"}, before: old(&port{ID: 7, Name: "old"}),
			ours: create(func() any { return &voyage{Havens: []*port{{ID: 7, Name: "old"}, {Name: "c"}}} })},
		{name: "all of a tree saved in full", at: 3, theirs: &crate{Text: "theirs"},
			ours: func(tx *gorm.DB) error {
				return tx.Session(full).Create(&voyage{Ship: &ship{}, Log: &logbook{}, Crates: []crate{{}}}).Error
			}},
		{name: "a belongs to, saved in full", at: 1, theirs: ship1(),
			ours: func(tx *gorm.DB) error { return tx.Session(full).Create(&voyage{Ship: &ship{}}).Error }},
		{name: "Save of a struct with an old child and a new one", theirs: &crate{Text: "theirs"},
			before: old(&voyage{ID: 5, Crates: []crate{{ID: 7, Text: "old"}}}),
			ours: func(tx *gorm.DB) error {
				return tx.Save(&voyage{ID: 5, Crates: []crate{{ID: 7, Text: "old"}, {Text: "new"}}}).Error
			}},
		{name: "Save in full of a struct with an old child and a new one", theirs: &crate{Text: "theirs"},
			before: old(&voyage{ID: 5, Crates: []crate{{ID: 7, Text: "old"}}}),
			ours: func(tx *gorm.DB) error {
				return tx.Session(full).Save(&voyage{ID: 5, Crates: []crate{{ID: 7}, {Text: "new"}}}).Error
			}},
		{name: "Updates with a new child, in full", theirs: &crate{Text: "theirs"}, before: voyageOf,
			ours: func(tx *gorm.DB) error {
				return tx.Session(full).Updates(&voyage{ID: 5, Text: "x", Crates: []crate{{}}}).Error
			}},
		{name: "Append to has many", theirs: &crate{Text: "theirs"}, before: voyageOf,
			ours: func(tx *gorm.DB) error {
				return tx.Model(&voyage{ID: 5}).Association("Crates").Append(&crate{})
			}},
		{name: "Append to many to many", theirs: ship1(), before: voyageOf,
			ours: func(tx *gorm.DB) error {
				return tx.Model(&voyage{ID: 5}).Association("Sailors").Append(&ship{})
			}},
		{name: "Replace of belongs to", theirs: ship1(), before: voyageOf,
			ours: func(tx *gorm.DB) error {
				return tx.Model(&voyage{ID: 5}).Association("Ship").Replace(&ship{})
			}},

		{name: "Save of a slice", at: 1, theirs: ship1(),
			ours: func(tx *gorm.DB) error { return tx.Save(&[]ship{{}, {}}).Error }},
		{name: "Save of a slice with a key of ours", theirs: ship1(), before: old(&ship{ID: 7}),
			ours: func(tx *gorm.DB) error { return tx.Save(&[]ship{{ID: 7, Text: "x"}, {}}).Error }},
		{name: "Save of a slice whose key lies between the new ones", at: 1, theirs: ship1(),
			before: old(&ship{ID: firstNumber + 0 + 1000}),
			ours:   func(tx *gorm.DB) error { return tx.Save(&[]ship{{}, {}, {ID: firstNumber + 1000}}).Error }},
		{name: "Save of a slice with a further unique key", theirs: &port{Name: "a", Text: "theirs"},
			ours: func(tx *gorm.DB) error { return tx.Save(&[]port{{Name: "b"}, {Name: "c"}}).Error }},
		{name: "UpdateAll", theirs: ship1(), ours: create(func() any { return &ship{} }, updateAll)},
		{name: "UpdateAll with public IDs", theirs: &permit{Code: "a", Text: "theirs"},
			ours: create(func() any { return &permit{Code: "b"} }, updateAll)},
		{name: "UpdateAll with public IDs and a key of ours", theirs: &permit{Code: "a", Text: "theirs"},
			before: old(&permit{ID: 7, PublicID: 8, Code: "c"}),
			ours:   create(func() any { return &[]permit{{ID: 7, Code: "c"}, {Code: "b"}} }, updateAll)},
		{name: "DoUpdates on the key", theirs: ship1(),
			ours: create(func() any { return &ship{} }, onID(clause.OnConflict{DoUpdates: sets}))},
		{name: "DoUpdates on the key with a condition that is false", theirs: ship1(),
			ours: create(func() any { return &[]ship{{ID: 7}, {}} }, onID(clause.OnConflict{DoUpdates: sets,
				Where: clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "1 = 0"}}}}))},
		{name: "DoUpdates without a target", only: "mysql sqlite", theirs: &port{Name: "a", Text: "theirs"},
			ours: create(func() any { return &port{Name: "b"} }, clause.OnConflict{DoUpdates: sets})},
		{name: "DoUpdates by name", theirs: &port{Name: "a", Text: "theirs"},
			ours: create(func() any { return &port{Name: "b"} }, onName(clause.OnConflict{DoUpdates: sets}))},
		{name: "UpdateAll by name", at: 1, theirs: &port{Name: "a", Text: "theirs"},
			ours: create(func() any { return &[]port{{Name: "b"}, {Name: "c"}} },
				onName(clause.OnConflict{UpdateAll: true}))},
		{name: "UpdateAll by name, a row that is met and a new one", at: 1,
			theirs: &port{Name: "a", Text: "theirs"}, before: old(&port{ID: 7, Name: "b"}),
			ours: create(func() any { return &[]port{{Name: "b", Text: "new"}, {Name: "c"}} },
				onName(clause.OnConflict{UpdateAll: true}))},
		{name: "UpdateAll on the constraint of the key", only: "postgres", theirs: ship1(),
			ours: create(func() any { return &ship{} },
				clause.OnConflict{OnConstraint: "ships_pkey", UpdateAll: true})},
		{name: "DoNothing on the constraint of the key", only: "postgres", theirs: ship1(),
			ours: create(func() any { return &ship{} },
				clause.OnConflict{OnConstraint: "ships_pkey", DoNothing: true})},
		{name: "DoNothing", theirs: ship1(), ours: create(func() any { return &ship{} }, doNothing())},
		{name: "DoNothing of a slice", at: 1, theirs: ship1(),
			ours: create(func() any { return &[]ship{{}, {}, {}} }, doNothing())},
		{name: "DoNothing of a slice with a further unique key", at: 1, theirs: &port{Name: "a", Text: "theirs"},
			before: old(&port{ID: 7, Name: "b"}),
			ours:   create(func() any { return &[]port{{Name: "b"}, {Name: "c"}, {Name: "d"}} }, doNothing())},
		{name: "DoNothing of a slice with a key of ours", theirs: ship1(), before: old(&ship{ID: 7}),
			ours: create(func() any { return &[]ship{{ID: 7}, {ID: 8}, {}} }, doNothing())},
		{name: "DoNothing on the key", theirs: ship1(),
			ours: create(func() any { return &[]ship{{ID: 7}, {}} }, onID(doNothing()))},
		{name: "DoNothing by name", theirs: &port{Name: "a", Text: "theirs"},
			ours: create(func() any { return &port{Name: "b"} }, onName(doNothing()))},
		{name: "DoNothing of pointers", at: 1, theirs: ship1(),
			ours: create(func() any { return []*ship{{}, {}} }, doNothing())},
		{name: "DoNothing with a column returned", at: 1, theirs: ship1(),
			ours: create(func() any { return &[]ship{{Text: "x"}, {Text: "x"}} }, doNothing(),
				clause.Returning{Columns: onColumn("text")})},
		{name: "DoNothing with the key returned and a key of ours", theirs: ship1(),
			ours: create(func() any { return &[]ship{{ID: 7}, {}, {}} }, doNothing(),
				clause.Returning{Columns: onColumn("id")})},
		{name: "DoNothing with everything returned", at: 1, theirs: ship1(),
			ours: create(func() any { return &[]ship{{}, {}} }, doNothing(), clause.Returning{})},
		{name: "DoNothing with everything returned and a key of ours", theirs: ship1(), before: old(&ship{ID: 7}),
			ours: create(func() any { return &[]ship{{ID: 7}, {}} }, doNothing(), clause.Returning{})},
		{name: "INSERT IGNORE", only: "mysql", theirs: ship1(),
			ours: create(func() any { return &[]ship{{}, {}} }, clause.Insert{Modifier: "IGNORE"})},
		{name: "INSERT IGNORE with UpdateAll", only: "mysql", theirs: ship1(),
			ours: create(func() any { return &[]ship{{}, {}} }, clause.Insert{Modifier: "IGNORE"}, updateAll)},
		{name: "INSERT OR IGNORE", only: "sqlite", at: 1, theirs: ship1(),
			ours: create(func() any { return &[]ship{{}, {}} }, clause.Insert{Modifier: "OR IGNORE"})},
		{name: "INSERT OR IGNORE with UpdateAll", only: "sqlite", theirs: ship1(),
			ours: create(func() any { return &[]ship{{}, {}} }, clause.Insert{Modifier: "OR IGNORE"}, updateAll)},

		{name: "a map", theirs: ship1(), ours: func(tx *gorm.DB) error {
			return tx.Model(&ship{}).Create(map[string]any{"text": "x"}).Error
		}},
		{name: "maps with UpdateAll", at: 1, theirs: ship1(), ours: func(tx *gorm.DB) error {
			return tx.Model(&ship{}).Clauses(updateAll).Create([]map[string]any{{"text": "x"}, {"text": "y"}}).Error
		}},
		{name: "maps with DoNothing", at: 1, theirs: ship1(), ours: func(tx *gorm.DB) error {
			rows := []map[string]any{{"text": "x"}, {"text": "y"}}
			return tx.Model(&ship{}).Clauses(doNothing()).Create(rows).Error
		}},
		{name: "maps with DoNothing and a key of ours", theirs: ship1(), ours: func(tx *gorm.DB) error {
			return tx.Model(&ship{}).Clauses(doNothing()).Create(
				[]map[string]any{{"id": int64(7), "text": "x"}, {"text": "y"}}).Error
		}},
		{name: "batches", at: 3, theirs: ship1(), ours: func(tx *gorm.DB) error {
			return tx.CreateInBatches(&[]ship{{}, {}, {}, {}, {}}, 2).Error
		}},
		{name: "batches with DoNothing", at: 3, theirs: ship1(), ours: func(tx *gorm.DB) error {
			return tx.Clauses(doNothing()).CreateInBatches(&[]ship{{}, {}, {}, {}, {}}, 2).Error
		}},
		{name: "batches with UpdateAll", at: 3, theirs: ship1(), ours: func(tx *gorm.DB) error {
			return tx.Clauses(updateAll).CreateInBatches(&[]ship{{}, {}, {}, {}, {}}, 2).Error
		}},
		{name: "generics", theirs: ship1(), ours: func(tx *gorm.DB) error {
			return gorm.G[ship](tx).Create(tx.Statement.Context, &ship{})
		}},
		{name: "generics with UpdateAll", theirs: ship1(), ours: func(tx *gorm.DB) error {
			return gorm.G[ship](tx, updateAll).Create(tx.Statement.Context, &ship{})
		}},
		{name: "generics in batches with DoNothing", at: 1, theirs: ship1(), ours: func(tx *gorm.DB) error {
			return gorm.G[ship](tx, doNothing()).CreateInBatches(tx.Statement.Context, &[]ship{{}, {}, {}}, 2)
		}},
		{name: "in a transaction of the user", at: 1, theirs: &crate{Text: "theirs"},
			ours: func(tx *gorm.DB) error {
				return tx.Transaction(func(tx *gorm.DB) error {
					return tx.Create(&voyage{Crates: []crate{{}}}).Error
				})
			}},

		{name: "integer keys with UpdateAll", theirs: &buoy{Text: "theirs"},
			ours: create(func() any { return &[]buoy{{}, {}} }, updateAll)},
		{name: "integer keys with DoNothing and a key of ours", theirs: &buoy{Text: "theirs"},
			ours: create(func() any { return &[]buoy{{ID: 7}, {}} }, doNothing())},
		{name: "unsigned keys with UpdateAll by name", theirs: &tide{Name: "a", Text: "theirs"},
			ours: create(func() any { return &tide{Name: "b"} }, onName(updateAll))},
		{name: "text keys with UpdateAll", theirs: &beacon{Text: "theirs"},
			ours: create(func() any { return &[]beacon{{ID: "b"}, {}} }, updateAll)},
		{name: "text keys with DoNothing", theirs: &beacon{Text: "theirs"},
			ours: create(func() any { return &beacon{} }, doNothing())},
		{name: "keys of bytes with UpdateAll", theirs: &signal{Text: "theirs"},
			ours: create(func() any { return &[]signal{{ID: []byte("12345678")}, {}} }, updateAll)},
		{name: "keys of bytes with DoNothing", theirs: &signal{Text: "theirs"},
			ours: create(func() any { return &[]signal{{}, {}} }, doNothing())},
		{name: "a struct with a key of two columns", theirs: &berth{Pier: 1, Text: "theirs"},
			ours: create(func() any { return &berth{Pier: 1} })},
		{name: "keys of two columns with UpdateAll", theirs: &berth{Pier: 1, Text: "theirs"},
			ours: create(func() any { return &[]berth{{Pier: 1}, {Pier: 2, ID: 7}} }, updateAll)},
		{name: "keys of two columns with DoNothing", theirs: &berth{Pier: 1, Text: "theirs"},
			ours: create(func() any { return &[]berth{{Pier: 1}, {Pier: 2}} }, doNothing())},
		{name: "quoted names with UpdateAll", theirs: &flag{Text: "theirs"},
			ours: create(func() any { return &[]flag{{FlagKey: FlagKey{ID: 7}}, {}} }, updateAll)},
		{name: "quoted names with DoNothing", at: 1, theirs: &flag{Text: "theirs"},
			ours: create(func() any { return &[]flag{{}, {}} }, doNothing())},
		{name: "quoted names", at: 1, theirs: &flag{Text: "theirs"},
			ours: create(func() any { return &[]flag{{}, {}} })},
		{name: "keys that are pointers", theirs: &anchor{Text: "theirs"},
			ours: create(func() any { return &anchor{} })},
		{name: "keys that are pointers with UpdateAll", theirs: &anchor{Text: "theirs"},
			ours: create(func() any { return &[]anchor{{ID: pointerTo(snowflakeplugin.ID(7))}, {}} }, updateAll)},
		{name: "a default of the database with DoNothing", theirs: &anchor{Text: "theirs"},
			ours: create(func() any { return &anchor{} }, doNothing())},
		{name: "a default of the database with DoNothing of a slice", at: 1, theirs: &anchor{Text: "theirs"},
			ours: create(func() any { return &[]anchor{{}, {}, {}} }, doNothing())},
		{name: "a condition with OR", theirs: ship1(),
			ours: create(func() any { return &[]ship{{ID: 7}, {}} }, onID(clause.OnConflict{DoUpdates: sets,
				Where: clause.Where{Exprs: []clause.Expression{clause.Or(clause.Expr{SQL: "1 = 1"}),
					clause.Or(clause.Expr{SQL: "1 = 0"})}}}))},
		{name: "LAST_INSERT_ID", only: "mysql", theirs: &port{Name: "a", Text: "theirs"},
			ours: create(func() any { return &port{Name: "b"} }, clause.OnConflict{
				DoUpdates: clause.Assignments(map[string]any{"id": gorm.Expr("LAST_INSERT_ID(id)")})})},
		{name: "Select and Omit", theirs: &port{Name: "a", Text: "theirs"}, ours: func(tx *gorm.DB) error {
			rows := []port{{Name: "b"}, {ID: 7, Name: "c"}}
			return tx.Select("Name").Omit("Text").Clauses(updateAll).Create(&rows).Error
		}},
		{name: "another table", theirs: ship1(), ours: func(tx *gorm.DB) error {
			return tx.Table("ships").Model(&buoy{}).Clauses(doNothing()).Create(&buoy{}).Error
		}},
	}
	return shapes
}

// runsOn reports whether a dialect knows what the shape writes.
func (s judgedShape) runsOn(dialect string) bool {
	return s.only == "" || strings.Contains(s.only, dialect)
}
