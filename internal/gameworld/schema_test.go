package gameworld_test

import (
	"slices"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/gameworld"
)

// A merge begins with an empty target, made from the schema.
func TestTheSchemaIsThatOfAServerWithoutRows(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		w := create(t, target, gameworld.Config{Server: 1, Roles: 10})
		fresh := world{DB: empty(t, target)}
		for _, s := range gameworld.Schema(kindOf(target)) {
			exec(t, target, fresh.DB, s)
		}
		for _, table := range gameworld.Tables() {
			if a, b := columnsOf(t, w.DB, table), columnsOf(t, fresh.DB, table); !slices.Equal(a, b) {
				t.Errorf("%s has %v and %v", table, a, b)
			}
			for name, is := range typesOf(t, w, target, table) {
				if other := typesOf(t, fresh, target, table)[name]; other != is {
					t.Errorf("%s.%s is %s and %s", table, name, is, other)
				}
			}
			if n := number(t, fresh.DB, "SELECT count(*) FROM "+table); n > 0 {
				t.Errorf("%s has %d rows", table, n)
			}
		}
		exec(t, target, fresh.DB, "INSERT INTO accounts VALUES (1, 'one', 1, 0, ?, ?)", false, "2026-01-05 02:00:00")
		again := try(t, target, fresh.DB, "INSERT INTO accounts VALUES (2, 'one', 1, 0, ?, ?)", false, "2026-01-05 02:00:00")
		if again == nil {
			t.Error("a login may come twice on a server")
		}
		if err := try(t, target, fresh.DB, "INSERT INTO login_log (role_id, address, at) VALUES (5, '', ?)",
			"2026-01-05 02:00:00"); err == nil {
			t.Error("a login of nobody is allowed")
		}
	})
	if s := gameworld.Schema("oracle"); s != nil {
		t.Errorf("the schema of an unknown kind is %v", s)
	}
}
