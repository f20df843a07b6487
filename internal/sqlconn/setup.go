package sqlconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// attempts to find or make the table: processes that make it at the same time can meet an error
// about the other's entry in the catalog, as PostgreSQL's IF NOT EXISTS does not exclude that.
const attempts = 3

// setUp makes sure that there is a table to work on.
func (t *Table) setUp(ctx context.Context) (err error) {
	if err := t.findTable(ctx); err != nil {
		return err
	}
	// Until now there was no statement that a driver of PostgreSQL prepares.
	if _, err := t.Now(ctx); err != nil {
		return t.notAnswered(err)
	}
	if t.config.Dialect.Embedded {
		if t.scattered, err = t.inMemory(ctx); err != nil {
			return t.notAnswered(err)
		}
	}
	return t.refuseForgetful(ctx)
}

// refuseForgetful returns an error if the table may lose what was committed. Leases would be granted once
// more then, and numbers given out twice.
func (t *Table) refuseForgetful(ctx context.Context) error {
	d := t.config.Dialect
	if d.Durable == "" {
		return nil
	}
	query, args := d.Forgets(t.config.Name)
	words, err := Request(ctx, t, Reads, "asking how it is stored",
		func(ctx context.Context, q Querier) ([][]any, error) {
			_, rows, err := Query(ctx, q, query, args...)
			return rows, err
		})
	if err != nil {
		return t.notAnswered(err)
	}
	if len(words) == 0 {
		return nil
	}
	word, _ := Text(words[0][0])
	return fmt.Errorf("%w: %s: it is stored in a way that may lose rows which were committed (%s). Run this "+
		"as a user who may, while no program uses the table:\n\nALTER TABLE %s %s;", t.config.ErrTable,
		t.config.Name, word, d.Quoted(t.config.Name), d.Durable)
}

// notAnswered is the error about a request that any database answers.
func (t *Table) notAnswered(err error) error {
	if errors.Is(err, t.config.ErrDatabase) {
		return err
	}
	return fmt.Errorf("%w: %w", t.config.ErrStore, err)
}

// findTable finds the table, or makes it.
func (t *Table) findTable(ctx context.Context) error {
	var unreadable, unmakable error
	for range attempts {
		// Most of the time it is there; and to find it, no right to make it is needed.
		if unreadable = t.run(ctx, Reads, "reading it", t.config.Columns); unreadable == nil {
			return t.tryOut(ctx)
		}
		unmakable = t.run(ctx, Writes, "making it", t.config.DDL)
	}
	if unmakable == nil {
		return t.unusable(ctx, "it is there, but lacks columns, or may not be read", unreadable)
	}
	return t.unusable(ctx, "it is not there or may not be read, and could not be made",
		errors.Join(unreadable, unmakable))
}

// tryOut finds out whether records can be written, without writing one.
func (t *Table) tryOut(ctx context.Context) error {
	kind := Writes
	if t.config.Dialect.Embedded {
		kind = Aside // it writes nothing, and would wait for whoever does
	}
	for _, trial := range t.config.Trials {
		if err := t.run(ctx, kind, "trying to write", trial); err != nil {
			return t.unusable(ctx, "it cannot be written to, or has no primary key", err)
		}
	}
	if t.config.Keys == "" {
		return nil
	}
	keyed, err := Request(ctx, t, Reads, "reading its indexes", t.keyed)
	if err != nil {
		return t.unusable(ctx, "its indexes cannot be read", err)
	}
	if !keyed {
		return t.unusable(ctx, "the column "+t.config.Key+" is not its primary key", nil)
	}
	return nil
}

// unusable is the error about the table, with what it should be, unless the database is to blame.
func (t *Table) unusable(ctx context.Context, why string, cause error) error {
	if _, err := t.Now(ctx); err != nil {
		return t.notAnswered(errors.Join(cause, err))
	}
	switch {
	case errors.Is(cause, t.config.ErrDatabase):
		return cause
	case errors.Is(cause, ErrFull):
		return t.notAnswered(cause)
	}
	said := ""
	if cause != nil {
		said = "\nThe database says: " + cause.Error()
	}
	return &tableError{
		sentinel: t.config.ErrTable,
		cause:    cause,
		text: fmt.Sprintf("%v: %s: %s.%s\nRun this as a user who may, and grant the application "+
			"%s on the table:\n\n%s;\n", t.config.ErrTable, t.config.Name, why, said,
			t.config.Rights, t.config.DDL),
	}
}

// tableError wraps the sentinel and what the database said, and ends with the statement to run.
type tableError struct {
	text     string
	sentinel error
	cause    error // nil if the store itself found the fault
}

func (e *tableError) Error() string { return e.text }

func (e *tableError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.sentinel}
	}
	return []error{e.sentinel, e.cause}
}

func (t *Table) run(ctx context.Context, k Kind, what, statement string) error {
	_, err := Request(ctx, t, k, what, func(ctx context.Context, q Querier) (struct{}, error) {
		_, err := q.ExecContext(ctx, statement)
		return struct{}{}, err
	})
	return err
}

// keyed looks for a unique index on the node alone. MySQL does without one where the other
// databases refuse a statement.
func (t *Table) keyed(ctx context.Context, q Querier) (bool, error) {
	header, rows, err := Query(ctx, q, t.config.Keys)
	if err != nil {
		return false, err
	}
	columns := make(map[string][]string) // of the unique indexes
	for _, row := range rows {
		index := make(map[string]any)
		for i, name := range header {
			index[strings.ToLower(name)] = row[i]
		}
		key, _ := Text(index["key_name"])
		column, _ := Text(index["column_name"])
		if repeats, ok := Integer(index["non_unique"]); ok && repeats == 0 {
			columns[key] = append(columns[key], column)
		}
	}
	for _, of := range columns {
		if len(of) == 1 && strings.EqualFold(of[0], t.config.Key) {
			return true, nil
		}
	}
	return false, nil
}

// inMemory tells whether the database lies in no file, so that another connection may lead to
// another one.
func (t *Table) inMemory(ctx context.Context) (bool, error) {
	const count = "SELECT count(*) FROM pragma_database_list WHERE name = 'main' AND file <> ''"
	return Request(ctx, t, Aside, "asking for the file of the database",
		func(ctx context.Context, q Querier) (bool, error) {
			files, err := Number(ctx, q, count)
			return files == 0, err
		})
}
