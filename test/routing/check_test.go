package routing_test

import (
	"database/sql"
	"errors"
	"log"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

type drifted struct {
	ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Name  string             `gorm:"size:40;index:idx_drifted_name"`
	Size  int64
	Ratio float64
	Seen  time.Time
	Note  *string `gorm:"size:40"`
}

// driftedTable begins what the error of a check says of a table.
var driftedTable = regexp.MustCompile(`(\S+) in database \d+: `)

// drifts lists what the error of a check says, each with its table.
func drifts(err error) (all []string) {
	if err == nil {
		return nil
	}
	_, list, _ := strings.Cut(err.Error(), "differ from their models: ")
	found := driftedTable.FindAllStringSubmatchIndex(list, -1)
	for i, at := range found {
		end := len(list)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		all = append(all, list[at[2]:at[3]]+": "+strings.TrimSuffix(list[at[1]:end], "; "))
	}
	return all
}

func TestCheckFindsTablesThatAreNotAsTheirModels(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &drifted{})
		must(t, err, "NewRouter")

		found := func() (whats []string) {
			t.Helper()
			err := r.Check(t.Context())
			if err != nil && !errors.Is(err, snowflakeplugin.ErrSharding) {
				t.Fatal(err)
			}
			return drifts(err)
		}
		if whats := found(); len(whats) != 4 || whats[3] != "drifteds_03: the table is missing: call AutoMigrate" {
			t.Errorf("without tables: %q", whats)
		}
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		if whats := found(); whats != nil {
			t.Errorf("after AutoMigrate: %q", whats)
		}
		must(t, db.Migrator().DropIndex("drifteds_01", "idx_drifted_name_01"), "DropIndex")
		must(t, db.Exec("ALTER TABLE drifteds_02 DROP COLUMN note").Error, "DROP COLUMN")
		want := []string{"drifteds_01: index idx_drifted_name_01 is missing", "drifteds_02: column note is missing"}
		if whats := found(); !slices.Equal(whats, want) {
			t.Errorf("found %q, want %q", whats, want)
		}
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate again")
		if whats := found(); whats != nil {
			t.Errorf("after the second AutoMigrate: %q", whats)
		}
		if target.Dialect == "sqlite" {
			return // SQLite cannot change the type of a column
		}
		alter := "ALTER TABLE drifteds_03 ALTER COLUMN size TYPE integer"
		if target.Dialect == "mysql" {
			alter = "ALTER TABLE drifteds_03 MODIFY size int"
		}
		must(t, db.Exec(alter).Error, alter)
		if whats := found(); len(whats) != 1 || whats[0][:24] != "drifteds_03: column size" {
			t.Errorf("with another type: %q", whats)
		}
	})
}

// The driver of SQLite logs its query for the indexes of a table as if somebody had asked for that.
func TestACheckThatFindsNothingLogsNothing(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		var logged strings.Builder
		db := target.Open(t, nil)
		leased(t, db)
		db.Logger = logger.New(log.New(&logged, "", 0), logger.Config{LogLevel: logger.Error})
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: 1, Databases: []*gorm.DB{db}}, &drifted{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, r.Check(t.Context()), "Check")
		if logged.Len() > 0 {
			t.Errorf("logged:\n%s", &logged)
		}
	})
}

// novel says by tags what a foreign key would do, in one case what it does anyway.
type novel struct {
	ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Chapters []chapter          `gorm:"foreignKey:NovelID;constraint:OnUpdate:CASCADE,OnDelete:CASCADE"`
	Reviews  []novelReview      `gorm:"foreignKey:NovelID;constraint:fk_of_reviews"`
}

type chapter struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:NovelID"`
	NovelID snowflakeplugin.ID
}

type novelReview struct {
	ID      snowflakeplugin.ID `gorm:"primaryKey" snowflake:"like:NovelID"`
	NovelID snowflakeplugin.ID
	Novel   *novel
}

// The tables of shards have no foreign keys, so nothing happens to the rows at the other end.
func TestAutoMigrateWarnsOfATagThatDoesNothing(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	db := dbtest.Named("sqlite").Open(t, nil)
	leased(t, db)
	db.Logger = logger.New(log.New(&logged, "", 0), logger.Config{LogLevel: logger.Warn})
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}},
		&novel{}, &chapter{}, &novelReview{})
	must(t, err, "NewRouter")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	const want = "the tag constraint:OnDelete:CASCADE of novel.Chapters does nothing"
	if text := logged.String(); strings.Count(text, want) != 1 || strings.Count(text, "snowflakeplugin:") != 1 {
		t.Errorf("logged once %q, and nothing else? It was\n%s", want, text)
	}
}

