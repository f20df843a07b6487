package gormpool

import (
	"testing"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
)

// around is what the plugin puts around the dialector of a driver.
type around struct{ gorm.Dialector }

func (a around) Unwrap() gorm.Dialector { return a.Dialector }

func TestAStoreOpensAPoolOfItsOwnBehindTheDialectorOfThePlugin(t *testing.T) {
	t.Parallel()
	change := func(_, dsn string) string { return dsn + "&changed" }
	got, ok := pristine(around{around{sqlite.Open("file.db?a")}}, change).(*sqlite.Dialector)
	if !ok || got.DSN != "file.db?a&changed" {
		t.Errorf("the dialector of the pool is %#v", got)
	}
}
