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
