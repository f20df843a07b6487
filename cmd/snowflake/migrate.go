package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/migrate"
)

func migrateCommand() command {
	return command{
		name: "migrate", args: "[TABLE...]", short: "list what of a database does not fit IDs, and print the SQL",
		help: `
Reads a database whose tables count their keys. It lists, as comments, what does not fit: keys that count,
columns with less than 64 bits that are such keys or refer to them, references that no foreign key declares,
and columns with numbers of counters that have no unique index. Then it prints the statements of the
switch-over. With --back it prints those of the way back, which set what counts above the greatest keys. Print
and keep those before the switch-over. It changes nothing. Run what it prints while no program writes, on a
copy first, with "psql -v ON_ERROR_STOP=1", mysql or sqlite3. After an error, PostgreSQL and SQLite are as
they were. MySQL and MariaDB are not: mend the cause, run the first line of what was printed once more, and
then the statement that failed and all that follow. Do not print it again: the database no longer knows the
foreign keys that were dropped.

Without a TABLE it looks at all tables whose primary key is one integer column that refers to nothing.
` + dsnHelp + `

  snowflake migrate --dsn "$DSN" > forward.sql
  snowflake migrate --dsn "$DSN" --back > back.sql
  snowflake migrate --dsn "$DSN" users orders`,
		flags: func(set *flag.FlagSet, o *options) {
			set.StringVar(&o.dsn, "dsn", "", "the `DSN` of the database (default $"+dsnVariable+")")
			set.BoolVar(&o.back, "back", false, "print the statements of the way back")
		},
		run: runMigrate,
	}
}

func runMigrate(ctx context.Context, e *env, o *options, args []string) error {
	db, _, err := openGORM(e, o.database(e))
	if err != nil {
		return err
	}
	tables := make([]any, len(args))
	for i, name := range args {
		tables[i] = name
	}
	plan, err := migrate.Read(ctx, db, tables...)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(e.out, plan)
	}
	if dialect.Kind(plan.Dialect).Embedded() {
		// Its shell goes on after an error: it would drop a table that it could not copy.
		say(e.out, ".bail on\n")
	}
	statements := plan.Forward
	if o.back {
		statements = plan.Back
	} else {
		for _, f := range plan.Findings {
			say(e.out, "-- %s: %s\n", f.Kind, plain(f.Text))
		}
	}
	if len(statements) == 0 {
		say(e.out, "-- There is no statement to run.\n")
	}
	for _, statement := range statements {
		if strings.Contains(statement, "--") {
			statement += "\n" // it may end in a comment
		}
		say(e.out, "%s;\n", statement)
	}
	return nil
}

func migrateFilesCommand() command {
	return command{
		name: "migrate-files", args: "goose | atlas | golang-migrate",
		needs: "exactly one tool is needed: goose, atlas or golang-migrate", least: 1, most: 1,
		short: "write migrations that make the plugin's own tables",
		help: `
Writes the migrations that make the tables of the leases, of the authority and of the counters, for a login
that may make tables. The DSN says for which kind of database; nothing is asked of it. Existing files are
refused (exit code 3). For Atlas, run "atlas migrate hash" afterwards.
` + dsnHelp + `

  snowflake migrate-files goose --dsn "$DSN" --dir migrations`,
		values: []string{string(migrate.Goose), string(migrate.Atlas), string(migrate.GolangMigrate)},
		flags: func(set *flag.FlagSet, o *options) {
			set.StringVar(&o.dsn, "dsn", "", "the `DSN` of the database (default $"+dsnVariable+")")
			set.StringVar(&o.dir, "dir", ".", "the `DIRECTORY` of the migrations, which must be there")
		},
		run: runMigrateFiles,
	}
}

func runMigrateFiles(_ context.Context, e *env, o *options, args []string) error {
	dialector, err := dialectorOf(o.database(e))
	if err != nil {
		return err
	}
	files, err := migrate.Files(migrate.Tool(strings.ToLower(args[0])), dialector.Name(), time.Now())
	if err != nil {
		return usagef("%v", err)
	}
	if o.json {
		return printJSON(e.out, files)
	}
	for _, file := range files {
		path := filepath.Join(o.dir, file.Name)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		if err != nil {
			return err
		}
		_, err = f.WriteString(file.Text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		say(e.out, "%s\n", plain(path))
	}
	return nil
}
