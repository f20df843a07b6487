package merge_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "gorm.io/driver/sqlite" // registers sqlite3; take the drivers of your databases

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

// Two servers with a hero of the same name become one.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "merge")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	path := func(name string) string { return filepath.Join(dir, name+".db") }
	open := func(_ context.Context, dsn string) (*sql.DB, error) { return sql.Open("sqlite3", dsn) }

	// What a night's merge finds: two databases with rows, and an empty one that the game has migrated.
	for node, name := range []string{"new", "Avalon", "Camelot"} {
		db, err := open(ctx, path(name))
		check(err)
		_, err = db.ExecContext(ctx, "CREATE TABLE heroes (id BIGINT PRIMARY KEY, name VARCHAR(16) UNIQUE, gold INT)")
		check(err)
		if name != "new" {
			g, err := generator.New(generator.Game(), generator.FixedNode(int64(node)))
			check(err)
			id, err := g.Next(ctx)
			check(err)
			_, err = db.ExecContext(ctx, "INSERT INTO heroes VALUES (?, 'Arthur', ?)", id, 100*node)
			check(err)
		}
		check(db.Close())
	}

	// The draft and its lock are saved and reviewed; then every night is the same.
	plan, lock, err := merge.Draft(ctx, &merge.Plan{
		Version: 1,
		Layout:  merge.Layout{Preset: "game"},
		Servers: []merge.Server{
			{Name: "Avalon", Number: 1, DSN: path("Avalon")},
			{Name: "Camelot", Number: 2, DSN: path("Camelot")},
		},
		Target: merge.Target{Name: "Avalon", Number: 1, DSN: path("new")},
	}, merge.WithOpener(open))
	check(err)
	plan.Tables["heroes"] = &merge.TablePlan{
		Policy: merge.Rename, Rename: &merge.RenamePlan{Column: "name", Keep: "highest", By: "gold"},
	}

	m, err := merge.Open(ctx, plan, merge.WithOpener(open), merge.WithLock(lock))
	check(err)
	defer func() { check(m.Close()) }()
	found, err := m.Check(ctx)
	check(err)
	for _, c := range found.Conflicts {
		fmt.Printf("%s: %q of %s becomes %q\n", found.Verdict, c.Value, c.Other.Server, c.NewName)
	}
	done, err := m.Run(ctx)
	check(err)
	verified, err := m.Verify(ctx)
	check(err)
	fmt.Printf("%d rows, verified: %t\n", done.Rows, verified.OK)
	// Output:
	// resolved: "Arthur" of Avalon becomes "Arthur.s1"
	// 2 rows, verified: true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
