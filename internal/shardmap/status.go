package shardmap

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// Status is what some databases say about the shards in them.
type Status struct {
	Models      []MapStatus `json:"models"`
	Reshardings []JobStatus `json:"reshardings"`
}

// MapStatus is the shard map of one model.
type MapStatus struct {
	Table  string       `json:"table"` // without the number of a shard
	First  int          `json:"first"` // the number of shards at the first start
	Tables []ShardTable `json:"tables"`
}

// ShardTable is the table of a shard.
type ShardTable struct {
	Table string `json:"table"`
	Entry
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"` // with the indexes, as the catalog estimates them; 0 on SQLite
}

// JobStatus is a resharding whose old tables are not dropped yet.
type JobStatus struct {
	Name string   `json:"name"`
	Base string   `json:"table"` // of the first model of the router
	From []string `json:"from"`  // classes, such as 3 of 16
	To   []string `json:"to"`
	Over bool     `json:"over"` // the map has the new shards
}

// ReadStatus reads the records, and counts the rows of each table.
func ReadStatus(ctx context.Context, dbs []*gorm.DB) (Status, error) {
	status := Status{Models: []MapStatus{}, Reshardings: []JobStatus{}}
	held := map[string][]Entry{}
	all, err := readAll[Record](ctx, dbs, ShardsTable, byName)
	if err != nil {
		return status, fmt.Errorf("snowflakeplugin: the shard map: %w", err)
	}
	for database, records := range all {
		for _, c := range records {
			entries, err := readEntries(c.Held, c.Shards, database)
			if err != nil {
				return status, fmt.Errorf("snowflakeplugin: the shard map in database %d: %s: %w", database, c.Name,
					err)
			}
			if held[c.Name] == nil {
				status.Models = append(status.Models, MapStatus{Table: c.Name, First: c.Shards,
					Tables: []ShardTable{}})
			}
			held[c.Name] = append(held[c.Name], entries...)
		}
	}
	slices.SortFunc(status.Models, func(a, b MapStatus) int { return cmp.Compare(a.Table, b.Table) })
	for i := range status.Models {
		m := &status.Models[i]
		entries, _ := valid(held[m.Table]) // Of a router, some databases may not have been given.
		for _, e := range entries {
			table := ShardTable{Table: e.TableOn(m.Table), Entry: e}
			if err := table.measure(ctx, dbs[e.Database]); err != nil {
				return status, fmt.Errorf("snowflakeplugin: counting %s in database %d: %w", table.Table, e.Database,
					err)
			}
			m.Tables = append(m.Tables, table)
		}
	}
	return status, status.addJobs(ctx, dbs, held)
}

func byName(tx *gorm.DB) *gorm.DB { return tx.Order("name") }

// measure counts the rows, and asks for the size.
func (t *ShardTable) measure(ctx context.Context, db *gorm.DB) error {
	db = plain(ctx, db)
	err := db.Raw("SELECT COUNT(*) FROM " + db.Statement.Quote(t.Table)).Scan(&t.Rows).Error
	d, _ := dialect.Of(db.Name())
	if err != nil || d.Embedded() {
		return err
	}
	query, args := d.Bytes(t.Table)
	return db.Statement.ConnPool.QueryRowContext(ctx, query, args...).Scan(&t.Bytes)
}

func (s *Status) addJobs(ctx context.Context, dbs []*gorm.DB, held map[string][]Entry) error {
	jobs, err := readJobs(ctx, dbs, byName)
	for _, j := range jobs {
		entries, _ := valid(held[j.Base])
		status := JobStatus{Name: j.Name, Base: j.Base, Over: j.isOver(entries)}
		for _, e := range j.From {
			status.From = append(status.From, e.String())
		}
		for _, e := range j.To {
			status.To = append(status.To, e.String())
		}
		s.Reshardings = append(s.Reshardings, status)
	}
	return err
}
