package filling_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/segmenttest"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// limited has fields whose columns are smaller than their types.
type limited struct {
	ID     int64  `gorm:"primaryKey" snowflake:"from:serial"`
	Signed int64  `gorm:"size:16" snowflake:"from:signed"`
	Plain  uint64 `gorm:"size:16" snowflake:"from:plain"`
	Text   string `gorm:"size:4" snowflake:"from:text"`
}

// binary has no room for a number.
type binary struct {
	ID   int64  `gorm:"primaryKey" snowflake:"from:serial"`
	Data []byte `gorm:"size:4" snowflake:"from:text"`
}

func TestANumberFitsTheColumnToTheLastBitAndCharacter(t *testing.T) {
	t.Parallel()
	signed, plain, text := &series{}, &series{}, &series{}
	db := dbtest.Targets()[0].Open(t, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNumbers("serial", &series{next: 1}),
		snowflakeplugin.WithNumbers("signed", signed), snowflakeplugin.WithNumbers("plain", plain),
		snowflakeplugin.WithNumbers("text", text), snowflakeplugin.WithNode(1))
	must(t, db.Use(plugin), "Use")
	must(t, db.AutoMigrate(&limited{}, &binary{}), "AutoMigrate")
	for _, c := range []struct {
		signed, plain, text int64
		refused             string // what the error names; empty if all fit
	}{
		{1<<15 - 1, 1<<16 - 1, 9999, ""},
		{1 << 15, 1, 1, "limited.Signed"},
		{1, 1 << 16, 1, "limited.Plain"},
		{1, 1, 10_000, "limited.Text"},
	} {
		signed.next, plain.next, text.next = c.signed, c.plain, c.text
		row := limited{}
		err := db.Create(&row).Error
		if c.refused == "" {
			must(t, err, "create")
			same(t, "the row", shown(row.Signed, row.Plain, row.Text), shown(c.signed, c.plain, c.text))
			continue
		}
		wantErr(t, err, snowflakeplugin.ErrInvalidField, "create")
		says(t, err, c.refused)
	}
	text.next = 1
	err := db.Create(&binary{}).Error
	wantErr(t, err, snowflakeplugin.ErrInvalidField, "create bytes")
	says(t, err, "binary.Data", "8 bytes", "size:4")
	signed.next = 0
	err = db.Create(&limited{}).Error
	wantErr(t, err, snowflakeplugin.ErrSource, "create with the number 0")
	says(t, err, `"signed"`, "returned 0")
}

func TestAClosedPluginTakesNoNumbersFromItsSources(t *testing.T) {
	t.Parallel()
	serial, text := &series{next: 1}, &series{next: 1}
	db := dbtest.Targets()[0].Open(t, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1),
		snowflakeplugin.WithNumbers("serial", serial), snowflakeplugin.WithNumbers("text", text))
	must(t, db.Use(plugin), "Use")
	must(t, db.AutoMigrate(&keyedOnly{}), "AutoMigrate")
	must(t, db.Create(&keyedOnly{}).Error, "create")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, db.WithContext(ctx).Create(&keyedOnly{}).Error, context.Canceled, "create for nobody")
	must(t, plugin.Close(t.Context()), "Close")
	wantErr(t, db.Create(&keyedOnly{}).Error, snowflakeplugin.ErrClosed, "create after Close")
	same(t, "the reservations", serial.calls, 1)
}

// keyedOnly has no number of the plugin's own.
type keyedOnly struct {
	ID int64 `gorm:"primaryKey" snowflake:"from:serial"`
}

// likeable chooses shards in the way that the interface asks for, and in no other.
type likeable struct{ series }

func (s *likeable) NextLike(_ context.Context, key int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.next += 4
	return s.next&^3 | key&3, nil
}

