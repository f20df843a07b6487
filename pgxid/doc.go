// Package pgxid makes pgx treat [snowflakeplugin.ID] like an int64. It works in every query mode
// and avoids the allocations that the interfaces of database/sql cost.
//
// Call [Register] once for each connection. With a pool:
//
//	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
//		pgxid.Register(conn.TypeMap())
//		return nil
//	}
//
// Without this package, pgx still reads and writes IDs and slices of IDs in the modes that ask the
// server for types. That is the default of pgx. The modes QueryExecModeExec and
// QueryExecModeSimpleProtocol, which poolers such as PgBouncer may need, look at the Go type only.
// In these modes pgx refuses a []ID as an argument, as in "= ANY($1)".
//
// Use a *ID or a sql.Null[ID] for a column that can be NULL. To compare an ID with a text column,
// pass id.String().
package pgxid