func TestMinAndMaxAreThoseOfAllShards(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &drifted{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		size := int64(42)
		if some, err := r.Aggregate(t.Context(), &drifted{}, "max", "Size", &size); some || err != nil || size != 42 {
			t.Errorf("of nothing: %t, %v, %d", some, err, size)
		}
		noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
		rows := make([]drifted, 23)
		for i := range rows {
			rows[i] = drifted{
				Name: string(rune('a' + i)), Size: int64(i - 5), Ratio: float64(i) / 2, Seen: noon.Add(time.Duration(i) * time.Hour),
			}
		}
		must(t, r.Create(t.Context(), rows), "Create")

		var low, high string
		var ratio float64
		var seen, first time.Time
		var note string
		for name, get := range map[string]func() (bool, error){
			"min size":  func() (bool, error) { return r.Aggregate(t.Context(), &drifted{}, "min", "size", &size) },
			"min name":  func() (bool, error) { return r.Aggregate(t.Context(), &drifted{}, "min", "Name", &low) },
			"max name":  func() (bool, error) { return r.Aggregate(t.Context(), &drifted{}, "max", "Name", &high) },
			"max ratio": func() (bool, error) { return r.Aggregate(t.Context(), &drifted{}, "max", "Ratio", &ratio) },
			"max note": func() (bool, error) {
				some, err := r.Aggregate(t.Context(), &drifted{}, "max", "Note", &note)
				return !some, err
			},
			"max seen":   func() (bool, error) { return r.Aggregate(t.Context(), &drifted{}, "max", "Seen", &seen) },
			"min seen":   func() (bool, error) { return r.Aggregate(t.Context(), &drifted{}, "min", "Seen", &first) },
			"of a scope": func() (bool, error) { return scopedMax(t, r) },
		} {
			if ok, err := get(); !ok || err != nil {
				t.Errorf("%s: %t, %v", name, ok, err)
			}
		}
		if size != -5 || low != "a" || high != "w" || ratio != 11 || !seen.Equal(noon.Add(22*time.Hour)) ||
			!first.Equal(noon) {
			t.Errorf("found %d, %q, %q, %v, %v, %v", size, low, high, ratio, seen, first)
		}
		_, err = r.Aggregate(t.Context(), &drifted{}, "avg", "Size", &size)
		wantErr(t, err, gorm.ErrInvalidValue, "no such function")
		_, err = r.Aggregate(t.Context(), &drifted{}, "min", "Nothing", &size)
		wantErr(t, err, gorm.ErrInvalidField, "no such column")
		_, err = r.Aggregate(t.Context(), &drifted{}, "min", "Size", size)
		wantErr(t, err, gorm.ErrInvalidValue, "no pointer")
		_, err = r.Aggregate(t.Context(), &drifted{}, "min", "Size", &struct{}{})
		wantErr(t, err, gorm.ErrInvalidValue, "no order")
	})
}

func scopedMax(t *testing.T, r *snowflakeplugin.Router) (bool, error) {
	t.Helper()
	var size int64
	few := r.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("size < ?", 10) })
	some, err := few.Aggregate(t.Context(), &drifted{}, "max", "Size", &size)
	return some && size == 9, err
}

// rotate makes every statement of a handle run on the connection that has been idle for longest. A pool
// hands out the last one that came back, and others only under load.
func rotate(t *testing.T, db *gorm.DB) {
	t.Helper()
	pool, err := db.DB()
	must(t, err, "DB")
	var mu sync.Mutex
	var held []*sql.Conn
	hold := func(db *gorm.DB) {
		mu.Lock()
		defer mu.Unlock()
		last, err := pool.Conn(db.Statement.Context)
		if err != nil {
			_ = db.AddError(err)
			return
		}
		held = append(held, last)
		if len(held) > 5 {
			_ = held[0].Close() // which gives it back
			held = held[1:]
		}
	}
	must(t, db.Callback().Query().Before("gorm:query").Register("rotate", hold), "Register")
	must(t, db.Callback().Row().Before("gorm:row").Register("rotate", hold), "Register")
	t.Cleanup(func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	})
}

// A connection of SQLite keeps the schema that it has read until it runs a statement.
func TestCheckAndAutoMigrateSeeWhatOtherConnectionsHaveChanged(t *testing.T) {
	t.Parallel()
	target := dbtest.Targets()[0]
	for _, connections := range []int{16, 1} {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(connections))
		other := target.OpenDSN(t, dsn, nil, dbtest.MaxOpenConns(1))
		leased(t, db)
		r, err := snowflakeplugin.NewRouter(
			snowflakeplugin.ShardingConfig{Shards: 4, Databases: []*gorm.DB{db}}, &drifted{})
		must(t, err, "NewRouter")
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		if connections > 1 {
			rotate(t, db)
		}
		for range 4 {
			must(t, r.Check(t.Context()), "Check, so that many connections have read the schema")
			var tables int64
			must(t, other.Raw("SELECT count(*) FROM sqlite_master").Scan(&tables).Error, "to read the schema anew")
			must(t, other.Exec("ALTER TABLE drifteds_02 DROP COLUMN note").Error, "DROP COLUMN")
			if found := drifts(r.Check(t.Context())); !slices.Equal(found, []string{"drifteds_02: column note is missing"}) {
				t.Errorf("without a column: %q", found)
			}
			must(t, r.AutoMigrate(t.Context()), "AutoMigrate again")
		}
		must(t, r.Check(t.Context()), "Check at last")
	}
}
