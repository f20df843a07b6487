package suite

import (
	"testing"

	"gorm.io/gorm"
)

// PlainRows runs a query given as SQL and returns its values, which have one type.
func PlainRows[V any](t *testing.T, db *gorm.DB, query string, args ...any) []V {
	t.Helper()
	rows, err := db.Session(&gorm.Session{NewDB: true}).Raw(query, args...).Rows()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { Must(t, rows.Close(), "close the rows") }()
	var values []V
	for rows.Next() {
		var v V
		if err := rows.Scan(&v); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		values = append(values, v)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return values
}

// PlainOne runs a query given as SQL and returns its only value.
func PlainOne[V any](t *testing.T, db *gorm.DB, query string, args ...any) V {
	t.Helper()
	values := PlainRows[V](t, db, query, args...)
	if len(values) != 1 {
		t.Fatalf("%s %v: %d rows, want 1", query, args, len(values))
	}
	return values[0]
}

// PlainExec runs statements given as SQL.
func PlainExec(t *testing.T, db *gorm.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := db.Session(&gorm.Session{NewDB: true}).Exec(statement).Error; err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Empty deletes all rows of the tables of the models, and of their join tables. Rows that others refer to go
// after those.
func Empty(t *testing.T, db *gorm.DB, models ...any) {
	t.Helper()
	var tables []string
	for _, model := range models {
		statement := &gorm.Statement{DB: db}
		Must(t, statement.Parse(model), "parse a model")
		tables = append(tables, statement.Schema.Table)
		for _, relation := range statement.Schema.Relationships.Many2Many {
			tables = append(tables, relation.JoinTable.Table)
		}
	}
	for len(tables) > 0 {
		var left []string
		var last error
		for _, table := range tables {
			err := db.Session(&gorm.Session{NewDB: true}).Exec("DELETE FROM " + table).Error
			if err != nil {
				left, last = append(left, table), err
			}
		}
		if len(left) == len(tables) {
			t.Fatalf("empty %q: %v", left, last)
		}
		tables = left
	}
}
