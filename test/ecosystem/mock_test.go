package ecosystem_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/DATA-DOG/go-sqlmock"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/snowflaketest"
)

// mocks opens a handle of each dialect on a mock, which refuses every statement that it does not expect.
func mocks(t *testing.T, fn func(t *testing.T, db *gorm.DB, mock sqlmock.Sqlmock)) {
	t.Helper()
	for _, dialect := range []string{"postgres", "mysql"} {
		t.Run(dialect, func(t *testing.T) {
			pool, mock, err := sqlmock.New()
			must(t, err, "a mock")
			t.Cleanup(func() { _ = pool.Close() })
			dialector := postgres.New(postgres.Config{Conn: pool})
			if dialect == "mysql" {
				dialector = mysql.New(mysql.Config{Conn: pool, SkipInitializeWithVersion: true})
			}
			db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true})
			must(t, err, "open the mock")
			fn(t, db, mock)
		})
	}
}

func TestAMockThatExpectsNoNoteIsNotCalledAStoreOfLeases(t *testing.T) {
	t.Parallel()
	mocks(t, func(t *testing.T, db *gorm.DB, _ sqlmock.Sqlmock) {
		err := db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1)))
		if !errors.Is(err, lease.ErrStore) {
			t.Fatalf("Use on a mock: %v", err)
		}
		for _, word := range []string{"snowflake_authority", "mock", "WithSource", "expectations"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the error does not say %q: %v", word, err)
			}
		}
		if strings.Contains(err.Error(), "lease:") {
			t.Errorf("nothing is leased, but the error says %v", err)
		}
	})
}

// What the error asks for.
func TestAMockWorksWithASource(t *testing.T) {
	t.Parallel()
	mocks(t, func(t *testing.T, db *gorm.DB, mock sqlmock.Sqlmock) {
		numbers, err := generator.New(generator.Default(), generator.FixedNode(1))
		must(t, err, "a generator")
		must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithSource(numbers))), "Use on a mock")
		mock.ExpectExec("INSERT INTO .marks.").WithArgs(sqlmock.AnyArg(), "a").
			WillReturnResult(sqlmock.NewResult(0, 1))
		one := mark{Code: "a"}
		must(t, db.Create(&one).Error, "create")
		if one.ID == 0 {
			t.Error("the mark has no ID")
		}
		must(t, mock.ExpectationsWereMet(), "what the mock expects")
	})
}

// Every statement on a mock is one that the test expects.
func TestAMockWorksWithAPluginForTests(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first, err := generator.Default().Compose(generator.Parts{Time: at})
	must(t, err, "the first ID of a time")
	for name, c := range map[string]struct {
		plugin func() *snowflakeplugin.Plugin
		want   [3]int64
	}{
		"counting": {func() *snowflakeplugin.Plugin { return snowflaketest.Counting() }, [3]int64{1, 2, 3}},
		"a time": {
			func() *snowflakeplugin.Plugin { return snowflaketest.At(generator.Default(), at) },
			[3]int64{first, first + 1, first + 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mocks(t, func(t *testing.T, db *gorm.DB, mock sqlmock.Sqlmock) {
				must(t, db.Use(c.plugin()), "Use on a mock")
				for _, id := range c.want {
					mock.ExpectExec("INSERT INTO .marks.").WithArgs(id, "a").WillReturnResult(sqlmock.NewResult(0, 1))
					one := mark{Code: "a"}
					must(t, db.Create(&one).Error, "create")
					if int64(one.ID) != id {
						t.Errorf("the ID is %d, want %d", one.ID, id)
					}
				}
				must(t, mock.ExpectationsWereMet(), "what the mock expects")
			})
		})
	}
}
