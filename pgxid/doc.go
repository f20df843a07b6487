// Package pgxid makes pgx treat [snowflakeplugin.ID] like an int64, in every query mode and
// without the allocations that database/sql's interfaces cost.
//
// It is one call for each connection. With a pool:
//
//	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
//		pgxid.Register(conn.TypeMap())
//		return nil
//	}
//
// Without it pgx still reads and writes IDs, slices of them included, in the modes that ask the
// server for types, which is what pgx does by default. QueryExecModeExec and
// QueryExecModeSimpleProtocol, which poolers such as PgBouncer may call for, go by the Go type
// alone and then refuse a []ID as an argument, as in "= ANY($1)".
//
// NULL is a *ID or a sql.Null[ID]. To compare an ID with a text column, pass id.String().
package pgxid
