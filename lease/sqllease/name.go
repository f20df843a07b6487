package sqllease

import "github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"

// purpose is what the connections of a store are for.
const purpose = "lease"

// ConnectionName returns the name under which an administrator finds the connection of a store with
// a dedicated pool, such as "snowflakeplugin lease web-1:4711": the name of the machine and the
// number of the process. On PostgreSQL the store itself sets it as the application_name. On MySQL
// and MariaDB only the DSN can do that: connectionAttributes=program_name:NAME, percent-encoded.
func ConnectionName() string { return sqlconn.ConnectionName(purpose) }
