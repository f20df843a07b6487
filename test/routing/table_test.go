package routing_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// documented is the page with the table of all kinds of statements.
const documented = "../../docs/sharding-reference.md"

// The table is between these lines.
const (
	tableBegins = "<!-- made by TestStatementsOfAHandle: begin -->\n"
	tableEnds   = "<!-- made by TestStatementsOfAHandle: end -->\n"
)

// TestStatementsOfAHandle runs every kind of statement on a handle of a shard, once for rows of that shard and
// once for rows of another one, and compares the results with the table in the documentation. With
// SNOWFLAKE_WRITE_DOCS=1 it writes the table.
func TestStatementsOfAHandle(t *testing.T) {
	t.Parallel()
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		s, players := newWorld(t, []dbtest.Target{target})
		var b strings.Builder
		b.WriteString("| statement | rows of this shard | rows of another shard |\n|---|---|---|\n")
		for _, k := range kindsOfStatements() {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", k.name, s.outcome(k, players[1].ID, players[1].ID),
				s.outcome(k, players[1].ID, players[2].ID))
		}
		page, err := os.ReadFile(documented)
		must(t, err, "read the page")
		before, rest, found := strings.Cut(string(page), tableBegins)
		table, after, ended := strings.Cut(rest, tableEnds)
		if !found || !ended {
			t.Fatalf("%s does not have the lines around the table", documented)
		}
		if table == b.String() {
			return
		}
		if os.Getenv("SNOWFLAKE_WRITE_DOCS") != "" {
			must(t, os.WriteFile(documented, []byte(before+tableBegins+b.String()+tableEnds+after), 0o644), "write")
			return
		}
		want := strings.Split(table, "\n")
		for i, line := range strings.Split(b.String(), "\n") {
			if i >= len(want) || line != want[i] {
				t.Errorf("the table in %s should have in line %d\n%s", documented, i+1, line)
			}
		}
	})
}

// kindOfStatement is a statement on a handle of one shard, for the row with an ID of that or another shard.
// It returns how many rows it found or wrote.
type kindOfStatement struct {
	name string
	run  func(h handlesOfShard, id snowflakeplugin.ID) (int64, error)
}

// handlesOfShard are handles of one transaction on a shard.
type handlesOfShard struct {
	*sharded
	mine              snowflakeplugin.ID // a row of the shard
	players, payments *gorm.DB
}

// outcome runs a statement in a transaction, takes it back, and puts what happened in words.
func (s *sharded) outcome(k kindOfStatement, mine, id snowflakeplugin.ID) string {
	s.Helper()
	tx := s.on(&player{}, mine).Begin()
	must(s.T, tx.Error, "Begin")
	defer func() { _ = tx.Rollback() }()
	n, err := k.run(handlesOfShard{
		s, mine, tx.Session(&gorm.Session{}), tx.Model(&payment{}).Session(&gorm.Session{}),
	}, id)
	switch {
	case errors.Is(err, snowflakeplugin.ErrCrossShard):
		return "`ErrCrossShard`"
	case errors.Is(err, snowflakeplugin.ErrNotRouted):
		return "`ErrNotRouted`"
	case err != nil && strings.Contains(err.Error(), "_shard_"):
		return "refused by the database"
	case err != nil && !errors.Is(err, gorm.ErrRecordNotFound):
		s.Errorf("%s: %v", k.name, err)
		return "an error"
	case err != nil || n == 0:
		return "not found"
	}
	return "works"
}

// result is what a finished statement found or wrote.
func result(tx *gorm.DB) (int64, error) { return tx.RowsAffected, tx.Error }

// stored is result for a statement that may write what is there already. MySQL does not count such rows.
func stored(tx *gorm.DB) (int64, error) { return 1, tx.Error }

