package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

const golden = "testdata/output.txt"

var update = flag.Bool("update", false, "write the output to "+golden)

func TestOutputReadsAsItShould(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := mask(out.Bytes())
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the output differs from %s (go test -update rewrites it):\n%s", golden, got)
	}
}

// mask replaces what differs from run to run. Equal IDs get equal names, so the golden file still
// shows where the same ID appears twice.
func mask(text []byte) []byte {
	for pattern, masked := range map[string]string{
		`(?m)^( +62 +time +)\d+ .*`:     "${1}<bits>  <ticks>  <time>",
		`(?m)^( +11 +sequence +)\d+ .*`: "${1}<bits>  <number>",
		`(?m)^( +21 +node +)[01]+ .*`:   "${1}<bits>  <node>",
		`(link +)[0-9A-Za-z]{11}`:       "${1}<base62>",
		`(?m)^( +node +)\d+$`:           "${1}<node>",
		`(until +)\d{4}-[^ ]+Z;`:        "${1}<time>;",
		`(owner +).* pid .*`:            "${1}<host, process, start, random part>",
	} {
		text = regexp.MustCompile(pattern).ReplaceAll(text, []byte(masked))
	}
	names := map[string][]byte{}
	return regexp.MustCompile(`\d{17,19}`).ReplaceAllFunc(text, func(id []byte) []byte {
		if names[string(id)] == nil {
			names[string(id)] = fmt.Appendf(nil, "<id %d>", len(names)+1)
		}
		return names[string(id)]
	})
}

// TestDatabaseHoldsWhatTheOutputSays reads the tables themselves.
func TestDatabaseHoldsWhatTheOutputSays(t *testing.T) {
	db := openTold(t)
	keys := map[int64]string{} // every key of every table
	for table, want := range map[string]int{
		"users": 1, "orders": newOrders + oldOrders, "items": 2 * newOrders, "tags": 3,
	} {
		var ids []int64
		pluck(t, db.Table(table), "id", &ids)
		if len(ids) != want {
			t.Errorf("%s has %d rows, want %d", table, len(ids), want)
		}
		for _, id := range ids {
			if other, taken := keys[id]; taken {
				t.Errorf("%d is a key of %s and of %s", id, other, table)
			}
			keys[id] = table
		}
	}
	nodes, old := map[int64]bool{}, 0
	for id, table := range keys {
		parts, err := generator.Default().Decompose(id)
		if err != nil || id == 0 {
			t.Errorf("the key %d of %s is not an ID: %v", id, table, err)
		}
		age := time.Since(parts.Time)
		if parts.Node == importNode && age > time.Minute {
			age -= time.Hour
			old++
		} else {
			nodes[parts.Node] = true
		}
		if age < -time.Minute || age > time.Minute {
			t.Errorf("the key %d of %s says that it was made at %v", id, table, parts.Time)
		}
	}
	if old != oldOrders || len(nodes) != 1 {
		t.Errorf("%d keys are old, the others of nodes %v; want %d, and one node", old, nodes, oldOrders)
	}
	var dangling []map[string]any
	if err := db.Raw("PRAGMA foreign_key_check").Scan(&dangling).Error; err != nil || len(dangling) > 0 {
		t.Errorf("foreign keys that point nowhere: %v, %v", dangling, err)
	}
}

func TestEveryOrderIsWhole(t *testing.T) {
	db := openTold(t)
	var ada User
	err := db.Preload("Orders", func(tx *gorm.DB) *gorm.DB { return tx.Order("orders.id") }).
		Preload("Orders.Items").Preload("Orders.Tags").First(&ada).Error
	if err != nil {
		t.Fatal(err)
	}
	if ada.Name != "Ada Lovelace" || len(ada.Orders) != newOrders+oldOrders {
		t.Fatalf("found %s with %d orders", ada.Name, len(ada.Orders))
	}
	tags := map[string]snowflakeplugin.ID{}
	for i, order := range ada.Orders {
		if order.Number != i+1 {
			t.Errorf("order %d is number %d by its key", order.Number, i+1)
		}
		if order.Number <= oldOrders {
			continue // imported without items
		}
		if len(order.Items) != 2 || len(order.Tags) != 2 {
			t.Errorf("order %d has %d items and %d tags", order.Number, len(order.Items), len(order.Tags))
		}
		for _, tag := range order.Tags {
			if known, ok := tags[tag.Word]; ok && known != tag.ID {
				t.Errorf("the tag %s is row %d and row %d", tag.Word, known, tag.ID)
			}
			tags[tag.Word] = tag.ID
		}
	}
	if words := slices.Sorted(maps.Keys(tags)); !slices.Equal(words, []string{"courier", "paid", "post"}) {
		t.Errorf("the orders carry the tags %v", words)
	}
}

func TestErrorEndsTheStory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("run with a canceled context returned %v", err)
	}
}

// openTold returns the database after the story.
func openTold(t *testing.T) *gorm.DB {
	t.Helper()
	db, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeDB(db); err != nil {
			t.Error(err)
		}
	})
	if err := tell(t.Context(), io.Discard, db); err != nil {
		t.Fatal(err)
	}
	return db
}

func pluck(t *testing.T, db *gorm.DB, column string, into *[]int64) {
	t.Helper()
	if err := db.Pluck(column, into).Error; err != nil {
		t.Fatal(err)
	}
}
