package lease

import "context"

// Identity names a store.
type Identity struct {
	// ID is random and without blanks. It is made together with the store's records, and it stays as long
	// as they exist. Two stores never have the same ID, unless one is a copy of the other.
	ID string
	// Place says in words where the records are, without secrets. It is for people.
	Place string
}

// Identifier is an optional ability of a [Store]: it has an identity. With it the plugin notes in each
// database which store the IDs of its rows come from, and refuses another store. A store without it is
// noted as "external, not identified", so that two such stores are not told apart.
type Identifier interface {
	// Identity returns the identity, which the first call makes. Concurrent calls, in any number of
	// processes, return the same one.
	Identity(ctx context.Context) (Identity, error)
}
