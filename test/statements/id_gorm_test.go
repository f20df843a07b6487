package statements_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// idNode is a model with IDs in every role. The tests set its keys themselves and use no plugin.
type idNode struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey"`
	Owner    snowflakeplugin.ID `gorm:"index"`
	ParentID *snowflakeplugin.ID
	Parent   *idNode  `gorm:"foreignKey:ParentID"`
	Children []idNode `gorm:"foreignKey:ParentID"`
	Alias    sql.Null[snowflakeplugin.ID]
	Tags     []idTag `gorm:"many2many:id_node_tags"`
	Name     string
}

type idTag struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey"`
	Name string
}

// The nodes are one root and two children. Their IDs differ in digits that a float cannot hold.
const (
	nodeRoot  snowflakeplugin.ID = 1541815603606036480
	nodeLeft  snowflakeplugin.ID = 1541815603606036481
	nodeRight snowflakeplugin.ID = 1541815603606036482
	nodeOwner snowflakeplugin.ID = 9007199254740993
)

// openNodes returns the handles of idHandles and one with prepared statements. The database holds
// the nodes.
func openNodes(t *testing.T, target dbtest.Target) map[string]*gorm.DB {
	t.Helper()
	dsn := target.DSN(t)
	handles := idHandles(t, target, dsn)
	handles["prepared"] = target.OpenDSN(t, dsn, &gorm.Config{PrepareStmt: true})
	db := handles["default"]
	if err := db.AutoMigrate(&idTag{}, &idNode{}); err != nil {
		t.Fatal(err)
	}
	err := db.Create(&idNode{
		ID: nodeRoot, Owner: nodeOwner, Name: "root",
		Children: []idNode{
			{ID: nodeLeft, Owner: nodeOwner, Name: "left",
				Alias: sql.Null[snowflakeplugin.ID]{V: nodeRoot, Valid: true}},
			{ID: nodeRight, Owner: 0, Name: "right"},
		},
		Tags: []idTag{{ID: maxID, Name: "last"}, {ID: 1, Name: "first"}},
	}).Error
	if err != nil {
		t.Fatal(err)
	}
	return handles
}

// nodeQueries lists ways to find nodes by ID, with the nodes that each finds.
var nodeQueries = []struct {
	name string
	want []snowflakeplugin.ID
	find func(db *gorm.DB, into *[]idNode) error
}{
	{"Where =", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Where("id = ?", nodeLeft).Find(into).Error
	}},
	{"Where = of a pointer", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		id := nodeLeft
		return db.Where("id = ?", &id).Find(into).Error
	}},
	{"Where >", []snowflakeplugin.ID{nodeLeft, nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		return db.Where("id > ?", nodeRoot).Find(into).Error
	}},
	{"Where = zero", []snowflakeplugin.ID{nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		return db.Where("owner = ?", snowflakeplugin.ID(0)).Find(into).Error
	}},
	{"Where IN", []snowflakeplugin.ID{nodeRoot, nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		ids := []snowflakeplugin.ID{nodeRight, nodeRoot, 5}
		return db.Where("id IN ?", ids).Find(into).Error
	}},
	{"Where IN of an array", []snowflakeplugin.ID{nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		return db.Where("id IN ?", [2]snowflakeplugin.ID{nodeRight, 5}).Find(into).Error
	}},
	{"tuple", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		pairs := [][]snowflakeplugin.ID{{nodeLeft, nodeOwner}, {nodeRight, nodeOwner}}
		return db.Where("(id, owner) IN ?", pairs).Find(into).Error
	}},
	{"inline IDs", []snowflakeplugin.ID{nodeRoot, nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Find(into, []snowflakeplugin.ID{nodeRoot, nodeLeft}).Error
	}},
	{"inline ID", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Find(into, nodeLeft).Error
	}},
	{"inline text", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Find(into, nodeLeft.String()).Error
	}},
	{"map", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Where(map[string]any{"id": nodeLeft, "owner": nodeOwner}).Find(into).Error
	}},
	{"map of a slice", []snowflakeplugin.ID{nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		return db.Where(map[string]any{"id": []snowflakeplugin.ID{nodeRight}}).Find(into).Error
	}},
	{"struct", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		parent := nodeRoot
		return db.Where(&idNode{ID: nodeLeft, ParentID: &parent}).Find(into).Error
	}},
	{"struct with sql.Null", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		alias := sql.Null[snowflakeplugin.ID]{V: nodeRoot, Valid: true}
		return db.Where(&idNode{Alias: alias}).Find(into).Error
	}},
	{"named argument", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Where("id = @id", sql.Named("id", nodeLeft)).Find(into).Error
	}},
	{"clause", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Clauses(clause.Eq{Column: "id", Value: nodeLeft}).Find(into).Error
	}},
	{"clause IN", []snowflakeplugin.ID{nodeLeft}, func(db *gorm.DB, into *[]idNode) error {
		return db.Clauses(clause.IN{Column: "id", Values: []any{nodeLeft, maxID}}).Find(into).Error
	}},
	{"Not", []snowflakeplugin.ID{nodeRoot}, func(db *gorm.DB, into *[]idNode) error {
		return db.Not([]snowflakeplugin.ID{nodeLeft, nodeRight}).Find(into).Error
	}},
	{"Raw", []snowflakeplugin.ID{nodeLeft, nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		return db.Raw("SELECT * FROM id_nodes WHERE parent_id = ? ORDER BY id", nodeRoot).
			Scan(into).Error
	}},
	{"Joins", []snowflakeplugin.ID{nodeLeft, nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		parent := clause.Column{Table: "Parent", Name: "id"}
		return db.Joins("Parent").Where(clause.Eq{Column: parent, Value: nodeRoot}).Find(into).Error
	}},
	{"association", []snowflakeplugin.ID{nodeLeft, nodeRight},
		func(db *gorm.DB, into *[]idNode) error {
			return db.Model(&idNode{ID: nodeRoot}).Association("Children").Find(into)
		}},
	{"FindInBatches", []snowflakeplugin.ID{nodeRoot, nodeLeft, nodeRight},
		func(db *gorm.DB, into *[]idNode) error {
			var batch []idNode
			return db.FindInBatches(&batch, 1, func(*gorm.DB, int) error {
				*into = append(*into, batch...)
				return nil
			}).Error
		}},
	{"generics", []snowflakeplugin.ID{nodeLeft, nodeRight}, func(db *gorm.DB, into *[]idNode) error {
		found, err := gorm.G[idNode](db).
			Where("id IN ?", []snowflakeplugin.ID{nodeLeft, nodeRight}).Find(context.Background())
		*into = found
		return err
	}},
}

