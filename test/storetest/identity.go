package storetest

import (
	"sync"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Identified is a store that has an identity.
type Identified interface {
	lease.Store
	lease.Identifier
}

// OneIdentity fails the test unless all stores that open returns have one identity, which outlives the
// records that are written beside it, and the one that elsewhere returns has another. The first store asks
// for an identity that is not there yet.
func OneIdentity(t *testing.T, open, elsewhere func() Identified) {
	t.Helper()
	var (
		all sync.WaitGroup
		ids [8]lease.Identity
	)
	for i := range ids {
		store := open()
		all.Go(func() {
			var err error
			if ids[i], err = store.Identity(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || len(id.ID) < 20 {
			t.Fatalf("the identities are %v", ids)
		}
	}
	store := open()
	r := Create(t, store, First(1))
	if err := Holds(t, store, r); err != nil {
		t.Error(err)
	}
	if id, err := store.Identity(t.Context()); err != nil || id != ids[0] {
		t.Errorf("later it is %v, %v", id, err)
	}
	other, err := elsewhere().Identity(t.Context())
	if err != nil || other.ID == ids[0].ID {
		t.Errorf("elsewhere it is %v, %v", other, err)
	}
}
