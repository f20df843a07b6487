package statements_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// judgeModes are the ways to open a handle that change what GORM sends or what an error says. In tier one the
// servers meet only the plain one: the statements differ by dialect, and the modes hardly do.
func judgeModes(dialect string) map[string]struct {
	cfg     *gorm.Config
	options []dbtest.Option
} {
	type mode = struct {
		cfg     *gorm.Config
		options []dbtest.Option
	}
	modes := map[string]mode{
		"plain":                  {cfg: &gorm.Config{}},
		"SkipDefaultTransaction": {cfg: &gorm.Config{SkipDefaultTransaction: true}},
		"TranslateError":         {cfg: &gorm.Config{TranslateError: true}},
		"PrepareStmt":            {cfg: &gorm.Config{PrepareStmt: true}},
	}
	if dialect != "sqlite" && !nightly.Enabled() {
		return map[string]mode{"plain": modes["plain"]}
	}
	if dialect == "mysql" {
		modes["clientFoundRows"] = mode{&gorm.Config{},
			[]dbtest.Option{dbtest.DSNParam("clientFoundRows", "true")}}
	}
	return modes
}

// A row whose key was made for it is inserted or refused, whatever the create looks like. The row of a
// stranger that has the key already stays as it is.
func TestARowWithANewKeyIsInsertedOrRefused(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Targets(), func(t *testing.T, target dbtest.Target) {
		r := openRivals(t, target)
		for name, mode := range judgeModes(target.Dialect) {
			t.Run(name, func(t *testing.T) {
				r.reopen(t, target, mode.cfg, mode.options...)
				silent := 0
				for _, shape := range judgedShapes() {
					if shape.runsOn(target.Dialect) {
						t.Run(shape.name, func(t *testing.T) {
							if r.refuse(t, shape, mode.cfg.SkipDefaultTransaction) {
								silent++
							}
						})
					}
				}
				if silent > 0 {
					t.Errorf("%d shapes are silent", silent)
				}
			})
		}
	})
}

// refuse runs a shape. It returns true if the create had no error.
func (r *rivals) refuse(t *testing.T, shape judgedShape, withoutTransaction bool) (silent bool) {
	t.Helper()
	r.clear(t)
	if shape.before != nil {
		r.our.startAt(900)
		must(t, shape.before(r.theirs), "create what is there before")
	}
	r.their.startAt(firstNumber + shape.at)
	succeed(t, r.theirs.Create(shape.theirs))
	defer func() { clearKey(shape.theirs) }()
	before := r.dump(t)

	r.our.startAt(firstNumber)
	err := shape.ours(r.ours)
	if err == nil {
		t.Errorf("no error")
	} else if !errors.Is(err, snowflakeplugin.ErrContested) || !errors.Is(err, gorm.ErrDuplicatedKey) {
		t.Errorf("the error is none of ErrContested and ErrDuplicatedKey: %v", err)
	}
	after := r.dump(t)
	if withoutTransaction {
		// What was stored by statements before that one stays, so only the row of the stranger is looked at.
		mine := func(row string) bool { return !strings.Contains(row, "theirs") }
		before, after = slices.DeleteFunc(before, mine), slices.DeleteFunc(after, mine)
	}
	if !slices.Equal(before, after) {
		t.Errorf("the rows are\n%q, and were\n%q", after, before)
	}
	return err == nil
}
