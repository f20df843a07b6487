package sqllease

import (
	"context"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/sqlconn"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

var _ lease.Identifier = (*Store)(nil)

// Identity returns the random identity of the table of leases. It lies in the table snowflake_authority
// of the same schema. The first call makes it, and the table too; any number of processes that call
// Identity at the same time get the same one.
//
// It returns an error wrapping snowflakeplugin.ErrAuthority, with the statement that makes the table, if
// the table cannot be made or used, and one wrapping [lease.ErrStore] if the database does not answer.
func (s *Store) Identity(ctx context.Context) (lease.Identity, error) {
	read := func(ctx context.Context, q sqlconn.Querier) (lease.Identity, error) {
		return authority.In(string(s.dialect.Kind), q).Identity(ctx, s.table.Name())
	}
	// A transaction around all of it would keep the snapshot from before another process wrote the row.
	return sqlconn.Request(ctx, s.table, sqlconn.Alone, "reading its identity", read)
}

// AuthorityDDL returns the statement that makes the table snowflake_authority beside the table of the
// leases, for those who make tables by other means. The errors are those of [New] about options and
// databases.
func AuthorityDDL(d Dialect, opts ...Option) (string, error) {
	_, c, err := configure(d, opts)
	if err != nil {
		return "", err
	}
	beside, _ := authority.In(string(d), nil).Beside(c.table)
	return beside.DDL(), nil
}
