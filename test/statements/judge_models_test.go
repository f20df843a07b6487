package statements_test

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// The models of the judge. A voyage has every kind of relation, to models with and without a further unique
// key.
type (
	voyage struct {
		ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Text    string             `gorm:"size:50"`
		ShipID  *snowflakeplugin.ID
		Ship    *ship
		PortID  *snowflakeplugin.ID
		Port    *port
		Log     *logbook
		Crates  []crate
		Stamps  []stamp  `gorm:"polymorphic:Owner"`
		Sailors []*ship  `gorm:"many2many:voyage_ships"`
		Havens  []*port  `gorm:"many2many:voyage_ports"`
		Passes  []permit `gorm:"foreignKey:VoyageID"`
	}
	// ship has no other unique key.
	ship struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Text string             `gorm:"size:50"`
	}
	// port has a name that is unique.
	port struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:50;uniqueIndex"`
		Text string             `gorm:"size:50"`
	}
	logbook struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		VoyageID *snowflakeplugin.ID
		Text     string `gorm:"size:50"`
	}
	crate struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		VoyageID *snowflakeplugin.ID
		Text     string `gorm:"size:50"`
	}
	stamp struct {
		ID        snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		OwnerID   *snowflakeplugin.ID
		OwnerType string `gorm:"size:50"`
		Text      string `gorm:"size:50"`
	}
	// permit is a child that has a further unique key and a public ID.
	permit struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		PublicID snowflakeplugin.ID `gorm:"index" snowflake:"true"`
		VoyageID *snowflakeplugin.ID
		Code     string `gorm:"size:50;uniqueIndex"`
		Text     string `gorm:"size:50"`
	}
	// The others have other kinds of keys.
	buoy struct {
		ID   int64  `gorm:"primaryKey" snowflake:"true"`
		Text string `gorm:"size:50"`
	}
	beacon struct {
		ID   string `gorm:"primaryKey;size:20" snowflake:"true"`
		Text string `gorm:"size:50"`
	}
	signal struct {
		ID   []byte `gorm:"primaryKey;size:8" snowflake:"true"`
		Text string `gorm:"size:50"`
	}
	berth struct {
		Pier int64              `gorm:"primaryKey;autoIncrement:false"`
		ID   snowflakeplugin.ID `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
		Text string             `gorm:"size:50"`
	}
	// flag has a table and a column whose names have to be quoted, and a key in an embedded struct.
	flag struct {
		FlagKey `gorm:"embedded"`
		Text    string `gorm:"size:50"`
	}
	FlagKey struct {
		ID snowflakeplugin.ID `gorm:"primaryKey;column:select" snowflake:"true"`
	}
	// anchor has a pointer as its key, and a column whose value the database makes.
	anchor struct {
		ID    *snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Text  string              `gorm:"size:50"`
		Depth int                 `gorm:"default:(5 + 2)"`
	}
	tide struct {
		ID   uint64 `gorm:"primaryKey;autoIncrement:false" snowflake:"true"`
		Name string `gorm:"size:50;uniqueIndex"`
		Text string `gorm:"size:50"`
	}
)

func (flag) TableName() string { return "order" }

// judgeTables are the tables of the models, children first.
var judgeTables = []string{
	"voyage_ships", "voyage_ports", "permits", "stamps", "crates", "logbooks", "voyages", "ships", "ports",
	"buoys", "beacons", "signals", "berths", "tides", "anchors",
	"order",
}

func judgeModels() []any {
	return []any{&ship{}, &port{}, &voyage{}, &logbook{}, &crate{}, &stamp{}, &permit{}, &buoy{}, &beacon{},
		&signal{}, &berth{}, &tide{}, &anchor{}, &flag{}}
}

// counted is a source of numbers that starts wherever a test wants it to.
type counted struct{ next atomic.Int64 }

func (c *counted) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		ids[i] = c.next.Add(1)
	}
	return nil
}

// startAt makes n the next number.
func (c *counted) startAt(n int64) { c.next.Store(n - 1) }

// rivals are two programs on one database that make the same IDs.
type rivals struct {
	dsn          string
	theirs, ours *gorm.DB
	their, our   *counted
	recorder     *dbtest.Recorder
}

// openRivals makes the tables and opens the two handles.
func openRivals(t *testing.T, target dbtest.Target) *rivals {
	t.Helper()
	r := &rivals{dsn: target.DSN(t), their: &counted{}, our: &counted{}}
	r.theirs = target.OpenDSN(t, r.dsn, nil, dbtest.MaxOpenConns(2))
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(r.their))
	must(t, r.theirs.Use(plugin), "Use")
	must(t, plugin.Prepare(r.theirs, judgeModels()...), "Prepare")
	models := judgeModels()
	if target.IsTiDB(t) { // it has no arithmetic in a default
		models = slices.DeleteFunc(models, func(model any) bool { _, is := model.(*anchor); return is })
		plainExec(t, r.theirs, "CREATE TABLE anchors "+
			"(id bigint PRIMARY KEY, text varchar(50), depth bigint DEFAULT 7)")
	}
	must(t, r.theirs.AutoMigrate(models...), "AutoMigrate")
	r.reopen(t, target, nil)
	return r
}

// reopen opens our handle anew.
func (r *rivals) reopen(t *testing.T, target dbtest.Target, cfg *gorm.Config, options ...dbtest.Option) {
	t.Helper()
	r.recorder = dbtest.NewRecorder()
	mine := gorm.Config{}
	if cfg != nil {
		mine = *cfg
	}
	mine.Logger = r.recorder
	r.ours = target.OpenDSN(t, r.dsn, &mine, append([]dbtest.Option{dbtest.MaxOpenConns(2)}, options...)...)
	plugin := snowflakeplugin.New(snowflakeplugin.WithSource(r.our))
	must(t, r.ours.Use(plugin), "Use")
	must(t, plugin.Prepare(r.ours, judgeModels()...), "Prepare")
}

// clear empties all tables.
func (r *rivals) clear(t *testing.T) {
	t.Helper()
	for _, table := range judgeTables {
		plainExec(t, r.theirs, quoted(r.theirs, "DELETE FROM ~"+table+"~"))
	}
}

// dump reads every row of every table by plain SQL.
func (r *rivals) dump(t *testing.T) []string {
	t.Helper()
	pool, err := r.theirs.DB()
	must(t, err, "DB")
	var lines []string
	for _, table := range judgeTables {
		lines = append(lines, r.rowsOf(t, pool, table)...)
	}
	slices.Sort(lines)
	return lines
}

// rowsOf returns a line for each row of a table.
func (r *rivals) rowsOf(t *testing.T, pool *sql.DB, table string) (lines []string) {
	t.Helper()
	rows, err := pool.QueryContext(t.Context(), quoted(r.theirs, "SELECT * FROM ~"+table+"~"))
	must(t, err, "SELECT")
	defer func() { must(t, rows.Close(), "Close") }()
	columns, err := rows.Columns()
	must(t, err, "Columns")
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		must(t, rows.Scan(values...), "Scan")
		var line strings.Builder
		line.WriteString(table)
		for i, v := range values {
			value := *v.(*any) //nolint:forcetypeassert // as made above
			if raw, ok := value.([]byte); ok {
				value = string(raw)
			}
			fmt.Fprintf(&line, " %s=%v", columns[i], value)
		}
		lines = append(lines, line.String())
	}
	must(t, rows.Err(), "rows")
	return lines
}

// clearKey makes a struct one that has no key yet, so that it can be created again.
func clearKey(row any) {
	for _, name := range []string{"ID", "PublicID"} {
		if field := reflect.ValueOf(row).Elem().FieldByName(name); field.IsValid() {
			field.SetZero()
		}
	}
}
