package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
)

// reader reads continuously and knows which rows it must find.
type reader struct {
	customers []Customer
	router    *snowflakeplugin.Router
	begun     chan struct{} // closed after the first read
	done      chan struct{}
	ended     sync.WaitGroup
	before    atomic.Int64 // reads of the old shards
	after     atomic.Int64 // and of the new ones
	wrong     atomic.Pointer[error]
}

func (r *reader) read(ctx context.Context) {
	begun := sync.OnceFunc(func() { close(r.begun) })
	defer begun()
	for i := 0; ; i++ {
		known := r.router.Shards()
		err := r.readOne(ctx, r.router, r.customers[i%len(r.customers)])
		switch {
		case err == nil && known == shards:
			r.before.Add(1)
		case err == nil:
			r.after.Add(1)
		case errors.Is(err, snowflakeplugin.ErrShardMap):
			// The cutover came between the handle and its statement, so the next read gets a new handle.
		default:
			r.wrong.Store(&err)
			return
		}
		begun()
		select {
		case <-r.done:
			if known == 2*shards { // it has read by the new map, too
				return
			}
		case <-time.After(time.Millisecond):
		}
	}
}

// readOne reads a customer by the ID, and counts all orders.
func (r *reader) readOne(ctx context.Context, router *snowflakeplugin.Router, c Customer) error {
	db, err := router.DB(ctx, &Customer{}, c.ID)
	if err != nil {
		return err
	}
	var found Customer
	if err := db.First(&found, c.ID).Error; err != nil {
		return err
	}
	if found.Name != c.Name {
		return fmt.Errorf("%d is %q, not %q", c.ID, found.Name, c.Name)
	}
	n, err := router.Count(ctx, &Order{})
	if err == nil && n != orders+1 {
		err = fmt.Errorf("there are %d orders, not %d", n, orders+1)
	}
	return err
}

// verdict says whether there were reads by both maps, and whether all were right.
func (r *reader) verdict() (right bool, says string) {
	if wrong := r.wrong.Load(); wrong != nil {
		return false, "a read went wrong meanwhile: " + (*wrong).Error()
	}
	before, after := r.before.Load(), r.after.Load()
	if before == 0 || after == 0 {
		return false, fmt.Sprintf("there were %d reads before the first split and %d after it", before, after)
	}
	return true, "every read meanwhile was right"
}
