package sqltable

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// Place is where a table lies, and where the second one does that lies beside it. It is found out once. From
// then on every statement names the schema, so that it does not matter in which one a program has left the
// connections of its pool. The schema is empty where the connections have none, and on SQLite unless the user
// named one. On MySQL a schema is a database.
type Place struct {
	Schema, Table string
	// BesideSchema is the schema of the second table.
	BesideSchema string
	// Where says in words which database of which server that is, if PlaceOf was asked.
	Where string
	// In and Beside are what comes before the names of the two tables in SQL: a schema with a dot, or nothing.
	In, Beside string
	// IsThere and IsBeside tell that the two tables were seen. Of others nobody knows.
	IsThere, IsBeside bool
}

// Check returns dialect.Absent for a table that nobody has seen and that is not there, if to read it would
// leave an error in the log of the server. The name is quoted.
func Check(ctx context.Context, q Querier, d dialect.Dialect, seen bool, quoted string) error {
	query, args := d.SchemaOf(quoted)
	if seen || query == "" {
		return nil
	}
	_, rows, err := dialect.Query[Row](ctx, q, query, args...)
	if err == nil && len(rows) == 0 {
		return dialect.Absent(quoted)
	}
	return err
}

// PlaceOf finds out where two tables lie that are named without a schema.
func PlaceOf(ctx context.Context, q Querier, d dialect.Dialect, table, beside string) (Place, error) {
	p := Place{Table: table}
	query, args := d.Schemas(table, beside)
	if query == "" {
		return p, nil
	}
	rows, err := dialect.Texts(ctx, q, query, args...)
	if err != nil {
		return p, err
	}
	if len(rows) != 1 || len(rows[0]) < 3 {
		return p, fmt.Errorf("the answer to %s is not two schemas and a place: %v", query, rows)
	}
	answer := rows[0]
	p.Schema, p.BesideSchema, p.Where = answer[0], answer[1], answer[2]
	if len(answer) == 5 {
		p.IsThere, p.IsBeside = answer[3] == "1", answer[4] == "1"
	}
	if p.Schema != "" && p.BesideSchema != "" {
		p.In, p.Beside = d.Quote(p.Schema)+".", d.Quote(p.BesideSchema)+"."
	}
	return p, nil
}

// Named returns the place of two tables of which a user has named the first, and whether he named a schema.
func Named(d dialect.Dialect, table string) (p Place, inSchema bool) {
	dot := strings.LastIndexByte(table, '.')
	if dot < 0 {
		return Place{Table: table}, false
	}
	schema, prefix := table[:dot], d.Quoted(table[:dot])+"."
	return Place{Schema: schema, Table: table[dot+1:], BesideSchema: schema, In: prefix, Beside: prefix}, true
}

type applicationKey struct{}

// WithApplication tells Open which pool the application works on, where the store has one of its own.
func WithApplication(ctx context.Context, pool *sql.DB) context.Context {
	return context.WithValue(ctx, applicationKey{}, pool)
}

// applicationTimeout is how long the application's pool may take to say where its connections are. It may
// have none to spare, because who opens the store is in a transaction. Then the DSN alone tells.
const applicationTimeout = time.Second
