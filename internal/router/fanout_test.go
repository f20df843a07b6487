package router_test

import (
	"fmt"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type parcel struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Sender int64
	Weight int64
}

// Goroutines share a router over two databases, while each of its methods asks all shards at the same time.
// The race detector sees what they share.
func TestManyGoroutinesAskAllShards(t *testing.T) {
	t.Parallel()
	sqlite := dbtest.Named("sqlite")
	dbs := []*gorm.DB{sqlite.Open(t, nil), sqlite.Open(t, nil)}
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	for _, db := range dbs {
		must(t, db.Use(plugin))
	}
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 4, Databases: dbs}, &parcel{})
	must(t, err)
	must(t, r.AutoMigrate(t.Context()))
	const workers, rounds, batch = 4, 3, 8
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for range rounds {
				if err := useRouter(t, r, int64(worker), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	n, err := r.Count(t.Context(), &parcel{})
	must(t, err)
	if want := int64(rounds * (batch + workers - 1)); n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}

// useRouter stores rows, and reads and changes those of all shards. Only the first worker stores rows in both
// databases at once: two that did so could wait for each other, because a database of SQLite has one writer.
func useRouter(t *testing.T, r *snowflakeplugin.Router, worker int64, batch int) error {
	t.Helper()
	ctx := t.Context()
	if worker > 0 {
		batch = 1
	}
	rows, ids := make([]parcel, batch), make([]snowflakeplugin.ID, batch)
	for i := range rows {
		rows[i] = parcel{Sender: worker, Weight: 1}
	}
	if err := r.Create(ctx, rows); err != nil {
		return fmt.Errorf("Create: %w", err)
	}
	for i := range rows {
		ids[i] = rows[i].ID
	}
	var found, page []parcel
	if err := r.Find(ctx, &found, ids); err != nil || len(found) != batch {
		return fmt.Errorf("Find: %d rows, %w", len(found), err)
	}
	if err := r.Latest(ctx, &page, 5); err != nil {
		return fmt.Errorf("Latest: %w", err)
	}
	if err := r.Each(ctx, &parcel{}, func(_ int, tx *gorm.DB) error {
		return tx.Where("sender = ?", worker).Update("weight", 2).Error
	}); err != nil {
		return fmt.Errorf("Each: %w", err)
	}
	mine := r.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("sender = ?", worker) })
	n, err := mine.Count(ctx, &parcel{})
	if err != nil {
		return fmt.Errorf("Count: %w", err)
	}
	var weight int64
	if _, err := mine.Aggregate(ctx, &parcel{}, "sum", "Weight", &weight); err != nil || weight != 2*n {
		return fmt.Errorf("Aggregate: %d of %d rows, %w", weight, n, err)
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
