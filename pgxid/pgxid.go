package pgxid

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// The names PostgreSQL has for bigint and its array.
const (
	int8Name      = "int8"
	int8ArrayName = "_int8"
)

// Register teaches m, which is the type map of one connection, about [snowflakeplugin.ID], *ID,
// sql.Null[ID] and slices of them. Whatever m does with bigint for other Go types stays, a codec
// of the caller's own included, if that was registered before. Calling Register again is harmless.
//
// A type map is not safe for concurrent use: call Register before the connection is used, as in
// the AfterConnect hook of a pool. m must not be nil.
func Register(m *pgtype.Map) {
	registerCodec(m)

	type id = snowflakeplugin.ID
	registerGoTypes[id](m)
	registerGoTypes[sql.Null[id]](m)
}

// registerCodec puts a codec for IDs around the one that m has for bigint.
func registerCodec(m *pgtype.Map) {
	scalar, ok := m.TypeForOID(pgtype.Int8OID)
	if !ok {
		return // a map without bigint: nothing to wrap, and Scan and Value still work
	}
	if _, done := scalar.Codec.(codec); !done {
		scalar = &pgtype.Type{Name: int8Name, OID: pgtype.Int8OID, Codec: codec{scalar.Codec}}
		m.RegisterType(scalar)
	}
	array, ok := m.TypeForOID(pgtype.Int8ArrayOID)
	if !ok {
		return
	}
	// An array codec holds the type of its elements, so it has to be made anew to see ours. One of
	// another kind is the caller's, who knows better.
	if c, standard := array.Codec.(*pgtype.ArrayCodec); standard && c.ElementType != scalar {
		m.RegisterType(&pgtype.Type{
			Name:  int8ArrayName,
			OID:   pgtype.Int8ArrayOID,
			Codec: &pgtype.ArrayCodec{ElementType: scalar, Delimiter: c.Delimiter},
		})
	}
}

// registerGoTypes names the PostgreSQL type of a Go type for the modes that do not ask the server.
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
