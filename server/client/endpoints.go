package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/snowflakeplugin/snowflakeplugin/internal/attempt"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1/snowflakev1connect"
)

const (
	// An endpoint that failed is asked last for this long, twice as long after each failure.
	firstRest = 50 * time.Millisecond
	lastRest  = 2 * time.Second

	// roundPause is the pause when all endpoints have failed one after the other.
	roundPause = 20 * time.Millisecond

	// bytesPerID is how long an ID can be on the wire, and envelope what is around the IDs.
	bytesPerID = 10
	envelope   = 1 << 10
)

// endpoints asks replicas. Its methods are safe for concurrent use.
type endpoints struct {
	config config
	list   []*endpoint

	mu      sync.Mutex
	current int // the one that answered last
}

type endpoint struct {
	address string // it never holds a token, so errors may name it
	api     snowflakev1connect.IDServiceClient

	rest  time.Duration // guarded by endpoints.mu, as is the next
	until time.Time     // asked last before this time
	err   error         // of the last attempt, nil if it succeeded
}

func newEndpoints(addresses []string, c config) *endpoints {
	e := &endpoints{config: c, current: rand.IntN(len(addresses))} //nolint:gosec // it only spreads the load
	for _, address := range addresses {
		api := snowflakev1connect.NewIDServiceClient(c.http, address,
			connect.WithReadMaxBytes(c.most*bytesPerID+envelope))
		e.list = append(e.list, &endpoint{address: address, api: api})
	}
	return e
}

// fetch returns count IDs of some replica. It goes on until ctx ends.
func (e *endpoints) fetch(ctx context.Context, count int) ([]int64, error) {
	for {
		for _, replica := range e.order() {
			ids, err := e.attempt(ctx, replica, count)
			switch {
			case err == nil:
				e.answered(replica, nil)
				return ids, nil
			case lasting(err):
				return nil, fmt.Errorf("%w: %s: %w", ErrRefused, e.list[replica].address, err)
			case ctx.Err() != nil:
				return nil, e.unavailable(context.Cause(ctx))
			}
			e.answered(replica, err)
		}
		if err := attempt.Sleep(ctx, roundPause); err != nil {
			return nil, e.unavailable(err)
		}
	}
}

// attempt asks one replica.
func (e *endpoints) attempt(ctx context.Context, replica, count int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, e.config.attempt)
	defer cancel()
	wanted := int32(count) //nolint:gosec // it is at most mostBlock
	request := connect.NewRequest(&snowflakev1.NextRequest{Count: &wanted, Source: e.config.source})
	if e.config.token != "" {
		request.Header().Set("Authorization", "Bearer "+e.config.token)
	}
	answer, err := e.list[replica].api.Next(ctx, request)
	if err != nil {
		return nil, err
	}
	ids := answer.Msg.GetIds()
	if len(ids) != count {
		return nil, fmt.Errorf("the replica gave %d IDs in place of %d", len(ids), count)
	}
	if slices.ContainsFunc(ids, func(id int64) bool { return id <= 0 }) {
		return nil, errors.New("the replica gave a number that is no ID")
	}
	return ids, nil
}

// order lists the endpoints in the order in which they are asked: the one that answered last, the ones
// after it, and those that failed a moment ago at the end.
func (e *endpoints) order() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	var first, last []int
	for i := range e.list {
		replica := (e.current + i) % len(e.list)
		if now.Before(e.list[replica].until) {
			last = append(last, replica)
		} else {
			first = append(first, replica)
		}
	}
	return append(first, last...)
}

// answered notes how an attempt has ended.
func (e *endpoints) answered(replica int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.list[replica]
	if one.err = err; err == nil {
		e.current, one.rest, one.until = replica, 0, time.Time{}
		return
	}
	one.rest = min(max(2*one.rest, firstRest), lastRest)
	one.until = time.Now().Add(one.rest)
	if e.current == replica {
		e.current = (replica + 1) % len(e.list)
	}
}

// unavailable is the error when the time of a call is over. It says what each replica answered last.
func (e *endpoints) unavailable(cause error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var said []string
	for _, one := range e.list {
		if one.err != nil {
			said = append(said, one.address+": "+one.err.Error())
		}
	}
	if len(said) == 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: %w; %s", ErrUnavailable, cause, strings.Join(said, "; "))
}
