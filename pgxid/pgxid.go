package pgxid

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// These are the names of bigint and of its array in PostgreSQL.
const (
	int8Name      = "int8"
	int8ArrayName = "_int8"
)

// Register adds [snowflakeplugin.ID], *ID, sql.Null[ID] and slices of them to m, the type map of
// one connection. It does not change how m handles bigint for other Go types. It also keeps a codec
// for bigint that the caller registered before. Calling Register again has no effect.
//
// A type map is not safe for concurrent use. Call Register before the connection is used, for
// example in the AfterConnect hook of a pool. m must not be nil.
func Register(m *pgtype.Map) {
	registerCodec(m)

	type id = snowflakeplugin.ID
	registerGoTypes[id](m)
	registerGoTypes[sql.Null[id]](m)
}

// registerCodec wraps the bigint codec of m in a codec that knows IDs.
func registerCodec(m *pgtype.Map) {
	scalar, ok := m.TypeForOID(pgtype.Int8OID)
	if !ok {
		return // m has no bigint codec to wrap; Scan and Value still work
	}
	if _, done := scalar.Codec.(codec); !done {
		scalar = &pgtype.Type{Name: int8Name, OID: pgtype.Int8OID, Codec: codec{scalar.Codec}}
		m.RegisterType(scalar)
	}
	array, ok := m.TypeForOID(pgtype.Int8ArrayOID)
	if !ok {
		return
	}
	// An array codec holds its element type, so a new one is needed for the wrapped type. An array
	// codec of another kind was registered by the caller, so it stays.
	if c, standard := array.Codec.(*pgtype.ArrayCodec); standard && c.ElementType != scalar {
		wrapped := *c
		wrapped.ElementType = scalar
		m.RegisterType(&pgtype.Type{Name: int8ArrayName, OID: pgtype.Int8ArrayOID, Codec: &wrapped})
	}
}

// registerGoTypes maps Go types to PostgreSQL types for the modes that do not ask the server.
func registerGoTypes[T any](m *pgtype.Map) {
	for _, scalar := range []any{*new(T), new(T)} {
		m.RegisterDefaultPgType(scalar, int8Name)
	}
	for _, array := range []any{
		[]T(nil), []*T(nil), new([]T), new([]*T),
		pgtype.Array[T]{}, pgtype.Array[*T]{}, pgtype.FlatArray[T](nil), pgtype.FlatArray[*T](nil),
	} {
		m.RegisterDefaultPgType(array, int8ArrayName)
	}
}
