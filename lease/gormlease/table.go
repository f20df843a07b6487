package gormlease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// attempts to find or make the table: processes that make it at the same time can meet an error
// about the other's entry in the catalog, as PostgreSQL's IF NOT EXISTS does not exclude that.
const attempts = 3

// setUp makes sure that there is a table to work on.
func (s *Store) setUp(ctx context.Context) (err error) {
	if s.sql.committed != "" {
		commits, err := request(ctx, s, "reading autocommit",
			func(ctx context.Context, q querier) (int64, error) { return number(ctx, q, s.sql.committed) })
		if err != nil {
			return fmt.Errorf("%w: %w", lease.ErrStore, err)
		}
		s.inTransactions = commits == 0
	}
	if err := s.findTable(ctx); err != nil {
		return err
	}
	if s.dialect.embedded {
		if s.scattered, err = s.inMemory(ctx); err != nil {
			return fmt.Errorf("%w: %w", lease.ErrStore, err)
		}
	}
	return nil
}

// findTable finds the table, or makes it.
func (s *Store) findTable(ctx context.Context) error {
	var unreadable, unmakable error
	for range attempts {
		// Most of the time it is there; and to find it, no right to make it is needed.
		if unreadable = s.run(ctx, "reading it", s.sql.columns); unreadable == nil {
			return s.tryOut(ctx)
		}
		unmakable = s.run(ctx, "making it", s.sql.ddl)
	}
	if unmakable == nil {
		return s.unusable(ctx, "it is there, but lacks columns, or may not be read", unreadable)
	}
	return s.unusable(ctx, "it is not there or may not be read, and could not be made",
		errors.Join(unreadable, unmakable))
}

// tryOut finds out whether records can be written, without writing one.
func (s *Store) tryOut(ctx context.Context) error {
	for _, trial := range s.sql.trials {
		if err := s.run(ctx, "trying to write", trial); err != nil {
			return s.unusable(ctx, "it cannot be written to, or has no primary key", err)
		}
	}
	if s.sql.keys == "" {
		return nil
	}
	keyed, err := request(ctx, s, "reading its indexes", s.keyed)
	if err != nil {
		return s.unusable(ctx, "its indexes cannot be read", err)
	}
	if !keyed {
		return s.unusable(ctx, "the column node is not its primary key", nil)
	}
	return nil
}

// unusable is the error about the table, with what it should be, unless the database is to blame.
func (s *Store) unusable(ctx context.Context, why string, cause error) error {
	if _, err := s.Now(ctx); err != nil {
		return fmt.Errorf("%w: %w", lease.ErrStore, errors.Join(cause, err))
	}
	said := ""
	if cause != nil {
		said = "\nThe database says: " + cause.Error()
	}
	return &tableError{
		cause: cause,
		text: fmt.Sprintf("%v: %s: %s.%s\nRun this as a user who may, and grant the application SELECT, "+
			"INSERT and UPDATE on the table:\n\n%s;\n", ErrTable, s.table, why, said, s.sql.ddl),
	}
}

// tableError wraps ErrTable and what the database said, and ends with the statement to run.
type tableError struct {
	text  string
	cause error // nil if the store itself found the fault
}

func (e *tableError) Error() string { return e.text }

func (e *tableError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrTable}
	}
	return []error{ErrTable, e.cause}
}

func (s *Store) run(ctx context.Context, what, statement string) error {
	_, err := request(ctx, s, what, func(ctx context.Context, q querier) (struct{}, error) {
		_, err := q.ExecContext(ctx, statement)
		return struct{}{}, err
	})
	return err
}

// keyed looks for a unique index on the node alone. MySQL does without one where the other
// databases refuse a statement.
func (s *Store) keyed(ctx context.Context, q querier) (bool, error) {
	header, rows, err := query(ctx, q, s.sql.keys)
	if err != nil {
		return false, err
	}
	columns := make(map[string][]string) // of the unique indexes
	for _, row := range rows {
		index := make(map[string]any)
		for i, name := range header {
			index[strings.ToLower(name)] = row[i]
		}
		key, _ := text(index["key_name"])
		column, _ := text(index["column_name"])
		if repeats, ok := integer(index["non_unique"]); ok && repeats == 0 {
			columns[key] = append(columns[key], column)
		}
	}
	for _, of := range columns {
		if len(of) == 1 && strings.EqualFold(of[0], names()[columnNode]) {
			return true, nil
		}
	}
	return false, nil
}

// inMemory tells whether the database lies in no file, so that another connection may lead to
// another one.
func (s *Store) inMemory(ctx context.Context) (bool, error) {
	const count = "SELECT count(*) FROM pragma_database_list WHERE name = 'main' AND file <> ''"
	return request(ctx, s, "asking for the file of the database",
		func(ctx context.Context, q querier) (bool, error) {
			files, err := number(ctx, q, count)
			return files == 0, err
		})
}
