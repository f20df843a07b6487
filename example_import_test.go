package snowflakeplugin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
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

// NewKey is the map from old keys to new ones. It stays, because links outside of the database have old keys.
type NewKey struct {
	Old int64 `gorm:"primaryKey;autoIncrement:false"`
	New snowflakeplugin.ID
}

// importer brings the rows of gorm.io/sharding to a router.
type importer struct {
	db     *gorm.DB // of the old tables and of the map
	plugin *snowflakeplugin.Plugin
	router *snowflakeplugin.Router
}

// parcels imports one old table from where it stands, by chunks. After an error or a crash it is called again:
// what is done has its keys in the map and its rows in the shards, and is left as it is.
func (im importer) parcels(ctx context.Context, table string, chunk int) (moved int, err error) {
	for last := int64(0); ; {
		var old []struct {
			ID, UserID int64
			Name       string
		}
		err := im.db.WithContext(ctx).Table(table).Where("id > ?", last).Order("id").Limit(chunk).Find(&old).Error
		if err != nil || len(old) == 0 {
			return moved, err
		}
		var keys []int64
		for _, row := range old {
			keys, last = append(keys, row.ID), row.ID
		}
		known, err := im.keysOf(ctx, keys)
		if err != nil {
			return moved, err
		}
		// The new keys go into the map first. So a row that was stored is always found again by its old key.
		var made []NewKey
		for _, row := range old {
			if known[row.ID] == 0 {
				id, err := im.plugin.NextLike(ctx, snowflakeplugin.ID(row.UserID))
				if err != nil {
					return moved, err
				}
				known[row.ID] = id
				made = append(made, NewKey{row.ID, id})
			}
		}
		if len(made) > 0 {
			if err := im.db.WithContext(ctx).Create(&made).Error; err != nil {
				return moved, err
			}
		}
		rows := make([]Parcel, len(old))
		for i, row := range old {
			rows[i] = Parcel{ID: known[row.ID], UserID: snowflakeplugin.ID(row.UserID), Name: row.Name}
		}
		n, err := im.store(ctx, rows)
		if moved += n; err != nil {
			return moved, err
		}
	}
}

// store stores the rows that are not there yet.
func (im importer) store(ctx context.Context, rows []Parcel) (int, error) {
	var ids []snowflakeplugin.ID
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	var there []Parcel
	var missing *snowflakeplugin.MissingError
	switch err := im.router.Find(ctx, &there, ids); {
	case err == nil:
		return 0, nil
	case !errors.As(err, &missing):
		return 0, err
	}
	lacking := map[snowflakeplugin.ID]bool{}
	for _, id := range missing.IDs {
		lacking[id] = true
	}
	var left []Parcel
	for _, row := range rows {
		if lacking[row.ID] {
			left = append(left, row)
		}
	}
	return len(left), im.router.Create(ctx, left)
}

// keysOf looks old keys up in the map.
func (im importer) keysOf(ctx context.Context, old []int64) (map[int64]snowflakeplugin.ID, error) {
	var found []NewKey
	err := im.db.WithContext(ctx).Where(clause.IN{Column: "old", Values: anyKeys(old)}).Find(&found).Error
	known := map[int64]snowflakeplugin.ID{}
	for _, k := range found {
		known[k.Old] = k.New
	}
	return known, err
}

func anyKeys(keys []int64) (values []any) {
	for _, key := range keys {
		values = append(values, key)
	}
	return values
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
	exampleCheck(db.AutoMigrate(&NewKey{}))

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
	im := importer{db, plugin, router}
	for range 2 { // The second time finds nothing to do.
		for table := range tables {
			n, err := im.parcels(ctx, fmt.Sprintf("old_parcels_%d", table), 100)
			exampleCheck(err)
			fmt.Println("table", table, "has brought", n)
		}
	}
	known, err := im.keysOf(ctx, []int64{1801234567890284544})
	exampleCheck(err)
	var c Parcel
	handle, err := router.DB(ctx, &Parcel{}, 7) // the shard of the user
	exampleCheck(err)
	exampleCheck(handle.First(&c, known[1801234567890284544]).Error)
	fmt.Println(c.Name, "of user", c.UserID, "is on shard", int64(c.ID)%shards)
	exampleCheck(plugin.Close(ctx))
	// Output:
	// table 0 has brought 2
	// table 1 has brought 1
	// table 0 has brought 0
	// table 1 has brought 0
	// c of user 7 is on shard 3
}
