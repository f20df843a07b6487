package gormlease

import (
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// defaultTable is what the naming strategy adds its prefix to. It is plural already: with a
// SingularTable the table must not be another one than without, or the same database would hand
// out every number twice.
const defaultTable = "snowflake_nodes"

// Option changes one property of a [Store].
type Option interface{ apply(*config) error }

type config struct {
	table string
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// Table names the table, as it is: no prefix is added and nothing is made plural. A dot separates
// the schema, or the database on MySQL, from the table. By default it is snowflake_nodes, to
// which the naming strategy of the *gorm.DB adds its TablePrefix (such as "app_" or, with the dot
// of a schema, "app.") as it does for the tables of models.
//
// Stores on different tables know nothing of each other: they hand out the same numbers.
func Table(name string) Option {
	return optionFunc(func(c *config) error {
		if name == "" {
			return fmt.Errorf("%w: Table(\"\"): leave it out for the default", ErrOption)
		}
		c.table = name
		return nil
	})
}

// configure applies the options over the defaults and reports all faults at once.
func configure(db *gorm.DB, opts []Option) (config, error) {
	var c config
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, fmt.Errorf("%w: option %d is nil", ErrOption, i))
			continue
		}
		faults = append(faults, opt.apply(&c))
	}
	if c.table == "" {
		c.table = db.NamingStrategy.TableName(defaultTable)
	}
	return c, errors.Join(faults...)
}