func nodeIDs(nodes []idNode) []snowflakeplugin.ID {
	ids := make([]snowflakeplugin.ID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	slices.Sort(ids)
	return ids
}

func TestGormFindsRowsByID(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		for name, db := range openNodes(t, target) {
			for _, query := range nodeQueries {
				var found []idNode
				err := query.find(db, &found)
				if got := nodeIDs(found); err != nil || !slices.Equal(got, query.want) {
					t.Errorf("%s, %s: found %v, %v; want %v", name, query.name, got, err, query.want)
				}
			}
		}
	})
}

func TestGormReadsSingleColumnsIntoIDs(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		for name, db := range openNodes(t, target) {
			var ids []snowflakeplugin.ID
			err := db.Model(&idNode{}).Order("id").Pluck("id", &ids).Error
			if want := []snowflakeplugin.ID{nodeRoot, nodeLeft, nodeRight}; err != nil ||
				!slices.Equal(ids, want) {
				t.Errorf("%s: Pluck = %v, %v", name, ids, err)
			}
			var parents []sql.Null[snowflakeplugin.ID]
			err = db.Model(&idNode{}).Order("id").Pluck("parent_id", &parents).Error
			if err != nil || len(parents) != 3 || parents[0].Valid || parents[1].V != nodeRoot {
				t.Errorf("%s: Pluck with NULL = %v, %v", name, parents, err)
			}
			var bare []snowflakeplugin.ID
			wantInvalid(t, db.Model(&idNode{}).Pluck("parent_id", &bare).Error, "NULL")

			var count int64
			err = db.Model(&idNode{}).Where("owner = ?", nodeOwner).Distinct("owner").
				Count(&count).Error
			if err != nil || count != 1 {
				t.Errorf("%s: Count = %d, %v", name, count, err)
			}
			var top snowflakeplugin.ID
			if err := db.Model(&idNode{}).Select("max(id)").Scan(&top).Error; err != nil ||
				top != nodeRight {
				t.Errorf("%s: max(id) = %d, %v", name, top, err)
			}
			// The maximum of no rows is NULL.
			none := db.Model(&idNode{}).Where("id < ?", 0).Select("max(id)")
			wantInvalid(t, none.Session(&gorm.Session{}).Scan(&top).Error, "NULL")
			var null sql.Null[snowflakeplugin.ID]
			if err := none.Session(&gorm.Session{}).Scan(&null).Error; err != nil || null.Valid {
				t.Errorf("%s: max(id) of nothing = %v, %v", name, null, err)
			}
			var row map[string]any
			if err := db.Model(&idNode{}).Where("id = ?", nodeLeft).Take(&row).Error; err != nil ||
				row["id"] != any(nodeLeft.Int64()) {
				t.Errorf("%s: a map holds the %T %v, %v", name, row["id"], row["id"], err)
			}
			// GORM itself reads NULL into a struct field as the zero value.
			var loose struct{ ParentID snowflakeplugin.ID }
			err = db.Model(&idNode{}).Where("id = ?", nodeRoot).Take(&loose).Error
			if err != nil || loose.ParentID != 0 {
				t.Errorf("%s: NULL in a struct = %d, %v", name, loose.ParentID, err)
			}
		}
	})
}

