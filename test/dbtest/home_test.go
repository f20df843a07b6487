package dbtest_test

import (
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestHandlesOfASharedTargetDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		target = target.Shared(t)
		dsn := target.DSN(t)
		first, again, second := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil), target.Open(t, nil)
		migrate(t, first, &author{})
		if second.Migrator().HasTable(&author{}) {
			t.Fatal("the second database holds the table of the first")
		}
		migrate(t, second, &author{})
		create(t, first, &author{ID: 1, Name: "first"})
		create(t, second, &author{ID: 1, Name: "second"})
		var got author
		if err := again.First(&got, 1).Error; err != nil || got.Name != "first" {
			t.Errorf("another handle on the first read %+v, %v", got, err)
		}
	})
}

func TestASharedTargetMakesOneDatabaseOfPostgreSQLAndDropsIt(t *testing.T) {
	t.Parallel()
	var name string
	postgres := dbtest.Targets()[1]
	t.Run("inside", func(t *testing.T) {
		shared := postgres.Shared(t)
		if shared.Shared(t) != shared {
			t.Error("sharing a shared target returned another target")
		}
		first, second := shared.DSN(t), shared.DSN(t)
		if first == second {
			t.Error("two schemas have the same DSN")
		}
		name = databaseName(t, shared, first)
		if other := databaseName(t, shared, second); other != name {
			t.Errorf("the schemas are in %s and %s, want one database", name, other)
		}
		if !postgres.Exists(t, name) {
			t.Errorf("%s does not exist while the test runs", name)
		}
		leaked, err := gorm.Open(shared.Dialector(first), &gorm.Config{}) // nobody closes it
		if err != nil {
			t.Fatal(err)
		}
		migrate(t, leaked, &author{})
		create(t, leaked.Begin(), &author{ID: 1, Name: "never committed"})
	})
	if postgres.Exists(t, name) {
		t.Errorf("%s still exists after its test", name)
	}
}

func TestOtherTargetsAreSharedAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, target := range dbtest.Targets() {
		if target.Dialect != "postgres" && target.Shared(t) != target {
			t.Errorf("sharing %s returned another target", target.Name)
		}
	}
}
