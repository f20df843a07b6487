package statements_test

import (
	"database/sql"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// queryBehaviors test queries by the IDs that the plugin has set.
func queryBehaviors() []behavior {
	return []behavior{
		{Name: "rows are found by their IDs in every kind of condition", Run: queriesFind},
		{Name: "IDs are plucked, counted, and loaded with their relations", Run: queriesLoad},
		{Name: "FindInBatches visits every row once, by its ID", Run: queriesInBatches},
		{Name: "rows are updated and deleted by their IDs", Run: queriesChange},
		{Name: "a missing reference is stored as NULL and read as none", Run: queriesOfNulls},
		{Name: "NULL is 0 in a struct and an error in a plain ID", Run: queriesOfNullIDs},
	}
}

type (
	keeper struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name    string             `gorm:"size:50"`
		Animals []animal
	}
	animal struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		KeeperID snowflakeplugin.ID
		Keeper   *keeper
		MotherID *snowflakeplugin.ID
		Mother   *animal
		ChipID   sql.Null[snowflakeplugin.ID]
		Name     string `gorm:"size:50"`
	}
)

// openZoo creates two keepers. Ann has three animals. Ben has one animal, whose mother is one of
// Ann's.
func openZoo(t *testing.T, target dbtest.Target) (*gorm.DB, []keeper) {
	t.Helper()
	db := openAs(t, target, opening{}, &keeper{}, &animal{})
	keepers := []keeper{
		{Name: "Ann", Animals: []animal{{Name: "cat"}, {Name: "dog"}, {Name: "emu"}}},
		{Name: "Ben"},
	}
	succeed(t, db.Create(&keepers))
	kitten := animal{Name: "kitten", MotherID: pointerTo(keepers[0].Animals[0].ID),
		ChipID: sql.Null[snowflakeplugin.ID]{V: 1 << 60, Valid: true}}
	if err := db.Model(&keepers[1]).Association("Animals").Append(&kitten); err != nil {
		t.Fatal(err)
	}
	return db, keepers
}

func animalIDs(animals []animal) []snowflakeplugin.ID {
	var ids []snowflakeplugin.ID
	for _, a := range animals {
		ids = append(ids, a.ID)
	}
	return ids
}

func queriesFind(t *testing.T, target dbtest.Target) {
	db, keepers := openZoo(t, target)
	ann := keepers[0]
	ids := animalIDs(ann.Animals)
	cat, dog, emu := ids[0], ids[1], ids[2]
	for i, name := range []string{"cat", "dog", "emu"} {
		wantStored(t, db, ids[i], "SELECT id FROM animals WHERE name = ? AND keeper_id = ?", name, ann.ID)
	}
	for _, q := range []struct {
		name string
		tx   *gorm.DB
		want []snowflakeplugin.ID
	}{
		{"=", db.Where("id = ?", dog), ids[1:2]},
		{"a pointer", db.Where("id = ?", &dog), ids[1:2]},
		{"an int64", db.Where("id = ?", int64(dog)), ids[1:2]},
		{"IN", db.Where("id IN ?", []snowflakeplugin.ID{emu, cat}), []snowflakeplugin.ID{cat, emu}},
		{"NOT", db.Not("id IN ?", []snowflakeplugin.ID{cat}).Where("keeper_id = ?", ann.ID), ids[1:]},
		{"a range", db.Where("id BETWEEN ? AND ?", cat, dog), ids[:2]},
		{"tuples", db.Where("(id, keeper_id) IN ?",
			[][]any{{dog, ann.ID}, {emu, ann.ID}, {cat, keepers[1].ID}}), ids[1:]},
		{"a map", db.Where(map[string]any{"id": dog, "keeper_id": ann.ID}), ids[1:2]},
		{"a map of a slice", db.Where(map[string]any{"id": []snowflakeplugin.ID{dog, emu}}), ids[1:]},
		{"a struct", db.Where(&animal{ID: dog, KeeperID: ann.ID}), ids[1:2]},
		{"a named argument", db.Where("id = @id", sql.Named("id", dog)), ids[1:2]},
		{"clause.Eq", db.Where(clause.Eq{Column: "id", Value: dog}), ids[1:2]},
		{"clause.IN", db.Where(clause.IN{Column: "id", Values: []any{dog, emu}}), ids[1:]},
		{"a subquery", db.Where("keeper_id = (?)",
			db.Model(&keeper{}).Select("id").Where("id = ?", ann.ID)), ids},
	} {
		t.Run(q.name, func(t *testing.T) {
			var found []animal
			succeed(t, q.tx.Order("id").Find(&found))
			if got := animalIDs(found); !slices.Equal(got, q.want) {
				t.Errorf("found %d, want %d", got, q.want)
			}
			var count int64
			succeed(t, q.tx.Session(&gorm.Session{}).Order(clause.OrderBy{}).
				Model(&animal{}).Count(&count))
			wantInt(t, "the count", count, len(q.want))
		})
	}
	for name, argument := range map[string]any{
		"an ID": dog, "a text": dog.String(), "a number": int64(dog),
	} {
		var found animal
		succeed(t, db.First(&found, argument))
		wantInt(t, "found by "+name, found.ID, dog)
	}
}

