// Package authority notes in a database where the node numbers of its rows come from, and refuses
// every other origin. Two origins hand out the same numbers, and then IDs repeat.
//
// The table snowflake_authority has one row for each subject. The subject "rows" says where the IDs of this
// database come from: from the leases of a store, which has a random identity, or from numbers that are given
// by hand. The subject "leases TABLE" notes the identity that the table of leases beside it has in a row of
// its own, "counters TABLE" that of a table of counters, and "numbers TABLE.COLUMN" from which counters a
// column gets its numbers. The primary key on the subject decides between two processes that write a row at
// the same moment: one INSERT succeeds, the other does nothing, and both read the same row afterwards.
//
// The package knows database/sql only, so that stores which do without GORM can use it.
package authority

// Table is the name of the table. It does not depend on the naming strategy of an application, because
// applications with different strategies may write to the same tables.
const Table = "snowflake_authority"

// DefaultLeases is the default table of leases. It is the same for every program: with two tables of leases,
// two applications that write to the same tables would get the same numbers.
const DefaultLeases = "snowflake_nodes"
