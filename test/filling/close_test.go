package filling_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// closePanicker panics in a hook, as a program does that has a fault.
type closePanicker struct {
	ID snowflakeplugin.ID `gorm:"primaryKey"`
}

func (*closePanicker) BeforeCreate(*gorm.DB) error { panic("a fault of the application") }

// GORM does not end its transaction when a hook panics. On SQLite that is the only connection, so the
// number cannot be given back. The usual defer must not keep the program from ending because of that.
func TestCloseEndsAlthoughAHookThatPanickedKeepsTheOnlyConnection(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	db := dbtest.Named("sqlite").Open(t, &gorm.Config{}, dbtest.MaxOpenConns(1))
	plugin := snowflakeplugin.New(snowflakeplugin.WithLease(nil, lease.WithSpan(time.Minute)),
		snowflakeplugin.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must(t, db.Use(plugin), "Use")
	must(t, db.AutoMigrate(&closePanicker{}), "AutoMigrate")
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("the hook does not panic")
			}
		}()
		db.Create(&closePanicker{})
	}()

	err := plugin.Close(context.Background()) // a test that ends says that it returns
	wantErr(t, err, lease.ErrStore, "was not given back")
	if text := log.String(); !strings.Contains(text, "level=WARN") ||
		!strings.Contains(text, "falls free when its window ends") {
		t.Errorf("logged: %s", text)
	}
}