func queriesLoad(t *testing.T, target dbtest.Target) {
	db, keepers := openZoo(t, target)
	ann, ben := keepers[0], keepers[1]
	stored := plainRows[int64](t, db, "SELECT id FROM animals WHERE keeper_id = ? ORDER BY id", ann.ID)

	var plucked []snowflakeplugin.ID
	succeed(t, db.Model(&animal{}).Where("keeper_id = ?", ann.ID).Order("id").Pluck("id", &plucked))
	var numbers []int64
	succeed(t, db.Model(&animal{}).Where("keeper_id = ?", ann.ID).Order("id").Pluck("id", &numbers))
	if !slices.Equal(numbers, stored) || !slices.Equal(plucked, animalIDs(ann.Animals)) {
		t.Errorf("plucked %d and %d, want %d", plucked, numbers, stored)
	}

	var loaded []keeper
	succeed(t, db.Preload("Animals", func(tx *gorm.DB) *gorm.DB { return tx.Order("id") }).
		Preload("Animals.Mother").Order("id").Find(&loaded))
	if len(loaded) != 2 || !slices.Equal(animalIDs(loaded[0].Animals), animalIDs(ann.Animals)) {
		t.Fatalf("loaded %+v", loaded)
	}
	kitten := loaded[1].Animals[0]
	if kitten.Mother == nil || kitten.Mother.ID != ann.Animals[0].ID || kitten.ChipID.V != 1<<60 {
		t.Errorf("loaded the kitten %+v", kitten)
	}

	var joined animal
	succeed(t, db.Joins("Keeper").Joins("Mother").First(&joined, "animals.id = ?", kitten.ID))
	if joined.Keeper == nil || joined.Keeper.ID != ben.ID || joined.Mother.ID != ann.Animals[0].ID {
		t.Errorf("joined %+v", joined)
	}
	wantInt(t, "the association's count", db.Model(&ann).Association("Animals").Count(), 3)
}

func queriesInBatches(t *testing.T, target dbtest.Target) {
	db, keepers := openZoo(t, target)
	var visited []snowflakeplugin.ID
	var batch []animal
	succeed(t, db.FindInBatches(&batch, 2, func(*gorm.DB, int) error {
		visited = append(visited, animalIDs(batch)...)
		return nil
	}))
	want := append(animalIDs(keepers[0].Animals), animalIDs(keepers[1].Animals)...)
	if !slices.Equal(visited, want) {
		t.Errorf("visited %d, want %d", visited, want)
	}
}

func queriesChange(t *testing.T, target dbtest.Target) {
	db, keepers := openZoo(t, target)
	cat, dog, emu := keepers[0].Animals[0], keepers[0].Animals[1], keepers[0].Animals[2]
	succeed(t, db.Model(&dog).Update("name", "wolf"))
	succeed(t, db.Model(&animal{}).Where("id = ?", emu.ID).Updates(animal{Name: "ostrich"}))
	for id, want := range map[snowflakeplugin.ID]string{
		cat.ID: "cat", dog.ID: "wolf", emu.ID: "ostrich",
	} {
		if got := plainOne[string](t, db, "SELECT name FROM animals WHERE id = ?", id); got != want {
			t.Errorf("%d has the name %q, want %q", id, got, want)
		}
	}
	succeed(t, db.Delete(&animal{}, emu.ID))
	succeed(t, db.Delete(&dog))
	left := plainRows[string](t, db, "SELECT name FROM animals ORDER BY name")
	if !slices.Equal(left, []string{"cat", "kitten"}) {
		t.Errorf("left are %q, want cat and kitten", left)
	}
}

