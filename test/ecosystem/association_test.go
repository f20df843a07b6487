package ecosystem_test

import (
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type kennel struct {
	ID   snowflakeplugin.ID
	Dogs []kennelDog
}

type kennelDog struct {
	ID       snowflakeplugin.ID
	KennelID snowflakeplugin.ID
	Note     string
}

// GORM's generics have associations since 1.31, which is newer than what the root requires.
func TestGenericAssociationsAreFilled(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.OpenDSN(t, target.DSN(t), nil)
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
		if err := db.Use(plugin); err != nil {
			t.Fatal(err)
		}
		if err := db.AutoMigrate(&kennel{}, &kennelDog{}); err != nil {
			t.Fatal(err)
		}
		k := kennel{}
		if err := db.Create(&k).Error; err != nil {
			t.Fatal(err)
		}
		set := clause.Association{
			Association: "Dogs", Type: clause.OpCreate,
			Set: []clause.Assignment{{Column: clause.Column{Name: "note"}, Value: "set"}},
		}
		given := clause.Association{
			Association: "Dogs", Type: clause.OpCreate, Values: []any{&kennelDog{Note: "given"}},
		}
		for _, op := range []clause.Association{set, given} {
			if _, err := gorm.G[kennel](db).Where("id = ?", k.ID).Set(op).Update(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var dogs []kennelDog
		if err := db.Order("id").Find(&dogs).Error; err != nil {
			t.Fatal(err)
		}
		if len(dogs) != 2 {
			t.Fatalf("there are %d dogs instead of 2", len(dogs))
		}
		for _, dog := range dogs {
			if dog.ID <= k.ID || dog.KennelID != k.ID {
				t.Errorf("dog %+v of kennel %d", dog, k.ID)
			}
		}
	})
}
