package migrate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/migrate"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

func TestFilesMakeTheTablesThatThePluginUses(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 59, 0, time.UTC)
	dbtest.Run(t, dbtest.Chosen(t.Name(), dbtest.Servers()), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		files, err := migrate.Files(migrate.GolangMigrate, target.Dialect, at)
		suite.Must(t, err, "Files")
		for _, file := range files {
			if strings.HasSuffix(file.Name, ".up.sql") {
				suite.PlainExec(t, db, file.Text)
			}
		}
		suite.Leased(t, db, snowflakeplugin.WithLeasedNode(3))
		suite.Same(t, "the records of the node", suite.PlainOne[int64](t, db,
			"SELECT count(*) FROM snowflake_nodes WHERE node = 3"), 1)
		for _, file := range slices.Backward(files) {
			if strings.HasSuffix(file.Name, ".down.sql") && !strings.Contains(file.Name, "nodes") {
				suite.PlainExec(t, db, file.Text)
			}
		}
	})
}

func TestFilesHaveTheFormOfTheirTool(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 59, 0, time.UTC)
	for tool, want := range map[migrate.Tool][]string{
		migrate.Goose: {
			"20260301120059_snowflake_nodes.sql", "20260301120100_snowflake_authority.sql",
			"20260301120101_snowflake_segments.sql",
		},
		migrate.Atlas: {
			"20260301120059_snowflake_nodes.sql", "20260301120100_snowflake_authority.sql",
			"20260301120101_snowflake_segments.sql",
		},
		migrate.GolangMigrate: {
			"20260301120059_snowflake_nodes.up.sql", "20260301120059_snowflake_nodes.down.sql",
			"20260301120100_snowflake_authority.up.sql", "20260301120100_snowflake_authority.down.sql",
			"20260301120101_snowflake_segments.up.sql", "20260301120101_snowflake_segments.down.sql",
		},
	} {
		files, err := migrate.Files(tool, "mysql", at)
		suite.Must(t, err, "Files")
		var names []string
		for _, file := range files {
			names = append(names, file.Name)
			if goose := strings.HasPrefix(file.Text, "-- +goose Up\nCREATE TABLE"); goose != (tool == migrate.Goose) {
				t.Errorf("%s, %s:\n%s", tool, file.Name, file.Text)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %q", tool, names)
		}
	}
	for _, wrong := range [][2]string{{"flyway", "mysql"}, {"goose", "oracle"}} {
		_, err := migrate.Files(migrate.Tool(wrong[0]), wrong[1], at)
		suite.WantErr(t, err, snowflakeplugin.ErrOptions, strings.Join(wrong[:], " and "))
	}
}
