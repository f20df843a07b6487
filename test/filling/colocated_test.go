package filling_test

import (
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type colocatedParent struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Children []colocatedChild   `gorm:"foreignKey:ParentID"`
}

type colocatedChild struct {
	ID       int64               `gorm:"primaryKey" snowflake:"like:ParentID"`
	Public   string              `gorm:"size:20" snowflake:"like:parent_id"`
	Other    snowflakeplugin.ID  `snowflake:"true"`
	ParentID *snowflakeplugin.ID `gorm:"not null"`
}

// Without a router, the number of shards is the one that was passed to the plugin.
func TestAFieldTaggedLikeAnotherLiesBesideIt(t *testing.T) {
	t.Parallel()
	const shards = 64
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		plugin := leased(t, db, snowflakeplugin.WithShards(shards))
		must(t, plugin.Prepare(db, &colocatedParent{}, &colocatedChild{}), "Prepare")
		must(t, db.AutoMigrate(&colocatedParent{}, &colocatedChild{}), "AutoMigrate")

		parents := make([]colocatedParent, 20)
		for i := range parents {
			parents[i].Children = make([]colocatedChild, 3)
		}
		must(t, db.Create(&parents).Error, "with associations")
		own := parents[7].ID
		must(t, db.Create(&colocatedChild{ParentID: &own}).Error, "a struct")
		must(t, db.Create([]*colocatedChild{{ParentID: &own}, {ParentID: &parents[8].ID}}).Error, "pointers")
		must(t, db.Model(&colocatedChild{}).Create(map[string]any{"ParentID": own}).Error, "a map")
		maps := []map[string]any{{"parent_id": int64(own)}, {"parent_id": own}}
		must(t, db.Model(&colocatedChild{}).Create(maps).Error, "maps")

		var all []colocatedChild
		must(t, db.Find(&all).Error, "Find")
		if len(all) != 66 {
			t.Errorf("%d children", len(all))
		}
		seen := map[string]bool{}
		for _, child := range all {
			public, err := snowflakeplugin.ParseID(child.Public)
			must(t, err, "ParseID")
			shard := int64(*child.ParentID) % shards
			if child.ID%shards != shard || int64(public)%shards != shard || child.Other == 0 {
				t.Errorf("%+v is not on shard %d", child, shard)
			}
			seen[child.Public] = true
		}
		if len(seen) != len(all) {
			t.Errorf("%d numbers for %d children", len(seen), len(all))
		}
	})
}

func TestAChildWithoutItsParentIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		plugin := leased(t, db)
		must(t, plugin.Prepare(db, &colocatedParent{}, &colocatedChild{}), "Prepare")
		must(t, db.AutoMigrate(&colocatedParent{}, &colocatedChild{}), "AutoMigrate")
		var zero snowflakeplugin.ID
		child := colocatedChild{ParentID: &zero}
		for name, create := range map[string]func() *gorm.DB{
			"NULL":  func() *gorm.DB { return db.Create(&colocatedChild{}) },
			"zero":  func() *gorm.DB { return db.Create(&child) },
			"a map": func() *gorm.DB { return db.Model(&colocatedChild{}).Create(map[string]any{}) },
			"text":  func() *gorm.DB { return db.Model(&colocatedChild{}).Create(map[string]any{"parent_id": "x"}) },
		} {
			err := create().Error
			wantErr(t, err, snowflakeplugin.ErrNoParent, name)
			if !strings.Contains(err.Error(), "colocatedChild.ParentID") {
				t.Errorf("%s: %v does not name the field", name, err)
			}
		}
		if child.ID != 0 || child.Other != 0 {
			t.Errorf("a row that is nowhere has the IDs %+v", child)
		}
		var n int64
		must(t, db.Model(&colocatedChild{}).Count(&n).Error, "Count")
		if n != 0 {
			t.Errorf("%d rows were stored", n)
		}
	})
}

func TestATagThatIsLikeNothingIsRefused(t *testing.T) {
	t.Parallel()
	type unknown struct {
		ID int64 `gorm:"primaryKey" snowflake:"like:Nobody"`
	}
	type itself struct {
		ID int64 `gorm:"primaryKey" snowflake:"like:ID"`
	}
	type nothing struct {
		ID int64 `gorm:"primaryKey" snowflake:"like:"`
	}
	type hidden struct {
		ID     int64 `gorm:"primaryKey" snowflake:"like:Parent"`
		Parent int64 `gorm:"-"`
	}
	db := dbtest.Targets()[0].Open(t, nil)
	plugin := leased(t, db)
	for _, model := range []any{&unknown{}, &itself{}, &nothing{}, &hidden{}} {
		err := plugin.Prepare(db, model)
		wantErr(t, err, snowflakeplugin.ErrInvalidField, "a bad tag")
		if !strings.Contains(err.Error(), "names no other column") {
			t.Errorf("%T: %v", model, err)
		}
	}
}
