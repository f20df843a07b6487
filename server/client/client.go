package client

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// A block should last about this long.
	horizon = 500 * time.Millisecond
	// patience is how often a call may find that others have taken what was fetched. Then it fetches for
	// itself.
	patience = 2
)

// Client takes IDs from replicas. Make one with [New], and call Close at the end. Its methods are safe for
// concurrent use.
type Client struct {
	config    config
	endpoints *endpoints
	ended     context.Context
	end       context.CancelCauseFunc
	fetching  sync.WaitGroup

	mu      sync.Mutex
	blocks  []block       // what was fetched and not used: the one in use, and the next
	size    int           // how many IDs the next block has
	running bool          // a fetch is under way
	failure error         // of the last fetch, nil if it succeeded
	changed chan struct{} // closed when a fetch ends
	stats   Stats
}

// block is what one answer brought.
type block struct {
	ids     []int64 // those that are left
	size    int
	fetched time.Time // when the request was sent: no ID in it is older
	used    time.Time // when the first of it was used
}

// Stats says what a client has done so far.
type Stats struct {
	// Issued is how many IDs the callers got.
	Issued uint64
	// Fetches is how many requests brought IDs.
	Fetches uint64
	// Dropped is how many IDs were thrown away because they became too old.
	Dropped uint64
	// Waits is how many calls had to wait for a replica.
	Waits uint64
	// Block is how many IDs the next block has.
	Block int
}

// New returns a client of these replicas, such as "https://ids-1.example:7070". It connects to none of
// them before the first call. It returns an error wrapping [ErrOption].
func New(addresses []string, opts ...Option) (*Client, error) {
	c, err := configure(addresses, opts)
	if err != nil {
		return nil, err
	}
	client := &Client{
		config: c, endpoints: newEndpoints(addresses, c), size: c.least, changed: make(chan struct{}),
	}
	client.ended, client.end = context.WithCancelCause(context.Background())
	return client, nil
}

// Next returns one ID. The errors are those of [Client.Fill].
func (c *Client) Next(ctx context.Context) (int64, error) {
	var ids [1]int64
	err := c.Fill(ctx, ids[:])
	return ids[0], err
}

// Fill sets every element of ids, or returns an error and sets none of them. It waits for a replica until
// ctx ends, and no longer than MaxWait. Fill of an empty slice does nothing.
//
// It returns an error wrapping [ErrUnavailable], which also wraps the error of ctx if that has ended,
// [ErrRefused] or [ErrClosed].
func (c *Client) Fill(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if c.ended.Err() != nil {
		return ErrClosed
	}
	c.mu.Lock()
	if c.take(ids) { //nolint:contextcheck // a block serves other calls, too
		c.mu.Unlock()
		return nil
	}
	c.stats.Waits++
	alone := len(ids) > c.size || c.config.most == 1
	c.mu.Unlock()

	ctx, cancel := c.limited(ctx)
	defer cancel()
	defer context.AfterFunc(c.ended, cancel)() //nolint:contextcheck // it is the client that ends
	if alone {
		return c.fillDirectly(ctx, ids)
	}
	for range patience {
		filled, err := c.await(ctx, ids)
		if filled || err != nil {
			return err
		}
	}
	return c.fillDirectly(ctx, ids)
}

func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.config.maxWait,
		fmt.Errorf("MaxWait of %v has passed: %w", c.config.maxWait, context.DeadlineExceeded))
}

