package filling_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"gorm.io/driver/sqlite"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// A voucher has numbers in columns with a unique index of every form, and in two without one.
type voucher struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Indexed int64              `gorm:"uniqueIndex" snowflake:"from:serial"`
	Unique  int64              `gorm:"unique" snowflake:"from:serial"`
	Shop    int64              `gorm:"uniqueIndex:idx_shop"`
	InShop  int64              `gorm:"uniqueIndex:idx_shop" snowflake:"from:serial"`
	Bare    int64              `snowflake:"from:serial"`
	Plain   string             `gorm:"size:20;index" snowflake:"from:serial"`
}

type keyedVoucher struct {
	ID int64 `gorm:"primaryKey" snowflake:"from:serial"`
}

func TestPrepareNamesNumbersWithoutAUniqueIndex(t *testing.T) {
	t.Parallel()
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{})
	must(t, err, "open")
	var log bytes.Buffer
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1),
		snowflakeplugin.WithNumbers("serial", &series{next: 1}),
		snowflakeplugin.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must(t, db.Use(plugin), "Use")
	log.Reset()
	for range 2 {
		must(t, plugin.Prepare(db, &voucher{}, &keyedVoucher{}), "Prepare")
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("the log is %s", log.String())
	}
	for i, words := range [][]string{
		{"voucher.Bare", "vouchers", `gorm:\"uniqueIndex\"`}, {"voucher.Plain", `gorm:\"size:20;index;uniqueIndex\"`},
	} {
		for _, word := range words {
			if !strings.Contains(lines[i], word) {
				t.Errorf("line %d does not say %s: %s", i, word, lines[i])
			}
		}
	}
}