func TestASourceThatChoosesShardsIsAskedForTheShardOfTheHandle(t *testing.T) {
	t.Parallel()
	source := &likeable{series{next: 100}}
	db := dbtest.Targets()[0].Open(t, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1), snowflakeplugin.WithNumbers("other", source))
	must(t, db.Use(plugin), "Use")
	router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Layout: plugin.Layout(), Shards: 4, Databases: []*gorm.DB{db},
	}, &keyed{})
	must(t, err, "NewRouter")
	must(t, router.AutoMigrate(t.Context()), "AutoMigrate")
	for shard := range 4 {
		handle, err := router.DB(t.Context(), &keyed{}, snowflakeplugin.ID(4+shard))
		must(t, err, "DB")
		row := keyed{Note: "on a shard"}
		must(t, handle.Create(&row).Error, "create")
		same(t, "the shard of the key", row.ID&3, int64(shard))
	}
	same(t, "the calls of NextLike", source.calls, 4)
}

// moody is a store of counters that can be switched off.
type moody struct {
	*segmenttest.Memory
	off atomic.Bool
}

var errMoody = errors.New("the store is in a mood")

func (m *moody) ClaimOn(ctx context.Context, name string, n int64, t segment.Terms) (int64, error) {
	if m.off.Load() {
		return 0, errMoody
	}
	return m.Memory.ClaimOn(ctx, name, n, t)
}

func TestHealthTellsHowEverySourceStandsWithItsStore(t *testing.T) {
	t.Parallel()
	store := &moody{Memory: segmenttest.NewMemory()}
	quiet := segment.WithLogger(slog.New(slog.DiscardHandler))
	orders, err := segment.New(store, "orders", segment.WithBlock(10, 10), segment.WithMaxWait(0), quiet)
	must(t, err, "New")
	main, err := segment.New(store, "main", segment.WithBlock(100, 100), quiet)
	must(t, err, "New")
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(main),
		snowflakeplugin.WithNumbers("order", orders), snowflakeplugin.WithNumbers("plain", &series{}))
	if _, err := plugin.NextID(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := plugin.Health(t.Context())
	if _, known := h.Sources["plain"]; known || len(h.Sources) != 2 || !h.Ready {
		t.Errorf("the sources are %+v; want order and the plugin's own, whose stats are known", h.Sources)
	}
	if own := h.Sources[""]; own.Left != 99 || own.LastError != nil || !own.FailingSince.IsZero() {
		t.Errorf("the plugin's own source is %+v", own)
	}

	store.off.Store(true)
	began := time.Now()
	if _, err := orders.Next(t.Context()); !errors.Is(err, segment.ErrExhausted) {
		t.Fatalf("a number came from nowhere: %v", err)
	}
	for h = plugin.Health(t.Context()); h.Sources["order"].LastError == nil; h = plugin.Health(t.Context()) {
		time.Sleep(time.Millisecond) // the claim goes on behind the call
	}
	order := h.Sources["order"]
	if !errors.Is(order.LastError, errMoody) || order.FailingSince.Before(began) || order.Left != 0 || !h.Ready {
		t.Errorf("while the store is off: %+v of %+v", order, h)
	}
	text, err := json.Marshal(h)
	must(t, err, "Marshal")
	for _, want := range []string{
		`"sources":{"":{"left":99`, `"order":{"left":0,"last_error":`, errMoody.Error(), `"failing_since":"2`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the JSON lacks %s: %s", want, text)
		}
	}

	store.off.Store(false)
	for orders.Stats().LastError != nil || orders.Stats().Left == 0 {
		_, _ = orders.Next(t.Context()) // which makes the source try again
		time.Sleep(time.Millisecond)
	}
	if h := plugin.Health(t.Context()).Sources["order"]; h.LastError != nil || !h.FailingSince.IsZero() || h.Left == 0 {
		t.Errorf("after the store came back: %+v", h)
	}
	if s := plugin.Health(t.Context()).Sources["order"]; s.Name != "orders" || s.Failures == 0 || s.Claims == 0 {
		t.Errorf("the stats are %+v", s)
	}
	must(t, errors.Join(orders.Close(), main.Close()), "Close")
}
