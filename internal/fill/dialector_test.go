package fill_test

import (
	"errors"
	"testing"

	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/migrator"

	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// The drivers below have every set of GORM's optional interfaces of a dialector.
type (
	bareDriver   struct{ gorm.Dialector }
	applyDriver  struct{ gorm.Dialector }
	saveDriver   struct{ gorm.Dialector }
	errorsDriver struct{ gorm.Dialector }
)

var errTranslated = errors.New("translated")

func (applyDriver) Apply(c *gorm.Config) error       { c.PrepareStmt = true; return nil }
func (saveDriver) SavePoint(*gorm.DB, string) error  { return errTranslated }
func (saveDriver) RollbackTo(*gorm.DB, string) error { return errTranslated }
func (errorsDriver) Translate(error) error           { return errTranslated }

func TestADialectorHasTheOptionalInterfacesOfItsDriver(t *testing.T) {
	t.Parallel()
	type (
		applies interface{ Apply(*gorm.Config) error }
		saves   = gorm.SavePointerDialectorInterface
		errs    = gorm.ErrorTranslator
	)
	plain := bareDriver{sqlite.Open("")}
	for name, driver := range map[string]gorm.Dialector{
		"none":  plain,
		"apply": applyDriver{plain},
		"save":  saveDriver{plain},
		"errs":  errorsDriver{plain},
		"apply and save": struct {
			bareDriver
			applies
			saves
		}{plain, applyDriver{}, saveDriver{}},
		"apply and errs": struct {
			bareDriver
			applies
			errs
		}{plain, applyDriver{}, errorsDriver{}},
		"save and errs": struct {
			bareDriver
			saves
			errs
		}{plain, saveDriver{}, errorsDriver{}},
		"all": struct {
			bareDriver
			applies
			saves
			errs
		}{plain, applyDriver{}, saveDriver{}, errorsDriver{}},
	} {
		around := plans().Dialector(driver)
		config := &gorm.Config{}
		a, wantA := driver.(applies)
		got, gotA := around.(applies)
		if gotA != wantA || gotA && (got.Apply(config) != nil || !config.PrepareStmt || a == nil) {
			t.Errorf("%s: Apply is there: %t, want %t", name, gotA, wantA)
		}
		s, gotS := around.(saves)
		if _, want := driver.(saves); gotS != want ||
			gotS && (!errors.Is(s.SavePoint(nil, ""), errTranslated) || !errors.Is(s.RollbackTo(nil, ""), errTranslated)) {
			t.Errorf("%s: SavePoint is there: %t, want %t", name, gotS, want)
		}
		e, gotE := around.(errs)
		if _, want := driver.(errs); gotE != want || gotE && !errors.Is(e.Translate(nil), errTranslated) {
			t.Errorf("%s: Translate is there: %t, want %t", name, gotE, want)
		}
		if u, ok := around.(interface{ Unwrap() gorm.Dialector }); !ok || u.Unwrap() != driver {
			t.Errorf("%s: Unwrap does not return the driver's", name)
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
