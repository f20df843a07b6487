package dbtest_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestTheRecorderKeepsWhatTheDatabaseWasSent(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		recorder := dbtest.NewRecorder()
		db := target.Open(t, &gorm.Config{Logger: recorder})
		migrate(t, db, &author{})
		recorder.Reset()

		create(t, db, &author{ID: 42, Name: "Ada"})
		if err := db.Create(&author{ID: 42, Name: "again"}).Error; err == nil {
			t.Fatal("a key was stored twice")
		}
		if err := db.Delete(&author{}, 42).Error; err != nil {
			t.Fatal(err)
		}
		got := recorder.Statements()
		if len(got) != 3 || !strings.HasPrefix(got[2], "DELETE") {
			t.Fatalf("recorded %q; want two INSERTs, the second of which failed, and a DELETE", got)
		}
		inserts := recorder.Inserts()
		if !slices.Equal(inserts, got[:2]) {
			t.Errorf("the inserts are %q", inserts)
		}
		if !strings.Contains(inserts[0], "42") || !strings.Contains(inserts[0], "Ada") {
			t.Errorf("%q lacks the values", inserts[0])
		}
		got[0] = "changed by the caller"
		if recorder.Statements()[0] == got[0] {
			t.Error("Statements returned the internal slice of the Recorder")
		}
		recorder.Reset()
		if got := recorder.Statements(); len(got) != 0 {
			t.Errorf("after Reset there is %q", got)
		}
	})
}

func TestTheRecorderSurvivesADebugSessionAndManyGoroutines(t *testing.T) {
	t.Parallel()
	var recorder dbtest.Recorder // the zero value
	level := recorder.LogMode(4) // db.Debug calls this
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				level.Trace(t.Context(), time.Now(),
					func() (string, int64) { return "insert into t", 0 }, errors.ErrUnsupported)
				recorder.Inserts()
			}
		})
	}
	wg.Wait()
	if got := len(recorder.Inserts()); got != 800 {
		t.Errorf("recorded %d inserts, want 800", got)
	}
}
