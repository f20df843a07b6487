package filling_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestAssociations(t *testing.T) { run(t, associationBehaviors()) }

// associationBehaviors test how trees are filled: every key is set once, every foreign key refers
// to an existing row, and nothing else is added.
func associationBehaviors() []behavior {
	own := []behavior{
		{
			Name: "a join table that GORM makes up gets no keys of its own",
			Run:  generatedJoinTable,
		},
		{
			Name: "a foreign key that carries the tag is not filled",
			Run:  taggedForeignKey,
		},
		{
			Name: "a join model of the user's with a unique pair holds every pair once",
			Run:  ownJoinModel,
		},
		{
			Name: "an optional foreign key stays NULL without a row to point to",
			Run:  optionalForeignKeys,
		},
		{
			Name: "children whose keys the database gives hang on the keys of the plugin",
			Run:  untaggedChildren,
		},
	}
	return slices.Concat(own, relationBehaviors(), appendBehaviors(), embeddingBehaviors(), contextBehaviors())
}

func generatedJoinTable(t *testing.T, target dbtest.Target) {
	db, numbers := openLedger(t, target, nil, &walk{}, &walker{})
	joins := "SELECT count(*) FROM walk_walkers"

	unsaved := walk{Walkers: []walker{{}, {}}}
	err := db.Omit("Walkers.*").Create(&unsaved).Error
	wantErr(t, err, nil, "create without the walkers")
	same(t, "numbers taken for the walk alone", fmt.Sprint(numbers.take()), "[1]")
	same(t, "the ID of the walk", unsaved.ID, 0)
	same(t, "the ID of a walker that was omitted", unsaved.Walkers[0].ID|unsaved.Walkers[1].ID, 0)
	same(t, "rows of the join table", plainOne[int](t, db, joins), 0)
	holds(t, db, &walk{}, 0)
	holds(t, db, &walker{}, 0)

	there := []walker{{}, {}}
	must(t, db.Create(&there).Error, "create walkers")
	w := walk{Walkers: there}
	must(t, db.Omit("Walkers.*").Create(&w).Error, "create with walkers that are there")
	pair := joins + " WHERE walk_id = ? AND walker_id = ?"
	for _, one := range there {
		same(t, "join rows of a walker", plainOne[int](t, db, pair, w.ID, one.ID), 1)
	}
	same(t, "rows of the join table", plainOne[int](t, db, joins), 2)

	numbers.take()
	must(t, db.Create(&unsaved).Error, "create with the walkers")
	same(t, "numbers taken for the walk and the walkers", fmt.Sprint(numbers.take()), "[1 2]")
	for _, one := range unsaved.Walkers {
		same(t, "join rows of a walker", plainOne[int](t, db, pair, unsaved.ID, one.ID), 1)
	}
	same(t, "rows of the join table", plainOne[int](t, db, joins), 4)
}

// invoice has the tag on foreign keys, which a shared struct may cause.
type invoice struct {
	ID       snowflakeplugin.ID  `gorm:"primaryKey" snowflake:"true"`
	SellerID snowflakeplugin.ID  `snowflake:"true"`
	Seller   *account            `gorm:"foreignKey:SellerID"`
	PayerID  *snowflakeplugin.ID `snowflake:"true"`
	Payer    *account            `gorm:"foreignKey:PayerID"`
}

func taggedForeignKey(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, &gorm.Config{DisableForeignKeyConstraintWhenMigrating: true},
		&account{}, &invoice{})
	bare := invoice{}
	must(t, db.Create(&bare).Error, "create without accounts")
	same(t, "the seller", bare.SellerID, 0)
	same(t, "the payer", bare.PayerID, nil)
	same(t, "the stored row", stored[invoice](t, db, bare.ID), bare)

	m := map[string]any{}
	must(t, db.Model(&invoice{}).Create(m).Error, "create a map")
	same(t, "keys of the map", len(m), 1)

	full := invoice{Seller: &account{Email: "seller"}, Payer: &account{Email: "payer"}}
	must(t, db.Create(&full).Error, "create with accounts")
	accountStored(t, db, *full.Seller)
	accountStored(t, db, *full.Payer)
	row := stored[invoice](t, db, full.ID)
	same(t, "the stored seller", row.SellerID, full.Seller.ID)
	same(t, "the stored payer", *row.PayerID, full.Payer.ID)
	same(t, "the seller in the struct", full.SellerID, full.Seller.ID)
}

// A group has members through memberships, which have keys of their own.
type (
	group struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name    string             `gorm:"size:100"`
		Members []account          `gorm:"many2many:memberships"`
	}
	membership struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		GroupID   snowflakeplugin.ID `gorm:"uniqueIndex:pair"`
		AccountID snowflakeplugin.ID `gorm:"uniqueIndex:pair"`
	}
)

