package keys

import (
	"context"
	"database/sql"
	"strings"
)

// version is what a server is called in the tables.
func version(ctx context.Context, pool *sql.DB, dialect string) (string, error) {
	query := map[string]string{
		"sqlite":   "SELECT 'SQLite ' || sqlite_version()",
		"postgres": "SELECT 'PostgreSQL ' || current_setting('server_version')",
		"mysql":    "SELECT VERSION()",
	}[dialect]
	var name string
	if err := pool.QueryRowContext(ctx, query).Scan(&name); err != nil {
		return "", err
	}
	switch {
	case dialect != "mysql":
	case strings.Contains(name, "MariaDB"):
		name = "MariaDB " + name
	default:
		name = "MySQL " + name
	}
	name, _, _ = strings.Cut(name, "-") // what the distributor adds
	name, _, _ = strings.Cut(name, " (")
	return name, nil
}