func queriesOfNulls(t *testing.T, target dbtest.Target) {
	db, keepers := openZoo(t, target)
	cat, kitten := keepers[0].Animals[0], keepers[1].Animals[0]
	for _, column := range []string{"mother_id", "chip_id"} {
		if id := plainNull(t, db, "SELECT "+column+" FROM animals WHERE id = ?", cat.ID); id.Valid {
			t.Errorf("%s of the cat is %d, want NULL", column, id.Int64)
		}
		nulls := db.Model(&animal{}).Where(map[string]any{column: nil})
		var count int64
		succeed(t, nulls.Count(&count))
		wantInt(t, "the number of animals without "+column, count, 3)
		// Both kinds can hold NULL wherever one column is read.
		var maybe []sql.Null[snowflakeplugin.ID]
		succeed(t, db.Model(&animal{}).Order("id").Pluck(column, &maybe))
		if len(maybe) != 4 || maybe[0].Valid || !maybe[3].Valid || maybe[3].V == 0 {
			t.Errorf("plucked %v", maybe)
		}
		var pointer *snowflakeplugin.ID
		row := db.Model(&animal{}).Select(column).Where("id = ?", cat.ID).Row()
		if err := row.Scan(&pointer); err != nil || pointer != nil {
			t.Errorf("%s scans as %v, %v; want nil", column, pointer, err)
		}
	}
	var read []animal
	succeed(t, db.Order("id").Find(&read))
	if read[0].MotherID != nil || read[0].ChipID.Valid {
		t.Errorf("the cat is read as %+v", read[0])
	}
	if read[3].MotherID == nil || *read[3].MotherID != cat.ID || read[3].ChipID != kitten.ChipID {
		t.Errorf("the kitten is read as %+v", read[3])
	}
	succeed(t, db.Model(&kitten).Updates(map[string]any{
		"mother_id": (*snowflakeplugin.ID)(nil), "chip_id": sql.Null[snowflakeplugin.ID]{},
	}))
	wantInt(t, "the number of animals with a reference", plainOne[int64](t, db,
		"SELECT count(*) FROM animals WHERE mother_id IS NOT NULL OR chip_id IS NOT NULL"), 0)
}

func queriesOfNullIDs(t *testing.T, target dbtest.Target) {
	db, _ := openZoo(t, target)
	// The field of this struct cannot hold NULL.
	var flat []struct {
		Name     string
		MotherID snowflakeplugin.ID
		ChipID   snowflakeplugin.ID
	}
	succeed(t, db.Model(&animal{}).Order("id").Find(&flat))
	for i, row := range flat {
		if isKitten := i == 3; isKitten != (row.MotherID != 0) || isKitten != (row.ChipID != 0) {
			t.Errorf("%s is read as %+v", row.Name, row)
		}
	}
	var ids []snowflakeplugin.ID
	if err := db.Model(&animal{}).Pluck("mother_id", &ids).Error; err == nil {
		t.Errorf("plucked %d although there are NULLs", ids)
	}
	last := snowflakeplugin.ID(5)
	tx := db.Model(&animal{}).Where("1 = 0").Select("max(id)")
	if err := tx.Session(&gorm.Session{}).Scan(&last).Error; err == nil || last != 5 {
		t.Errorf("the maximum of nothing is %d, %v; want an error and 5 as before", last, err)
	}
	var maybe sql.Null[snowflakeplugin.ID]
	if err := tx.Session(&gorm.Session{}).Row().Scan(&maybe); err != nil || maybe.Valid {
		t.Errorf("the maximum of nothing is %v, %v; want NULL", maybe, err)
	}
}
