package snowflaketest_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/snowflaketest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

type (
	author struct {
		ID       uint               `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `snowflake:"true"`
		Name     string             `gorm:"uniqueIndex"`
		Books    []novel
	}
	novel struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:AuthorID"`
		AuthorID uint
		Title    string
	}
)

func open(t *testing.T, plugin *snowflakeplugin.Plugin) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(sqlite.Open(filepath.Join(t.TempDir(), "test.db")), &gorm.Config{})
	suite.Must(t, err, "open")
	suite.Must(t, db.Use(plugin), "Use")
	suite.Must(t, db.AutoMigrate(&author{}, &novel{}), "AutoMigrate")
	return db
}

func TestCountingIsWhatADatabaseWouldCount(t *testing.T) {
	t.Parallel()
	plugin := snowflaketest.Counting()
	db := open(t, plugin)
	authors := []author{{Name: "a", Books: []novel{{Title: "x"}, {Title: "y"}}}, {Name: "b", Books: []novel{{Title: "z"}}}}
	suite.Must(t, db.Create(&authors).Error, "create")
	var ids []int64
	for _, a := range authors {
		ids = append(ids, int64(a.ID), int64(a.PublicID))
		for _, b := range a.Books {
			ids = append(ids, int64(b.ID), int64(b.AuthorID))
		}
	}
	if want := []int64{1, 1, 1, 1, 2, 1, 2, 2, 3, 2}; !slices.Equal(ids, want) {
		t.Errorf("the IDs are %d, want %d", ids, want)
	}
	m := map[string]any{"name": "c"}
	suite.Must(t, db.Model(&author{}).Create(m).Error, "create of a map")
	suite.Same(t, "the stored key", suite.PlainOne[int64](t, db, "SELECT id FROM authors WHERE name = 'c'"), 3)
	id, err := plugin.NextID(t.Context())
	suite.Must(t, err, "NextID")
	suite.Same(t, "the first ID of no table", id, 1)
	suite.Same(t, "the tables", suite.PlainOne[int64](t, db,
		"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name LIKE 'snowflake%'"), 0)
	// A key that a fixture has is not counted over.
	suite.Must(t, db.Create(&author{ID: 4, PublicID: 9, Name: "d"}).Error, "create with a key")
	suite.WantErr(t, db.Create(&author{Name: "e"}).Error, snowflakeplugin.ErrContested, "create of a key that is there")
	suite.Must(t, plugin.Close(t.Context()), "Close")
	suite.WantErr(t, db.Create(&author{Name: "f"}).Error, snowflakeplugin.ErrClosed, "create after Close")
}

func TestACounterBeginsAgain(t *testing.T) {
	t.Parallel()
	counter := &snowflaketest.Counter{}
	db := open(t, snowflakeplugin.New(snowflakeplugin.WithSource(counter)))
	for range 2 {
		a := author{Name: "a"}
		suite.Must(t, db.Create(&a).Error, "create")
		suite.Same(t, "the key", a.ID, 1)
		suite.Must(t, db.Delete(&a).Error, "delete")
		counter.Reset()
	}
	var all [100]int64
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { _ = counter.FillColumn(context.Background(), "t", "id", all[i:i+1]) })
	}
	group.Wait()
	slices.Sort(all[:])
	suite.Same(t, "the last of 100", all[99], 100)
	suite.Same(t, "how many they are", len(slices.Compact(all[:])), 100)
}

func TestIDsOfATimeAreTheSameInEveryRun(t *testing.T) {
	t.Parallel()
	layout := generator.Layout{
		Name: "small", Epoch: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Second, TimeBits: 32,
		Node: []generator.Field{{Name: "node", Bits: 4}}, SequenceBits: 1,
	}
	at := layout.Epoch.Add(time.Hour)
	var runs [2][]int64
	for run := range runs {
		db := open(t, snowflaketest.At(layout, at))
		a := author{Name: "a", Books: []novel{{}, {}}}
		suite.Must(t, db.Create(&a).Error, "create")
		runs[run] = []int64{int64(a.ID), int64(a.PublicID), int64(a.Books[0].ID), int64(a.Books[1].ID)}
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Errorf("the runs have %d and %d", runs[0], runs[1])
	}
	for i, id := range runs[0] {
		parts, err := layout.Decompose(id)
		suite.Must(t, err, "Decompose")
		want := generator.Parts{Time: at.Add(time.Duration(i/2) * time.Second), Sequence: int64(i % 2)}
		if !parts.Time.Equal(want.Time) || parts.Sequence != want.Sequence || parts.Node != 0 {
			t.Errorf("ID %d is %+v, want %+v", i, parts, want)
		}
	}
	db := open(t, snowflaketest.At(layout, layout.Epoch.Add(-time.Hour)))
	if err := db.Create(&author{Name: "b"}).Error; err == nil {
		t.Error("an ID of a time before the epoch was made")
	}
	err := open(t, snowflaketest.At(generator.Layout{}, at)).Create(&author{Name: "c"}).Error
	if !errors.Is(err, generator.ErrInvalidLayout) {
		t.Errorf("create with no layout: %v", err)
	}
}