// await waits for the end of a fetch. It returns false without an error if others were faster.
func (c *Client) await(ctx context.Context, ids []int64) (filled bool, err error) {
	c.mu.Lock()
	c.fetch() //nolint:contextcheck // a block serves other calls, too
	changed := c.changed
	c.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
		return false, c.explain(ctx, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.take(ids) { //nolint:contextcheck // a block serves other calls, too
		return true, nil
	}
	return false, c.explain(ctx, c.failure)
}

// explain returns why there are no IDs.
func (c *Client) explain(ctx context.Context, failure error) error {
	if c.ended.Err() != nil {
		return ErrClosed
	}
	if failure == nil && ctx.Err() != nil {
		return c.endpoints.unavailable(context.Cause(ctx))
	}
	return failure
}

// fillDirectly fetches IDs for one call, in requests that a server accepts.
func (c *Client) fillDirectly(ctx context.Context, ids []int64) error {
	all := make([]int64, 0, len(ids))
	for len(all) < len(ids) {
		got, err := c.endpoints.fetch(ctx, min(len(ids)-len(all), c.config.most))
		if err != nil {
			return c.explain(ctx, err)
		}
		all = append(all, got...)
		c.mu.Lock()
		c.stats.Fetches++
		c.mu.Unlock()
	}
	copy(ids, all)
	c.mu.Lock()
	c.stats.Issued += uint64(len(ids))
	c.mu.Unlock()
	return nil
}

// take sets ids if there are enough, and begins to fetch the next block if it is time. mu is held.
func (c *Client) take(ids []int64) bool {
	now := time.Now()
	c.expire(now)
	left := 0
	for _, b := range c.blocks {
		left += len(b.ids)
	}
	if left < len(ids) {
		return false
	}
	rest := ids
	for len(rest) > 0 {
		b := &c.blocks[0]
		if b.used.IsZero() {
			b.used = now
		}
		n := copy(rest, b.ids)
		rest, b.ids = rest[n:], b.ids[n:]
		if len(b.ids) == 0 {
			c.adapt(now.Sub(b.used), b.size)
			c.blocks = c.blocks[1:]
		}
	}
	c.stats.Issued += uint64(len(ids))
	if c.config.most > 1 && c.runsLow() {
		c.fetch()
	}
	return true
}

// runsLow says whether half of the last block is used. mu is held.
func (c *Client) runsLow() bool {
	switch len(c.blocks) {
	case 0:
		return true
	case 1:
		return 2*len(c.blocks[0].ids) <= c.blocks[0].size
	}
	return false
}

// expire drops blocks that are too old. mu is held.
func (c *Client) expire(now time.Time) {
	kept := c.blocks[:0]
	for _, b := range c.blocks {
		if now.Sub(b.fetched) < c.config.maxAge {
			kept = append(kept, b)
			continue
		}
		c.stats.Dropped += uint64(len(b.ids))
		if 2*len(b.ids) > b.size { // fewer would have been enough
			c.size = max(c.size/2, c.config.least)
		}
	}
	clear(c.blocks[len(kept):])
	c.blocks = kept
}

// adapt chooses the size of the next block by how long one has lasted. mu is held.
func (c *Client) adapt(lasted time.Duration, size int) {
	switch {
	case lasted < horizon:
		c.size = min(max(c.size, 2*size), c.config.most)
	case lasted > 2*horizon:
		c.size = max(c.size/2, c.config.least)
	}
}

// fetch begins to fetch a block, unless that is under way. mu is held.
func (c *Client) fetch() {
	if c.running || c.ended.Err() != nil {
		return
	}
	c.running = true
	size := c.size
	c.fetching.Go(func() {
		ctx, cancel := c.limited(c.ended)
		defer cancel()
		began := time.Now()
		ids, err := c.endpoints.fetch(ctx, size)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running, c.failure = false, err
		if err == nil {
			c.stats.Fetches++
			c.blocks = append(c.blocks, block{ids: ids, size: size, fetched: began})
		}
		close(c.changed)
		c.changed = make(chan struct{})
	})
}

// Stats returns a snapshot.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Block = c.size
	return s
}

// Close ends the client. Calls that wait fail with [ErrClosed]. It always returns nil, and may be called
// again.
func (c *Client) Close() error {
	c.mu.Lock()
	c.end(ErrClosed)
	c.mu.Unlock()
	c.fetching.Wait()
	c.config.http.CloseIdleConnections()
	return nil
}
