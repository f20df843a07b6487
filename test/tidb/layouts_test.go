// Package tidb_test tests what the documentation says of TiDB: key layouts that spread new rows over
// regions, the warning about one that does not, and the way from the tables of a router to one table. It
// needs a TiDB, which "make tidb" starts.
package tidb_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/suite"
)

const rows = 1536

// clustered is what AutoMigrate makes of a model that says nothing about TiDB.
type clustered struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Email string             `gorm:"size:100"`
}

// scattered has its rows in the order of a number that TiDB makes, whose high bits are random.
type scattered struct {
	ID    snowflakeplugin.ID `gorm:"type:bigint PRIMARY KEY /*T![clustered_index] NONCLUSTERED */" snowflake:"true"`
	Email string             `gorm:"size:100"`
}

// TestPartitionsByHashSpreadNewRowsEvenly shows that the low bits of the IDs choose the partition, and that
// they are spread evenly.
func TestPartitionsByHashSpreadNewRowsEvenly(t *testing.T) {
	db := dbtest.TiDB(t).Open(t, nil)
	plugin, log := use(t, db)
	options := db.Set("gorm:table_options", " PARTITION BY HASH (id) PARTITIONS 16")
	for range 2 { // the second time there is nothing to do
		suite.Must(t, options.AutoMigrate(&clustered{}), "AutoMigrate")
	}
	create(t, db, func() any { return &clustered{} })
	parts := suite.PlainRows[string](t, db, "SELECT partition_name FROM information_schema.partitions "+
		"WHERE table_schema = DATABASE() AND table_name = 'clustereds'")
	if len(parts) != 16 {
		t.Fatalf("there are the partitions %q", parts)
	}
	for _, part := range parts {
		n := suite.PlainOne[int](t, db, "SELECT count(*) FROM clustereds PARTITION ("+part+")")
		if n < rows/20 || n > rows/13 {
			t.Errorf("partition %s has %d of %d rows, and a sixteenth is %d", part, n, rows, rows/16)
		}
	}
	suite.Must(t, plugin.Prepare(db, &clustered{}), "Prepare")
	if log.Len() > 0 {
		t.Errorf("the plugin warns: %s", log)
	}
}

// TestANonclusteredKeySpreadsNewRows shows that a table which is not stored in the order of its keys is
// spread by the numbers that TiDB gives its rows.
func TestANonclusteredKeySpreadsNewRows(t *testing.T) {
	db := dbtest.TiDB(t).Open(t, nil)
	plugin, log := use(t, db)
	options := db.Set("gorm:table_options", " /*T! SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=4 */")
	for range 2 {
		suite.Must(t, options.AutoMigrate(&scattered{}), "AutoMigrate")
	}
	create(t, db, func() any { return &scattered{} })
	if kind := keyKind(t, db, "scattereds"); kind != "NONCLUSTERED" {
		t.Errorf("the key is %s", kind)
	}
	// The highest bit is the sign. The next four are the shard.
	shards := suite.PlainRows[int](t, db, "SELECT DISTINCT _tidb_rowid >> 59 FROM scattereds")
	if len(shards) < 12 {
		t.Errorf("%d statements wrote to %d of 16 regions", rows, len(shards))
	}
	suite.Must(t, plugin.Prepare(db, &scattered{}), "Prepare")
	if log.Len() > 0 {
		t.Errorf("the plugin warns: %s", log)
	}
}

// Other databases read the words for TiDB as comments.
func TestAModelForTiDBSuitsEveryDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		use(t, db)
		options := db.Set("gorm:table_options", " /*T! SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=4 */")
		for range 2 {
			suite.Must(t, options.AutoMigrate(&scattered{}), "AutoMigrate")
		}
		row := scattered{}
		suite.Must(t, db.Create(&row).Error, "Create")
		if db.Create(&scattered{ID: row.ID}).Error == nil {
			t.Error("two rows have one key")
		}
	})
}

func TestPrepareWarnsOnceOfAClusteredKey(t *testing.T) {
	db := dbtest.TiDB(t).Open(t, nil)
	plugin, log := use(t, db)
	suite.Must(t, plugin.Prepare(db, &clustered{}), "Prepare")
	if log.Len() > 0 {
		t.Errorf("there is no table, and the plugin warns: %s", log)
	}
	suite.Must(t, db.AutoMigrate(&clustered{}), "AutoMigrate")
	if kind := keyKind(t, db, "clustereds"); kind != "CLUSTERED" {
		t.Fatalf("the key is %s", kind)
	}
	for range 3 {
		suite.Must(t, plugin.Prepare(db, &clustered{}), "Prepare")
	}
	said := log.String()
	if strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "table=clustereds") ||
		!strings.Contains(said, "NONCLUSTERED") {
		t.Errorf("the plugin said %q", said)
	}
}

// Partitions by time are filled one after the other.
func TestPrepareWarnsOfPartitionsByTime(t *testing.T) {
	db := dbtest.TiDB(t).Open(t, nil)
	plugin, log := use(t, db)
	options := db.Set("gorm:table_options", " PARTITION BY RANGE (id) (PARTITION p_old VALUES LESS THAN (1000), "+
		"PARTITION p_later VALUES LESS THAN MAXVALUE)")
	suite.Must(t, options.AutoMigrate(&clustered{}), "AutoMigrate")
	suite.Must(t, plugin.Prepare(db, &clustered{}), "Prepare")
	if !strings.Contains(log.String(), "table=clustereds") {
		t.Errorf("the plugin said %q", log)
	}
}

// use puts a plugin to use that logs to the buffer.
func use(t *testing.T, db *gorm.DB) (*snowflakeplugin.Plugin, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1),
		snowflakeplugin.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	suite.Must(t, db.Use(plugin), "Use")
	return plugin, &log
}

// create creates rows, each with a statement of its own.
func create(t *testing.T, db *gorm.DB, row func() any) {
	t.Helper()
	for range rows {
		suite.Must(t, db.Create(row()).Error, "Create")
	}
}

// keyKind tells how TiDB stores a table.
func keyKind(t *testing.T, db *gorm.DB, table string) string {
	t.Helper()
	return suite.PlainOne[string](t, db, "SELECT tidb_pk_type FROM information_schema.tables "+
		"WHERE table_schema = DATABASE() AND table_name = ?", table)
}
