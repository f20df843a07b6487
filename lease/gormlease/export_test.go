package gormlease

import "database/sql"

// Pool is the one that the store works on, and whether New has opened it.
func (s *Store) Pool() (pool *sql.DB, own bool) { return s.pool, s.own }
