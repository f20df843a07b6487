package routing_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestFunctionsThatEndTheirGoroutine(t *testing.T) {
	run(t, []behavior{
		{Name: "a hook that ends its goroutine fails the create, and nothing is stored", Run: createHookExits},
		{Name: "a function of Each that ends its goroutine counts as failed on each shard", Run: eachExits},
		{Name: "a panic in a hook is told with its stack", Run: createHookTellsItsStack},
	})
}

// vow has a hook that ends the goroutine, as FailNow of a test does, or panics.
type vow struct {
	ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Note string
}

func (v *vow) AfterCreate(*gorm.DB) error {
	switch v.Note {
	case "exit":
		runtime.Goexit()
	case "panic":
		panic("the vow was broken")
	}
	return nil
}

// aside calls do on a goroutine of its own, which do may end, and reports whether it returned.
func aside(t *testing.T, do func()) (returned bool) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
		returned = true
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the call has not ended after a minute")
	}
	return returned
}

func createHookExits(t *testing.T, target dbtest.Target) {
	eachSpread(t, target, func(t *testing.T, targets []dbtest.Target) {
		s := newSharded(t, targets, nil, &vow{})
		for shard := range shards {
			var rows []vow
			for i := range shards {
				rows = append(rows, vow{ID: s.id(i)})
			}
			rows[shard].Note = "exit"
			if aside(t, func() { _ = s.router.Create(t.Context(), rows) }) {
				t.Errorf("shard %d: Create returned, although a hook ended its goroutine", shard)
			}
		}
		s.hold("vows", 0)
		s.idle()
	})
}

func eachExits(t *testing.T, target dbtest.Target) {
	const many = 16 // more than work at a time
	s := newShardedOf(t, []dbtest.Target{target}, nil, many, &vow{})
	must(t, s.router.AutoMigrate(t.Context()), "AutoMigrate")
	var err error
	if !aside(t, func() {
		err = s.router.Each(t.Context(), &vow{}, func(int, *gorm.DB) error {
			runtime.Goexit()
			return nil
		})
	}) {
		t.Fatal("Each did not return")
	}
	var failed []int
	for shard := range many {
		failed = append(failed, shard)
	}
	s.partial(err, "Each", failed...)
	says(t, err, "ended its goroutine")
}

func createHookTellsItsStack(t *testing.T, target dbtest.Target) {
	s := newSharded(t, []dbtest.Target{target}, nil, &vow{})
	err := s.router.Create(t.Context(), []vow{{Note: "panic"}})
	wantErr(t, err, nil, "Create")
	says(t, err, "the vow was broken", "goexit_test.go", "AfterCreate")
	err = s.router.Each(t.Context(), &vow{}, func(shard int, _ *gorm.DB) error {
		panic(fmt.Sprintf("on shard %d", shard))
	})
	says(t, err, "on shard 0", "on shard 3", "goexit_test.go")
}
