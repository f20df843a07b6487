package sqllease

import (
	"fmt"
	"slices"
	"strings"
)

// defaultTable is the same for every program. With two tables of leases, two applications that write
// to the same tables would get the same numbers.
const defaultTable = "snowflake_nodes"

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
// snowflake_nodes in the default schema of the connection.
//
// Stores on different tables do not know of each other and hand out the same numbers. All programs
// that insert into the same tables need the same table of leases.
func WithTable(name string) Option {
	return optionFunc(func(c *config) error {
		if slices.Contains(strings.Split(name, "."), "") {
			return fmt.Errorf("%w: WithTable(%q): there is an empty name in it; leave the option out for the "+
				"default", ErrOption, name)
		}
		c.table = name
		return nil
	})
}

// WithDedicatedPool tells the store that nobody else uses its *sql.DB, now or later. The store then
// keeps one connection, prepares it for its requests, and closes the pool when it is closed itself.
// A renewal is one statement, and no transaction of the application delays it. Do not use it for a
// database of SQLite in memory, whose only connection the application needs too.
func WithDedicatedPool() Option {
	return optionFunc(func(c *config) error {
		c.dedicated = true
		return nil
	})
}
