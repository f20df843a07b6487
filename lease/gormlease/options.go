package gormlease

import "github.com/snowflakeplugin/snowflakeplugin/internal/gormpool"

// Option changes one property of a [Store].
type Option = gormpool.Option

// WithTable names the table. The name is used as it is: no prefix is added and nothing is made plural.
// A dot separates the schema, or on MySQL the database, from the table. The default is
// snowflake_nodes in the default schema of the connection.
//
// Stores on different tables do not know of each other and hand out the same numbers. All programs
// that insert into the same tables need the same table of leases.
func WithTable(name string) Option { return gormpool.WithTable(name) }
