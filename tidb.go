package snowflakeplugin

import (
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
)

// hotRegion is what warnOfHotRegion says.
const hotRegion = "TiDB stores the rows of this table in the order of their IDs, so all new rows go to one " +
	"region at a time; partition the table by HASH, or make its primary key NONCLUSTERED with " +
	"SHARD_ROW_ID_BITS (docs/tidb.md)"

// warnOfHotRegion warns that all new rows of a model go to one region of TiDB at a time: the table is
// stored in the order of its primary key, which begins with an ID. It warns once for each model, and says
// nothing if there is no table yet, or if the server does not tell.
func (p *Plugin) warnOfHotRegion(db *gorm.DB, s *schema.Schema, plan *fill.Plan) {
	if db.DryRun || !isTiDB(db) || len(s.PrimaryFields) == 0 || !plan.Fills(s.PrimaryFields[0]) {
		return
	}
	if _, said := p.said.Load(saying{hotRegion, s}); said {
		return
	}
	// A name that GORM was given may begin with that of a database.
	database, table, found := strings.Cut(s.Table, ".")
	if !found {
		database, table = "", s.Table
	}
	// A table in partitions by a hash is spread, whatever the key is. One in partitions by time is not.
	const query = "SELECT t.tidb_pk_type FROM information_schema.tables t " +
		"WHERE t.table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND t.table_name = ? " +
		"AND NOT EXISTS (SELECT 1 FROM information_schema.partitions p WHERE p.table_schema = t.table_schema " +
		"AND p.table_name = t.table_name AND p.partition_method IN ('HASH', 'KEY'))"
	var kind string
	err := db.Session(&gorm.Session{NewDB: true}).Raw(query, database, table).Scan(&kind).Error
	if err == nil && kind == "CLUSTERED" {
		p.warn(s, hotRegion, "model", s.Name, "table", s.Table)
	}
}

// isTiDB tells TiDB by the version that GORM's driver has read when it connected. So nothing is asked of any
// server.
func isTiDB(db *gorm.DB) bool {
	migrator := db.Migrator()
	if around, ok := migrator.(interface{ Unwrap() gorm.Migrator }); ok {
		migrator = around.Unwrap()
	}
	versioned, ok := migrator.(interface {
		TiDBVersion() (is bool, major, minor, patch int, err error)
	})
	if !ok {
		return false
	}
	// It returns an error for a version of TiDB that has no three numbers.
	is, _, _, _, err := versioned.TiDBVersion()
	return is || err != nil
}
