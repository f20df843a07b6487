package statements_test

import (
	"database/sql"
	"strconv"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// idHandles opens the database of a DSN in each way that affects the values of Scan and Value: with
// the defaults, and with arguments interpolated into the text of the query.
func idHandles(t *testing.T, target dbtest.Target, dsn string) map[string]*gorm.DB {
	t.Helper()
	handles := map[string]*gorm.DB{"default": target.OpenDSN(t, dsn, nil)}
	switch target.Dialect {
	case "mysql":
		handles["interpolated"] = target.OpenDSN(t, dsn, nil,
			dbtest.DSNParam("interpolateParams", "true"))
	case "postgres":
		dialector := postgres.New(postgres.Config{DSN: dsn, PreferSimpleProtocol: true})
		db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pool.Close() })
		handles["simple"] = db
	}
	return handles
}

// exactColumns hold 1541815603606036480 exactly, and small ones hold 7. The others hold no exact
// ID.
var (
	exactColumns = map[string][]string{
		"sqlite": {"bigint", "integer", "decimal(20,0)", "text", "varchar(20)", "blob"},
		"postgres": {"bigint", "numeric", "numeric(20,0)", "text", "varchar(20)", "char(19)",
			"bytea"},
		"mysql": {"bigint", "bigint unsigned", "bigint unsigned zerofill", "decimal(20,0)",
			"decimal(19,0) unsigned", "text", "varchar(20)", "char(20)", "varbinary(20)"},
	}
	smallColumns = map[string][]string{
		"sqlite":   {"int", "smallint"},
		"postgres": {"integer", "smallint"},
		"mysql":    {"int", "int unsigned", "smallint", "tinyint", "mediumint"},
	}
	inexactColumns = map[string][][2]string{ // a type and a literal
		"sqlite": {{"real", "1541815603606036480"}, {"double", "7"}, {"bigint", "-1"},
			{"decimal", "1.5"}, {"text", "'12x'"}, {"text", "''"}, {"boolean", "1"},
			{"timestamp", "0"}, {"blob", "x'0102'"}},
		"postgres": {{"double precision", "1541815603606036480"}, {"real", "7"}, {"bigint", "-1"},
			{"numeric", "1.5"}, {"numeric", "9223372036854775808"}, {"numeric", "'NaN'"},
			{"numeric(20,2)", "7"}, {"text", "'12x'"}, {"text", "''"}, {"char(20)", "'7'"},
			{"boolean", "true"}, {"timestamptz", "now()"}, {"bytea", `'\x0102'`},
			{"uuid", "gen_random_uuid()"}, {"bigint[]", "'{7}'"}},
		"mysql": {{"double", "1541815603606036480"}, {"float", "7"}, {"bigint", "-1"},
			{"bigint unsigned", "9223372036854775808"}, {"bigint unsigned", "18446744073709551615"},
			{"decimal(20,0)", "9223372036854775808"}, {"decimal(20,2)", "7"}, {"text", "'12x'"},
			{"text", "''"}, {"datetime", "now()"}, {"bit(8)", "7"}, {"varbinary(2)", "x'0102'"}},
	}
)

// A source is a table with one row and one column, read through several handles.
type source struct {
	handles map[string]*gorm.DB
	table   string
}

// newSource creates a separate table for each column. A server may keep the plan of a query by its
// text, and such a plan would not fit another type behind the same name.
func newSource(t *testing.T, handles map[string]*gorm.DB, n int, column, literal string) source {
	t.Helper()
	s := source{handles, "source_" + strconv.Itoa(n)}
	for _, statement := range []string{
		`CREATE TABLE ` + s.table + ` (one int, v ` + column + `)`,
		`INSERT INTO ` + s.table + ` VALUES (1, ` + literal + `)`,
	} {
		if err := handles["default"].Exec(statement).Error; err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return s
}

// each reads the row through every handle, once without an argument and once with one. The drivers
// use another protocol for each, and therefore other Go types. A row can be scanned only once.
func (s source) each(t *testing.T, read func(how string, row *sql.Row)) {
	t.Helper()
	for name, db := range s.handles {
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		query, where := `SELECT v FROM `+s.table, ` WHERE one = ?`
		if db.Name() == "postgres" {
			where = ` WHERE one = $1`
		}
		read(name+" without arguments", pool.QueryRowContext(t.Context(), query))
		read(name+" with an argument", pool.QueryRowContext(t.Context(), query+where, 1))
	}
}

func TestScanReadsEveryColumnThatIsExact(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		handles := idHandles(t, target, target.DSN(t))
		tables := 0
		check := func(column, literal string, want snowflakeplugin.ID) {
			tables++
			source := newSource(t, handles, tables, column, literal)
			source.each(t, func(how string, row *sql.Row) {
				id := snowflakeplugin.ID(42)
				if err := row.Scan(&id); err != nil || id != want {
					t.Errorf("%s, %s: read %d, %v", column, how, id, err)
				}
			})
			source.each(t, func(how string, row *sql.Row) {
				var pointer *snowflakeplugin.ID
				if err := row.Scan(&pointer); err != nil || pointer == nil || *pointer != want {
					t.Errorf("%s, %s: read the pointer %v, %v", column, how, pointer, err)
				}
			})
			source.each(t, func(how string, row *sql.Row) {
				var null sql.Null[snowflakeplugin.ID]
				if err := row.Scan(&null); err != nil || !null.Valid || null.V != want {
					t.Errorf("%s, %s: read %v, %v", column, how, null, err)
				}
			})
		}
		for _, column := range exactColumns[target.Dialect] {
			literal := "1541815603606036480"
			switch column {
			case "text", "blob", "bytea", "varchar(20)", "char(19)", "char(20)", "varbinary(20)":
				literal = "'" + literal + "'"
			}
			check(column, literal, 1541815603606036480)
		}
		for _, column := range smallColumns[target.Dialect] {
			check(column, "7", 7)
		}
		check("bigint", "9223372036854775807", maxID)
		check("bigint", "0", 0)
	})
}

func TestScanRefusesEveryColumnThatIsNotExact(t *testing.T) {
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		handles := idHandles(t, target, target.DSN(t))
		for i, c := range inexactColumns[target.Dialect] {
			source := newSource(t, handles, i, c[0], c[1])
			source.each(t, func(how string, row *sql.Row) {
				id := snowflakeplugin.ID(42)
				err := row.Scan(&id)
				if wantInvalid(t, err, ""); id != 42 || t.Failed() {
					t.Fatalf("%s %s, %s: read %d, %v", c[0], c[1], how, id, err)
				}
			})
		}
		for i, column := range []string{"bigint", "text"} {
			source := newSource(t, handles, 100+i, column, "NULL")
			source.each(t, func(how string, row *sql.Row) {
				id := snowflakeplugin.ID(42)
				err := row.Scan(&id)
				wantInvalid(t, err, "NULL: read it into a *ID or sql.Null[ID]")
				if id != 42 {
					t.Errorf("%s: NULL changed the receiver to %d", how, id)
				}
			})
			source.each(t, func(how string, row *sql.Row) {
				pointer := new(snowflakeplugin.ID)
				if err := row.Scan(&pointer); err != nil || pointer != nil {
					t.Errorf("%s: NULL came back as the pointer %v, %v", how, pointer, err)
				}
			})
			source.each(t, func(how string, row *sql.Row) {
				null := sql.Null[snowflakeplugin.ID]{Valid: true}
				if err := row.Scan(&null); err != nil || null.Valid {
					t.Errorf("%s: NULL came back as %v, %v", how, null, err)
				}
			})
		}
	})
}
