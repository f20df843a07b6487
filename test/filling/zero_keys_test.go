package filling_test

import (
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/snowflaketest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestZeroKeys(t *testing.T) { run(t, zeroKeyBehaviors()) }

func zeroKeyBehaviors() []behavior {
	return []behavior{
		{Name: "keys that the database gives are left to it", Run: databaseKeysLeft},
		{Name: "a foreign key that cannot hold the ID it refers to is refused by name", Run: unfitForeignKeyRefused},
		{Name: "a model is prepared for the table of the handle as well", Run: preparedForTable},
	}
}

func databaseKeysLeft(t *testing.T, target dbtest.Target) {
	type given struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey;default:(41+1)"`
		Name string
	}
	type fixed struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey;default:77"`
		Name string
	}
	db := target.Open(t, nil)
	must(t, db.AutoMigrate(&fixed{}), "AutoMigrate")
	must(t, db.Create(&fixed{Name: "a"}).Error, "create with a default of the model")
	same(t, "the key", plainOne[int64](t, db, "SELECT id FROM fixeds"), 77)
	if target.Dialect == "mysql" && target.IsTiDB(t) {
		return // it allows few functions in a default, and none of them returns a number
	}
	must(t, db.AutoMigrate(&given{}), "AutoMigrate")
	must(t, db.Create(&given{Name: "a"}).Error, "create with a default of the database")
	same(t, "the key", plainOne[int64](t, db, "SELECT id FROM givens"), 42)
}

func unfitForeignKeyRefused(t *testing.T, target dbtest.Target) {
	type toy struct {
		ID        snowflakeplugin.ID `snowflake:"true"`
		OwnerID   string
		OwnerType string
	}
	type cat struct {
		ID   snowflakeplugin.ID `snowflake:"true"`
		Toys []toy              `gorm:"polymorphic:Owner"`
	}
	type buyer struct {
		ID snowflakeplugin.ID `snowflake:"true"`
	}
	type purchase struct {
		ID    snowflakeplugin.ID `snowflake:"true"`
		Buyer string
		Of    buyer `gorm:"foreignKey:Buyer"`
	}
	type line struct {
		ID     int64 `snowflake:"true"`
		BillID uint32
	}
	type bill struct {
		ID    uint `snowflake:"true"`
		Lines []line
	}
	type part struct {
		ID     int64 `snowflake:"true"`
		BillID *uint `gorm:"size:32"`
		Bill   *bill
	}
	type label struct {
		ID int64 `snowflake:"true"`
	}
	type parcel struct {
		ID     int64   `snowflake:"true"`
		Labels []label `gorm:"many2many:parcel_labels"`
	}
	type parcelLabel struct {
		ParcelID int64  `gorm:"primaryKey"`
		LabelID  uint32 `gorm:"primaryKey"`
	}
	type year struct {
		ID int64 `snowflake:"from:years"`
	}
	type month struct {
		ID     int64 `snowflake:"true"`
		YearID int32
		Year   year
	}
	type wide struct {
		ID      int64              `snowflake:"true"`
		MonthID int64              `gorm:"size:40"` // a bigint, as on every database
		Month   month              `gorm:"foreignKey:MonthID"`
		BuyerID snowflakeplugin.ID `gorm:"size:32"` // a bigint by the type of the key
		Buyer   buyer              `gorm:"foreignKey:BuyerID"`
	}
	db := target.Open(t, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1),
		snowflakeplugin.WithNumbers("years", &snowflaketest.Counter{}))
	must(t, db.Use(plugin), "Use")
	must(t, plugin.Prepare(db, &month{}), "Prepare of a model that refers to small numbers")
	must(t, plugin.Prepare(db, &wide{}), "Prepare of a model whose columns are bigint")
	must(t, db.SetupJoinTable(&parcel{}, "Labels", &parcelLabel{}), "SetupJoinTable")
	for name, c := range map[string]struct {
		model any
		says  []string
	}{
		"32 bits":       {&bill{Lines: []line{{}}}, []string{"line.BillID", "32 bits", "bill.ID"}},
		"a column of 4": {&part{Bill: &bill{}}, []string{"part.BillID", "32 bits", "bill.ID"}},
		"many to many":  {&parcel{Labels: []label{{}}}, []string{"parcelLabel.LabelID", "32 bits", "label.ID"}},
		"polymorphic":   {&cat{Toys: []toy{{}}}, []string{"toy.OwnerID", "cat.ID"}},
		"belongs to":    {&purchase{Of: buyer{ID: 5}}, []string{"purchase.Buyer", "buyer.ID"}},
	} {
		err := plugin.Prepare(db, c.model)
		wantErr(t, err, snowflakeplugin.ErrInvalidField, name+": Prepare")
		says(t, err, c.says...)
		wantErr(t, db.Session(&gorm.Session{DryRun: true}).Create(c.model).Error,
			snowflakeplugin.ErrInvalidField, name+": create")
	}
}

func preparedForTable(t *testing.T, target dbtest.Target) {
	type account struct {
		ID   int64 `gorm:"primaryKey" snowflake:"true"`
		Name string
	}
	db, plugin := open(t, target, nil)
	must(t, plugin.Prepare(db.Table("old_accounts"), &account{}), "Prepare")
	must(t, db.Table("old_accounts").AutoMigrate(&account{}), "AutoMigrate")
	columns, err := db.Table("old_accounts").Migrator().ColumnTypes("old_accounts")
	must(t, err, "ColumnTypes")
	for _, column := range columns {
		if auto, known := column.AutoIncrement(); column.Name() == "id" && known && auto {
			t.Error("the key of old_accounts is an auto-increment one")
		}
	}
	row := account{Name: "a"}
	must(t, db.Table("old_accounts").Create(&row).Error, "create")
	same(t, "the key", plainOne[int64](t, db, "SELECT id FROM old_accounts"), row.ID)
	if row.ID == 0 {
		t.Error("the key was not filled")
	}
}