func TestGormLoadsAssociationsByID(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		for name, db := range openNodes(t, target) {
			var root, left idNode
			err := db.Preload("Children").Preload("Tags").First(&root, nodeRoot).Error
			if err != nil || len(root.Children) != 2 || len(root.Tags) != 2 ||
				root.ParentID != nil || root.Alias.Valid || root.Owner != nodeOwner {
				t.Errorf("%s: the root is %+v, %v", name, root, err)
			}
			err = db.Preload("Parent").First(&left, nodeLeft.String()).Error
			if err != nil || left.Parent == nil || left.Parent.ID != nodeRoot ||
				left.ParentID == nil || *left.ParentID != nodeRoot || left.Alias.V != nodeRoot {
				t.Errorf("%s: the left node is %+v, %v", name, left, err)
			}
			var last idTag
			err = db.Model(&root).Where("name = ?", "last").Association("Tags").Find(&last)
			if err != nil || last.ID != maxID {
				t.Errorf("%s: the last tag is %+v, %v", name, last, err)
			}
			if n := db.Model(&root).Association("Children").Count(); n != 2 {
				t.Errorf("%s: %d children", name, n)
			}
		}
	})
}

func TestGormWritesIDs(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		for name, db := range openNodes(t, target) {
			// The transaction is rolled back, so every handle finds the same rows.
			err := db.Transaction(func(tx *gorm.DB) error {
				alias := sql.Null[snowflakeplugin.ID]{V: nodeRight, Valid: true}
				changes := map[string]any{"owner": maxID, "alias": alias}
				if n := tx.Model(&idNode{ID: nodeLeft}).Updates(changes).RowsAffected; n != 1 {
					t.Errorf("%s: Updates changed %d rows", name, n)
				}
				var left idNode
				if err := tx.First(&left, nodeLeft).Error; err != nil ||
					left.Owner != maxID || left.Alias.V != nodeRight {
					t.Errorf("%s: after Updates: %+v, %v", name, left, err)
				}
				left.ParentID, left.Alias.Valid, left.Owner = nil, false, 7
				if err := tx.Save(&left).Error; err != nil {
					t.Errorf("%s: Save: %v", name, err)
				}
				left = idNode{}
				if err := tx.First(&left, nodeLeft).Error; err != nil ||
					left.Owner != 7 || left.Alias.Valid || left.ParentID != nil {
					t.Errorf("%s: after Save: %+v, %v", name, left, err)
				}
				upsert := []idNode{{ID: nodeLeft, Owner: 8}, {ID: 5, Owner: 9}}
				if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&upsert).Error; err != nil {
					t.Errorf("%s: upsert: %v", name, err)
				}
				var owners []snowflakeplugin.ID
				err := tx.Model(&idNode{}).Where("id IN ?", []snowflakeplugin.ID{5, nodeLeft}).
					Order("id").Pluck("owner", &owners).Error
				if err != nil || !slices.Equal(owners, []snowflakeplugin.ID{9, 8}) {
					t.Errorf("%s: after the upsert: %v, %v", name, owners, err)
				}
				if n := tx.Delete(&idNode{}, nodeLeft).RowsAffected; n != 1 {
					t.Errorf("%s: Delete removed %d rows", name, n)
				}
				return errRollBack
			})
			if !errors.Is(err, errRollBack) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

var errRollBack = errors.New("roll back")

func TestGormDoesNotWriteANegativeID(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		for name, db := range openNodes(t, target) {
			wantInvalid(t, db.Create(&idNode{ID: -1, Name: "bad"}).Error, "-1: ids are never negative")
			err := db.Model(&idNode{ID: nodeLeft}).Update("owner", snowflakeplugin.ID(-1)).Error
			wantInvalid(t, err, "never negative")
			wantInvalid(t, db.Where("id = ?", snowflakeplugin.ID(-1)).Find(&[]idNode{}).Error,
				"never negative")
			var count int64
			if err := db.Model(&idNode{}).Where("id < 0 OR owner < 0").Count(&count).Error; err != nil ||
				count != 0 {
				t.Errorf("%s: %d rows with a negative number, %v", name, count, err)
			}
		}
	})
}
