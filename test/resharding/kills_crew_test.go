package resharding_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// toldToEnd is closed when the test wants the process to end.
func toldToEnd() chan struct{} {
	end := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		if lines.Scan() {
			close(end)
			_, _ = io.Copy(io.Discard, os.Stdin)
		} else {
			os.Exit(1) // because the test is gone
		}
	}()
	return end
}

// writeKept creates, changes and deletes rows, and notes each.
func writeKept(t *testing.T, dbs []*gorm.DB) {
	t.Helper()
	plugin, _ := dbs[0].Plugins["snowflake"].(*snowflakeplugin.Plugin)
	writer := strconv.Itoa(os.Getpid())
	r, err := keptRouter(dbs, keptFrom)
	must(t, err, "NewRouter")
	end := toldToEnd()
	fmt.Println("begun")
	var mine []snowflakeplugin.ID
	stored, longest, last := 0, time.Duration(0), time.Now()
	for n := int64(1); ; n++ {
		select {
		case <-end:
			fmt.Printf("did %d, longest %d\n", stored, longest.Milliseconds())
			return
		case <-time.After(20 * time.Millisecond): // SQLite is not fair to other writers
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		at, kind := 0, rand.IntN(10)
		if len(mine) > 0 {
			at = rand.IntN(len(mine))
		}
		var id snowflakeplugin.ID
		var err error
		if kind < 6 || len(mine) == 0 {
			if id, err = plugin.NextID(ctx); err == nil {
				err = r.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
					err := tx.Create(&kept{ID: id, Writer: writer, N: n, Code: fmt.Sprint(writer, " ", n)})
					return errors.Join(err, noteKept(tx.Gorm(), id, writer, n, 0))
				})
			}
		} else {
			id = mine[at]
			// After an error nobody knows whether it was committed. Then the row is left alone from now on.
			mine = append(mine[:at], mine[at+1:]...)
			err = r.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
				return changeKept(tx, id, writer, n, kind < 9)
			})
		}
		cancel()
		if err != nil {
			if errors.Is(err, errNotOnce) {
				fmt.Println("wrong:", err)
			}
			continue
		}
		if kind < 9 {
			mine = append(mine, id)
		}
		stored++
		longest, last = max(longest, time.Since(last)), time.Now()
	}
}

var errNotOnce = errors.New("a statement did not find its row once")

// changeKept changes or deletes a row, and notes it.
func changeKept(tx *snowflakeplugin.ShardTx, id snowflakeplugin.ID, writer string, n int64, change bool) error {
	row, err := tx.DB(&kept{}, id)
	if err != nil {
		return err
	}
	gone := 0
	if row = row.Where("id = ?", id); change {
		row = row.Update("n", n)
	} else {
		row, gone = row.Delete(&kept{}), 1
	}
	switch {
	case row.Error != nil:
		return row.Error
	case row.RowsAffected != 1:
		return fmt.Errorf("%w: %d rows of %d", errNotOnce, row.RowsAffected, id)
	}
	return noteKept(tx.Gorm(), id, writer, n, gone)
}

// readKept counts and reads the rows that nobody changes.
func readKept(t *testing.T, dbs []*gorm.DB) {
	t.Helper()
	r, err := keptRouter(dbs, keptFrom)
	must(t, err, "NewRouter")
	end := toldToEnd()
	static := r.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("writer = ?", "nobody") })
	var ids []snowflakeplugin.ID
	must(t, dbs[0].Raw("SELECT id FROM kept_controls WHERE writer = 'nobody'").Scan(&ids).Error, "the IDs")
	fmt.Println("begun")
	for whole := 0; ; {
		select {
		case <-end:
			fmt.Printf("did %d, longest 0\n", whole)
			return
		case <-time.After(20 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		n, err := static.Count(ctx, &kept{})
		if err == nil && n != keptRows {
			fmt.Printf("wrong: counted %d rows of %d at %d shards\n", n, keptRows, r.Shards())
		}
		var found []kept
		findErr := r.Find(ctx, &found, ids)
		cancel()
		var missing *snowflakeplugin.MissingError
		if errors.As(findErr, &missing) || findErr == nil && len(found) != keptRows {
			fmt.Printf("wrong: found %d rows of %d at %d shards, %v\n", len(found), keptRows, r.Shards(), findErr)
		}
		if err == nil && findErr == nil {
			whole++
		}
	}
}
