package fill_test

import (
	"errors"
	"testing"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/migrator"

	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// The drivers below have GORM's optional interfaces of a dialector, or none of them.
type (
	bareDriver struct{ gorm.Dialector }
	ableDriver struct{ gorm.Dialector }
)

var errTranslated = errors.New("translated")

func (ableDriver) Apply(c *gorm.Config) error        { c.PrepareStmt = true; return nil }
func (ableDriver) SavePoint(*gorm.DB, string) error  { return errTranslated }
func (ableDriver) RollbackTo(*gorm.DB, string) error { return errTranslated }
func (ableDriver) Translate(error) error             { return errTranslated }

func TestADialectorDoesWhatItsDriverDoesOrGORMWithoutIt(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, c := range []struct {
		driver            gorm.Dialector
		applies           bool
		saves, translates error
	}{
		{bareDriver{sqlite.Open("")}, false, gorm.ErrUnsupportedDriver, other},
		{ableDriver{sqlite.Open("")}, true, errTranslated, errTranslated},
	} {
		around := plans().Dialector(c.driver)
		config := &gorm.Config{}
		applier, _ := around.(interface{ Apply(*gorm.Config) error })
		if err := applier.Apply(config); err != nil || config.PrepareStmt != c.applies {
			t.Errorf("%T: Apply returned %v, and has applied: %t", c.driver, err, config.PrepareStmt)
		}
		saver, _ := around.(gorm.SavePointerDialectorInterface)
		if err := errors.Join(saver.SavePoint(nil, ""), saver.RollbackTo(nil, "")); !errors.Is(err, c.saves) {
			t.Errorf("%T: SavePoint and RollbackTo returned %v", c.driver, err)
		}
		translator, _ := around.(gorm.ErrorTranslator)
		if err := translator.Translate(other); !errors.Is(err, c.translates) {
			t.Errorf("%T: Translate returned %v", c.driver, err)
		}
		if u, ok := around.(interface{ Unwrap() gorm.Dialector }); !ok || u.Unwrap() != c.driver {
			t.Errorf("%T: Unwrap does not return the driver's", c.driver)
		}
	}
}

func TestADialectorIsPutAroundADriverOnce(t *testing.T) {
	t.Parallel()
	ours, others := plans(), plans()
	once := ours.Dialector(sqlite.Open(""))
	if ours.Dialector(once) != once {
		t.Error("the second time has put another one around it")
	}
	if twice := others.Dialector(once); twice == once || others.Dialector(twice) != twice || ours.Dialector(twice) != twice {
		t.Error("another plugin has to put its own around it, once")
	}
}

// GORM asks its migrator for more than gorm.Migrator has, and ends with a panic where that is missing.
func TestAMigratorHasTheMethodsOfItsDriver(t *testing.T) {
	t.Parallel()
	db, err := gorm.Open(plans().Dialector(sqlite.Open("file::memory:")), &gorm.Config{})
	must(t, err, "open")
	if _, ok := db.Migrator().(migrator.BuildIndexOptionsInterface); !ok {
		t.Error("BuildIndexOptions is missing")
	}
	if _, ok := db.Migrator().(interface {
		ReorderModels(models []any, autoAdd bool) []any
	}); !ok {
		t.Error("ReorderModels is missing")
	}
	around, ok := db.Migrator().(interface{ Unwrap() gorm.Migrator })
	if !ok {
		t.Fatal("Unwrap is missing")
	}
	if _, ok := around.Unwrap().(sqlite.Migrator); !ok {
		t.Errorf("Unwrap returns a %T", around.Unwrap())
	}
}

func plans() *fill.PlanCache {
	return fill.NewPlans(19, func(n int64) any { return n }, map[string]fill.Source{})
}
