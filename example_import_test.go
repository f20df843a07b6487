package snowflakeplugin_test

import (
	"context"
	"fmt"
	"log/slog"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
)

// Parcel is a row that gorm.io/sharding has spread by UserID. Now it is colocated with its user, whose ID stays
// what it is.
type Parcel struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:UserID"`
	UserID snowflakeplugin.ID `gorm:"index"`
	Name   string             `gorm:"size:100"`
	Stamps []Stamp
}

// Stamp is a child of a parcel, which follows it.
type Stamp struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:ParcelID"`
	ParcelID snowflakeplugin.ID `gorm:"index"`
	Price    int64
}

// The keys of gorm.io/sharding end with zeros and have the number of the table as node, so nearly all of them are of
// shard 0. The rows get new keys, and a map leads from the old ones to them.
func ExampleRouter_fromGormSharding() {
	ctx := context.Background()
	db := exampleDB()
	const tables, shards = 2, 4
	exampleCheck(db.Exec("CREATE TABLE old_parcels_0 (id bigint PRIMARY KEY, user_id bigint, name varchar(100))").Error)
	exampleCheck(db.Exec("CREATE TABLE old_parcels_1 (id bigint PRIMARY KEY, user_id bigint, name varchar(100))").Error)
	exampleCheck(db.Exec("INSERT INTO old_parcels_0 VALUES (1801234567890018304, 2, 'a'), (1801234567890022400, 4, 'b')").Error)
	exampleCheck(db.Exec("INSERT INTO old_parcels_1 VALUES (1801234567890284544, 7, 'c')").Error)
	exampleCheck(db.Exec("CREATE TABLE old_stamps (id bigint PRIMARY KEY, parcel_id bigint, price bigint)").Error)
	exampleCheck(db.Exec("INSERT INTO old_stamps VALUES (1801234567890284544, 1801234567890284544, 80)").Error)

	plugin := snowflakeplugin.New(
		snowflakeplugin.WithLayout(generator.Twitter()),
		// The numbers of the old tables are nodes of the old keys.
		snowflakeplugin.WithLease(nil, lease.WithNodes(tables, 1023)),
		snowflakeplugin.WithLogger(slog.New(slog.DiscardHandler)),
	)
	exampleCheck(db.Use(plugin))
	router, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: shards, Databases: []*gorm.DB{db}}, &Parcel{}, &Stamp{})
	exampleCheck(err)
	exampleCheck(router.AutoMigrate(ctx))
	for range 2 { // The second time finds nothing to do.
		for table := range tables {
			n, err := resharding.Import(ctx, router, &Parcel{}, db.Table(fmt.Sprintf("old_parcels_%d", table)),
				db.Table("parcel_keys"))
			exampleCheck(err)
			fmt.Println("table", table, "has brought", n)
		}
	}
	// The children follow their parents, whose new keys are in the map.
	stamps := db.Table("old_stamps AS s").Select("s.id, k.new AS parcel_id, s.price").
		Joins("LEFT JOIN parcel_keys k ON k.old = s.parcel_id")
	_, err = resharding.Import(ctx, router, &Stamp{}, stamps, db.Table("stamp_keys"))
	exampleCheck(err)

	var key resharding.NewKey
	exampleCheck(db.Table("parcel_keys").Where("old = ?", int64(1801234567890284544)).Take(&key).Error)
	var c Parcel
	handle, err := router.DB(ctx, &Parcel{}, 7) // the shard of the user
	exampleCheck(err)
	exampleCheck(handle.Preload("Stamps").First(&c, key.New).Error)
	fmt.Println(c.Name, "of user", c.UserID, "is on shard", int64(c.ID)%shards, "with a stamp of", c.Stamps[0].Price)
	exampleCheck(plugin.Close(ctx))
	// Output:
	// table 0 has brought 2
	// table 1 has brought 1
	// table 0 has brought 0
	// table 1 has brought 0
	// c of user 7 is on shard 3 with a stamp of 80
}
