package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/segment/sqlsegment"
)

// Tool is a program that runs migrations from files.
type Tool string

// The tools that [Files] writes for.
const (
	Goose         Tool = "goose"
	Atlas         Tool = "atlas"
	GolangMigrate Tool = "golang-migrate"
)

// File is a file of a migration.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Files returns the migrations that make the plugin's own tables, for logins that may not make any: those of
// the leases, of the authority, and of the counters. The dialect is postgres, mysql or sqlite. Each table has
// a migration of its own, because some drivers take one statement at a time, and the versions are the seconds
// from first on. Goose and golang-migrate also get the way back, which drops the tables; drop them only when
// no program uses the plugin. For Atlas, run "atlas migrate hash" when the files are in their directory.
//
// It returns an error wrapping snowflakeplugin.ErrOptions for another dialect or tool.
func Files(tool Tool, dialect string, first time.Time) ([]File, error) {
	if !slices.Contains([]Tool{Goose, Atlas, GolangMigrate}, tool) {
		return nil, fmt.Errorf("%w: migrate: there are files for %s, %s and %s, and not for %q", errs.ErrOptions,
			Goose, Atlas, GolangMigrate, tool)
	}
	leases, err1 := sqllease.DDL(sqllease.Dialect(dialect))
	authority, err2 := sqllease.AuthorityDDL(sqllease.Dialect(dialect))
	counters, err3 := sqlsegment.DDL(sqlsegment.Dialect(dialect))
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrOptions, err)
	}
	var files []File
	for i, table := range []struct{ name, ddl string }{
		{"snowflake_nodes", leases}, {"snowflake_authority", authority}, {"snowflake_segments", counters},
	} {
		up := strings.TrimSuffix(strings.TrimSpace(table.ddl), ";") + ";\n"
		down := "DROP TABLE " + table.name + ";\n"
		name := first.UTC().Add(time.Duration(i)*time.Second).Format("20060102150405") + "_" + table.name
		switch tool {
		case Goose:
			files = append(files, File{name + ".sql", "-- +goose Up\n" + up + "\n-- +goose Down\n" + down})
		case GolangMigrate:
			files = append(files, File{name + ".up.sql", up}, File{name + ".down.sql", down})
		default:
			files = append(files, File{name + ".sql", up})
		}
	}
	return files, nil
}
