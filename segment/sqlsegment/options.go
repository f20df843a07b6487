package sqlsegment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// defaultTable is the same for every program, so that programs which use one counter find each other.
const defaultTable = "snowflake_segments"

// Dialect is the SQL that a database speaks. The values are the names that GORM uses.
type Dialect string

// The dialects that a store can work with.
const (
	PostgreSQL Dialect = dialect.PostgreSQL
	MySQL      Dialect = dialect.MySQL // MariaDB too
	SQLite     Dialect = dialect.SQLite
)

// Option changes one property of a [Store].
type Option interface{ apply(*config) error }

type config struct {
	table     string
	dedicated bool
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// WithTable names the table. The name is used as it is: no prefix is added and nothing is made plural.
// A dot separates the schema, or on MySQL the database, from the table. The default is
// snowflake_segments in the default schema of the connection.
//
// Counters in different tables do not know of each other, whatever their names are.
func WithTable(name string) Option {
	return optionFunc(func(c *config) error {
		if slices.Contains(strings.Split(name, "."), "") {
			return fmt.Errorf("%w: WithTable(%q): there is an empty name in it; leave the option out for "+
				"the "+
				"default", ErrOption, name)
		}
		c.table = name
		return nil
	})
}

// WithDedicatedPool tells the store that nobody else uses its *sql.DB, now or later. The store then
// keeps one connection, prepares it for its requests, and closes the pool when it is closed itself.
// A claim is one statement, and no transaction of the application delays it. Do not use it for a
// database of SQLite in memory, whose only connection the application needs too.
func WithDedicatedPool() Option {
	return optionFunc(func(c *config) error {
		c.dedicated = true
		return nil
	})
}

// configure returns what is known of a dialect, and applies the options over the defaults. It reports
// all faults at once.
func configure(d Dialect, opts []Option) (dialect.Dialect, config, error) {
	c := config{table: defaultTable}
	var faults []error
	properties, known := dialect.Of(string(d))
	if !known {
		faults = append(faults, fmt.Errorf("%w: dialect %q: counters can be kept in sqlite, postgres and "+
			"mysql, "+
			"which is MariaDB too", ErrDatabase, d))
	}
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, fmt.Errorf("%w: option %d is nil", ErrOption, i))
			continue
		}
		faults = append(faults, opt.apply(&c))
	}
	return properties, c, errors.Join(faults...)
}
