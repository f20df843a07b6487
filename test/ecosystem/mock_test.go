package ecosystem_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/DATA-DOG/go-sqlmock"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
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