func ownJoinModel(t *testing.T, target dbtest.Target) {
	db, plugin := open(t, target, nil, &account{})
	must(t, db.SetupJoinTable(&group{}, "Members", &membership{}), "SetupJoinTable")
	must(t, plugin.Prepare(db, &group{}, &membership{}), "Prepare")
	must(t, db.AutoMigrate(&group{}, &membership{}), "AutoMigrate")

	g := group{Name: "a", Members: []account{newAccount("ann"), newAccount("bob")}}
	must(t, db.Create(&g).Error, "create")
	before := allStored[membership](t, db)
	same(t, "memberships", len(before), 2)
	for i, m := range before {
		if m.ID == 0 || before[0].ID == before[1].ID || m.ID == m.GroupID || m.ID == m.AccountID {
			t.Errorf("membership %d is %+v", i, m)
		}
		same(t, "the group of a membership", m.GroupID, g.ID)
	}
	accounts := []snowflakeplugin.ID{before[0].AccountID, before[1].AccountID}
	for _, a := range g.Members {
		accountStored(t, db, a)
		if !slices.Contains(accounts, a.ID) {
			t.Errorf("%s is in none of the memberships %+v", a.Email, before)
		}
	}

	for range 2 {
		must(t, db.Save(&g).Error, "save")
		must(t, db.Model(&g).Association("Members").Append(&g.Members[0], &g.Members[1]), "append")
		g.Members = g.Members[:2]
	}
	if after := allStored[membership](t, db); !slices.Equal(after, before) {
		t.Errorf("the memberships are %+v, want %+v", after, before)
	}
	var read group
	must(t, db.Preload("Members").Take(&read, g.ID).Error, "read")
	same(t, "members read", len(read.Members), 2)

	must(t, db.Model(&g).Association("Members").Append(&account{Email: "eve"}), "append a new account")
	holds(t, db, &membership{}, 3)
	holds(t, db, &account{}, 3)
}

type (
	withPointer struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		TownID *snowflakeplugin.ID
		Town   *town
	}
	withNull struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		TownID sql.Null[snowflakeplugin.ID]
		Town   *town
	}
)

func optionalForeignKeys(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &town{}, &withPointer{}, &withNull{})
	note := "somewhere"
	with, without := withPointer{Town: &town{Note: &note}}, withPointer{}
	must(t, db.Create(&with).Error, "create with a town")
	must(t, db.Create(&without).Error, "create without")
	same(t, "the foreign key", *stored[withPointer](t, db, with.ID).TownID, with.Town.ID)
	same(t, "the foreign key in the struct", *with.TownID, with.Town.ID)
	same(t, "the foreign key without a town", stored[withPointer](t, db, without.ID).TownID, nil)
	same(t, "the same in the struct", without.TownID, nil)

	list := []withNull{{Town: &town{Note: &note}}, {}, {Town: with.Town}}
	must(t, db.Create(&list).Error, "create a slice")
	for i, v := range list {
		want := sql.Null[snowflakeplugin.ID]{}
		if v.Town != nil {
			want = sql.Null[snowflakeplugin.ID]{V: v.Town.ID, Valid: true}
		}
		same(t, "the foreign key in the struct", list[i].TownID, want)
		same(t, "the foreign key", stored[withNull](t, db, v.ID).TownID, want)
	}
	same(t, "the town that was there", list[2].TownID.V, with.Town.ID)
	var read []withNull
	must(t, db.Preload("Town").Order("id").Find(&read).Error, "preload")
	for i, v := range read {
		same(t, "a town that was preloaded", v.Town != nil, list[i].Town != nil)
	}
	holds(t, db, &town{}, 2)
}

// A blog has posts and topics whose keys are generated by the database.
type (
	blog struct {
		ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Posts  []post
		Topics []topic `gorm:"many2many:blog_topics"`
	}
	post struct {
		ID     uint
		BlogID snowflakeplugin.ID
		Text   string `gorm:"size:100"`
	}
	topic struct {
		ID   uint
		Name string `gorm:"size:100"`
	}
)

func untaggedChildren(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &blog{}, &post{}, &topic{})
	b := blog{Posts: []post{{Text: "one"}, {Text: "two"}}, Topics: []topic{{Name: "go"}}}
	must(t, db.Create(&b).Error, "create")
	for _, p := range b.Posts {
		same(t, "the stored post", stored[post](t, db, p.ID), p)
		same(t, "its blog", p.BlogID, b.ID)
	}
	same(t, "the stored topic", stored[topic](t, db, b.Topics[0].ID), b.Topics[0])
	joins := plainOne[int](t, db, "SELECT count(*) FROM blog_topics WHERE blog_id = ? AND topic_id = ?",
		b.ID, b.Topics[0].ID)
	same(t, "join rows", joins, 1)
}
