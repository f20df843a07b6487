package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/server/client"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

type Order struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Title string
	Items []Item
}

type Item struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	OrderID snowflakeplugin.ID
	Text    string
}

// The plugin takes its IDs from the service, whose leases lie in the same database.
func TestThePluginFillsRowsFromTheService(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		home := dsn
		if target.Dialect == "sqlite" {
			path, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file:"), "?")
			if plain, err := url.PathUnescape(path); err == nil {
				path = plain
			}
			home = "sqlite:" + path + ".leases"
		}
		first, end := replica(t, home)
		second, _ := replica(t, home)
		ids := newClient(t, []string{first, second})
		db := target.OpenDSN(t, dsn, nil)
		if err := db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(ids))); err != nil {
			t.Fatal(err)
		}
		if err := db.AutoMigrate(&Order{}, &Item{}); err != nil {
			t.Fatal(err)
		}
		create := func(n int) {
			t.Helper()
			orders := make([]Order, n)
			for i := range orders {
				orders[i] = Order{Title: "order", Items: []Item{{Text: "a"}, {Text: "b"}}}
			}
			if err := db.Create(&orders).Error; err != nil {
				t.Fatal(err)
			}
		}
		create(100)
		end() // one replica ends, and the rows go on
		create(100)
		for range 50 {
			create(1)
		}
		var orders, items, different int64
		db.Model(&Order{}).Count(&orders)
		db.Model(&Item{}).Count(&items)
		if err := db.Raw("SELECT count(*) FROM (SELECT id FROM orders UNION SELECT id FROM items) AS every_id").
			Scan(&different).Error; err != nil {
			t.Fatal(err)
		}
		if orders != 250 || items != 500 || different != 750 {
			t.Errorf("%d orders, %d items, %d different IDs", orders, items, different)
		}
	})
}

// Retryable tells the callers of GORM which errors of the service time heals.
func TestRetryableKnowsTheErrorsOfTheClient(t *testing.T) {
	t.Parallel()
	ending := func() error { return connect.NewError(connect.CodeUnavailable, errors.New("ending")) }
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	for _, c := range []struct {
		name   string
		answer func() error // of the only replica
		closed bool
		kind   error
		want   bool
	}{
		{"no replica gives IDs", ending, false, client.ErrUnavailable, true},
		{"a wrong token", func() error {
			return connect.NewError(connect.CodeUnauthenticated, errors.New("no"))
		}, false, client.ErrRefused, false},
		{"closed", ending, true, snowflakeplugin.ErrClosed, false},
		{"the caller gives up meanwhile", func() error {
			giveUp()
			return ending()
		}, false, client.ErrUnavailable, false},
	} {
		wait := servers.Patience // which no other case waits for
		if c.want {
			wait = 10 * time.Millisecond
		}
		replica := inProcess(func(context.Context, *snowflakev1.NextRequest) ([]int64, error) { return nil, c.answer() })
		ids := newClient(t, []string{"http://replica"}, client.WithMaxWait(wait),
			client.WithHTTPClient(&http.Client{Transport: replica}))
		if c.closed {
			ids.Close()
		}
		_, err := snowflakeplugin.New(snowflakeplugin.WithSource(ids)).NextID(ctx)
		if !errors.Is(err, c.kind) || snowflakeplugin.Retryable(err) != c.want {
			t.Errorf("%s: Retryable is %t for %v", c.name, snowflakeplugin.Retryable(err), err)
		}
	}
}

var _ snowflakeplugin.Source = (*client.Client)(nil)
