package filling_test

import (
	"errors"
	"path/filepath"
	"testing"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// usesPlugin is a dialector of an application that puts its plugins into each database it opens.
type usesPlugin struct {
	gorm.Dialector
	plugin  *snowflakeplugin.Plugin
	answers chan<- error
}

func (d usesPlugin) Initialize(db *gorm.DB) error {
	err := d.Dialector.Initialize(db)
	d.answers <- db.Use(d.plugin)
	return err
}

// GORM gives a handle its statement only after its dialector has begun. A dialector may pass over the error, and then
// no row gets the key 0.
func TestADialectorThatPutsThePluginIntoUseIsRefused(t *testing.T) {
	t.Parallel()
	type thing struct {
		ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	}
	answers := make(chan error, 1)
	file := sqlite.Open(filepath.Join(t.TempDir(), "a.db"))
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	db, err := gorm.Open(usesPlugin{file, plugin, answers}, &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-answers; !errors.Is(err, snowflakeplugin.ErrOptions) {
		t.Errorf("db.Use returned %v", err)
	}
	if err := db.AutoMigrate(&thing{}); err != nil {
		t.Fatal(err)
	}
	if err := db.Create(&thing{}).Error; !errors.Is(err, snowflakeplugin.ErrNotInUse) {
		t.Errorf("the create returned %v", err)
	}
}
