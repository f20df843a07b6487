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
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
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
	for _, target := range dbtest.Targets() {
		if target.Name != "sqlite" {
			continue
		}
		var log bytes.Buffer
		db := target.Open(t, &gorm.Config{}, dbtest.MaxOpenConns(1))
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

		closed := make(chan error, 1)
		go func() { closed <- plugin.Close(context.Background()) }()
		select {
		case err := <-closed:
			wantErr(t, err, lease.ErrStore, "was not given back")
			if text := log.String(); !strings.Contains(text, "level=WARN") ||
				!strings.Contains(text, "falls free when its window ends") {
				t.Errorf("logged: %s", text)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("Close does not return")
		}
	}
}