func kindsOfStatements() []kindOfStatement {
	type ID = snowflakeplugin.ID
	type values = map[string]any
	return []kindOfStatement{
		{"`First(&row, id)`, `Take`, `Last`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.First(&player{}, id))
		}},
		{"`First(&row)` with a key in the row", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.First(&player{ID: id}))
		}},
		{"`Find(&rows, ids)`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Find(&[]player{}, []ID{h.mine, id}))
		}},
		{"`Where` with a struct, by its key", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(&player{ID: id}).Find(&[]player{}))
		}},
		{"`Where` with a struct, by the field that the key is like", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.payments.Where(&payment{FromID: id}).Find(&[]payment{}))
		}},
		{"`Where` with a map", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(values{"id": id}).Find(&[]player{}))
		}},
		{"`Or` with a struct or a map", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(values{"id": h.mine}).Or(values{"id": id}).Find(&[]player{}))
		}},
		{"`clause.Eq`, `clause.IN`, `clause.And`, `clause.Or`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(clause.Or(clause.Eq{Column: "name", Value: "p1"},
				clause.IN{Column: clause.PrimaryColumn, Values: []any{id}})).Find(&[]player{}))
		}},
		{"the texts `id = ?` and `id IN ?`, and nothing else in them", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where("id IN ?", []ID{id}).Find(&[]player{}))
		}},
		{"any other text, even with a key in it", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where("name <> '' AND id = ?", id).Find(&[]player{}))
		}},
		{"a condition on another column", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(&player{Name: fmt.Sprint("p", h.shard(id))}).Find(&[]player{}))
		}},
		{"`Not`, and ranges of keys", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where("id >= ?", id).Where("id <= ?", id).Not(values{"name": ""}).Find(&[]player{}))
		}},
		{"`Count`", func(h handlesOfShard, id ID) (n int64, err error) {
			return n, h.players.Where(values{"id": id}).Count(&n).Error
		}},
		{"`Pluck`, `Scan`, `Rows`, `Row`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(values{"id": id}).Pluck("name", &[]string{}))
		}},
		{"`FindInBatches`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(values{"id": id}).FindInBatches(&[]player{}, 10, func(*gorm.DB, int) error { return nil }))
		}},
		{"`FirstOrInit`, `FirstOrCreate`", func(h handlesOfShard, id ID) (int64, error) {
			var row player
			if err := h.players.Where(values{"id": id}).FirstOrCreate(&row).Error; err != nil || row.ID != id {
				return 0, err
			}
			return 1, nil
		}},
		{"`Preload`, `Joins` of colocated rows", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.payments.Where(values{"from_id": id}).Joins("From").Preload("From.Sent").Find(&[]payment{}))
		}},
		{"`Preload` of a crossing relation", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.payments.Where(values{"to_id": id}).Preload("To").Find(&[]payment{}))
		}},
		{"`Joins` of a crossing relation", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.payments.Where(values{"to_id": id}).Joins("To").Find(&[]payment{}))
		}},
		{"`Preload`, `Joins` of a broadcast model", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(values{"players.id": id}).Joins("Guild").Preload("Guild").Find(&[]player{}))
		}},
		{"`Association` of a colocated relation", func(h handlesOfShard, id ID) (int64, error) {
			a := h.players.Model(&player{ID: id}).Association("Sent")
			return a.Count(), a.Error
		}},
		{"`Association` of a crossing relation", func(h handlesOfShard, id ID) (int64, error) {
			a := h.players.Model(&player{ID: id}).Association("Received")
			return a.Count(), a.Error
		}},
		{"`Create`, `CreateInBatches`, with a key", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Create(&player{ID: h.id(h.shard(id)), Name: "new"}))
		}},
		{"`Create` of a row whose key is like the ID", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.payments.Create(&payment{FromID: id}))
		}},
		{"`Create` with nested colocated rows", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Create(&player{Name: "new", Sent: []payment{{ID: h.id(h.shard(id))}}}))
		}},
		{"`Create`, `Save`, `Updates` with rows nested over a crossing relation", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Create(&player{Name: "new", Received: []payment{{FromID: id}}}))
		}},
		{"`Save`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Save(&player{ID: id, Name: "saved"}))
		}},
		{"`Save` with that ID in the field that the key is like", func(h handlesOfShard, id ID) (int64, error) {
			var row payment
			if err := h.payments.First(&row).Error; err != nil {
				return 0, err
			}
			row.FromID = id
			return stored(h.payments.Save(&row))
		}},
		{"`Update`, `Updates`, `UpdateColumn` of the row", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Model(&player{ID: id}).Update("name", "x"))
		}},
		{"`Update`, `Updates`, `UpdateColumn` that set the key to it", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Where(values{"name": "p1"}).Updates(values{"id": id, "guild_id": 2}))
		}},
		{"the same by an expression", func(h handlesOfShard, id ID) (int64, error) {
			return stored(h.players.Where(values{"name": "p1"}).Update("id", gorm.Expr("id - id + ?", id)))
		}},
		{"an upsert that sets the field that the key is like", func(h handlesOfShard, id ID) (int64, error) {
			var row payment
			if err := h.payments.First(&row).Error; err != nil {
				return 0, err
			}
			return stored(h.payments.Clauses(setOnConflict("from_id", id)).Create(&payment{ID: row.ID, FromID: h.mine}))
		}},
		{"`Delete(&row)`, `Delete(&rows)`, `Delete(&row, id)`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Delete(&player{}, id))
		}},
		{"`Delete(&row, \"id = ?\", id)`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Delete(&player{}, "id = ?", id))
		}},
		{"`Select(\"Sent\").Delete(&row)` of a colocated relation", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Select("Sent").Delete(&player{ID: id}))
		}},
		{"`Select(\"Received\").Delete(&row)` of a crossing relation", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Select("Received").Delete(&player{ID: id}))
		}},
		{"`Raw` with `SELECT`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Raw("SELECT * FROM players_01 WHERE id = ?", id).Scan(&[]player{}))
		}},
		{"`Exec` with `UPDATE` that sets the key to it", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Exec("UPDATE players_01 SET id = ?, guild_id = 2", id))
		}},
		{"`Exec` with `INSERT`", func(h handlesOfShard, id ID) (int64, error) {
			return result(h.players.Exec("INSERT INTO players_01 (id, name) VALUES (?, 'y')", h.id(h.shard(id))))
		}},
		{"`Preload` of a sharded model, from one that is not the router's", func(h handlesOfShard, _ ID) (int64, error) {
			return result(h.players.Session(&gorm.Session{NewDB: true}).Preload("Guests").Find(&[]tavern{}))
		}},
	}
}
