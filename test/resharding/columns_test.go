package resharding_test

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// sealed has columns that a model may not create, or not read, and one that drivers round.
type sealed struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Changed *string            `gorm:"<-:update"`
	Shown   *string            `gorm:"->"`
	Hidden  string             `gorm:"->:false;<-"`
	Rate    float32
	Code    string `gorm:"size:40;uniqueIndex:uq_sealed_code"`
	Raw     []byte
}

// Every value is moved as it is, within a database and between two. With interpolateParams, the driver of MySQL
// reads and writes all values as text.
func TestEveryColumnIsMoved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, target dbtest.Target) {
		var options []dbtest.Option
		if target.Dialect == "mysql" {
			options = append(options, dbtest.DSNParam("interpolateParams", "true"))
		}
		var dbs []*gorm.DB
		for i := range 4 {
			dbs = append(dbs, target.OpenDSN(t, target.DSN(t), nil, options[:min(len(options), i/2)]...))
		}
		for _, of := range [][]*gorm.DB{dbs[:2], dbs[2:]} {
			plugin := leased(t, of[0])
			must(t, of[1].Use(plugin), "Use")
			r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
				Shards: 2, Databases: of, Place: func(int) int { return 0 },
			}, &sealed{})
			must(t, err, "NewRouter")
			must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
			rows := make([]sealed, 40)
			for i := range rows {
				rows[i] = sealed{Hidden: fmt.Sprint("h", i), Rate: 1.2345678 * float32(i), Code: fmt.Sprint("c", i)}
				if i%2 == 0 {
					rows[i].Raw = []byte{0, 255, byte(i)}
				}
			}
			must(t, r.Create(t.Context(), rows), "Create")
			for shard := range 2 {
				must(t, of[0].Exec(fmt.Sprintf("UPDATE sealeds_%02d SET changed = 'x', shown = 'y'", shard)).Error,
					"values that the model cannot store")
			}
			before := dump(t, of)
			for residue := range 2 {
				_, err := resharding.Settings{Chunk: 7}.Split(t.Context(), r,
					resharding.Class{Residue: residue, Modulus: 2}, 2, 0, 1)
				must(t, err, "Split")
			}
			if after := dump(t, of); after != before {
				t.Errorf("before\n%s\nafter\n%s", before, after)
			}
		}
	})
}

// dump lists all rows that are not in old tables, in the order of their codes, as the databases write them.
func dump(t *testing.T, dbs []*gorm.DB) string {
	t.Helper()
	rate, char := "rate", "VARCHAR(40)"
	if dbs[0].Name() == "mysql" {
		rate, char = "CAST(rate AS DOUBLE)", "CHAR(40)"
	}
	lines := make([]string, 40)
	for _, db := range dbs {
		names, err := db.Migrator().GetTables()
		must(t, err, "GetTables")
		for _, table := range names {
			if !strings.HasPrefix(table, "sealeds_") || strings.HasSuffix(table, "_away") {
				continue
			}
			var rows []struct {
				Code, Changed, Shown, Hidden, Rate string
				Raw                                []byte
			}
			must(t, db.Raw(fmt.Sprintf("SELECT code, changed, shown, hidden, CAST(%s AS %s) AS rate, raw FROM %s",
				rate, char, table)).Scan(&rows).Error, "reading")
			for _, row := range rows {
				var number int
				_, err := fmt.Sscanf(row.Code, "c%d", &number)
				must(t, err, "the code")
				lines[number] += fmt.Sprintln(row)
			}
		}
	}
	return strings.Join(lines, "")
}

// counted has numbers of the database beside its key.
type counted struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Number int64              `gorm:"autoIncrement;index"`
}

// The database goes on counting where it was, so it gives no number of a table twice, even if the last rows are gone.
func TestNumbersOfTheDatabaseGoOn(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.Servers(), func(t *testing.T, target dbtest.Target) {
		if target.Dialect == "sqlite" {
			t.Skip("SQLite counts keys only")
		}
		target = mayMakeTriggers(target)
		dbs := []*gorm.DB{target.Open(t, nil), target.Open(t, nil)}
		plugin := leased(t, dbs[0])
		must(t, dbs[1].Use(plugin), "Use")
		r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
			Shards: 1, Databases: dbs, Place: func(int) int { return 0 },
		}, &counted{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, r.Create(t.Context(), make([]counted, 20)), "Create")
		must(t, dbs[0].Exec("DELETE FROM counteds_00 WHERE number > 15").Error, "the last rows")
		if target.Dialect == "postgres" {
			must(t, dbs[0].Exec("GRANT USAGE, SELECT ON SEQUENCE counteds_00_number_seq TO PUBLIC").Error, "the rights")
		}
		least := func(above int64) {
			t.Helper()
			rows := make([]counted, 8)
			must(t, r.Create(t.Context(), rows), "Create")
			must(t, r.Latest(t.Context(), &rows, len(rows)), "Latest") // because not every database returns numbers
			for _, row := range rows {
				if row.Number <= above {
					t.Errorf("a new row has the number %d, and %d were given before", row.Number, above)
				}
			}
		}
		_, err = resharding.Split(t.Context(), r, resharding.Class{Residue: 0, Modulus: 1}, 2, 0, 1)
		must(t, err, "Split")
		least(20)
		if target.Dialect == "postgres" {
			rights := int64(0)
			must(t, dbs[1].Raw("SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a WHERE c.relkind = 'S' AND a.grantee = 0 AND "+
				"c.relname LIKE 'counteds%'").Scan(&rights).Error, "the rights")
			same(t, "rights of all on the numbers in the other database", rights, 2)
		}
		_, err = resharding.Join(t.Context(), r, resharding.Class{Residue: 0, Modulus: 1}, 1)
		must(t, err, "Join")
		least(24)
	})
}
