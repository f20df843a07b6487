package issue

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// portion is how many IDs a client gets before it is the turn of another one. A layout makes thousands in a
	// millisecond, so nobody waits for long. Requests for so many or fewer wait for no turn.
	portion = 256
	// slowPortion is when a portion takes so long that the next client no longer waits for its end. The source
	// stands still then, and all clients have to learn that from it.
	slowPortion = 20 * time.Millisecond
)

// turns lets clients take portions of IDs in turn. Without it, the clients that ask for most would get nearly
// all that the source makes, and a client with a hundred requests under way a hundred times as much as one
// with a single request. The zero value is ready to use.
type turns struct {
	mu      sync.Mutex
	count   uint64 // of all turns so far
	current uint64 // the turn of now, 0 if there is none
	lines   map[any]*line
	order   []*line // the one whose turn is next in front
	timer   *time.Timer
}

// line has the requests of one client that wait.
type line struct {
	client any
	queue  []chan uint64
}

// take waits for a turn. The caller ends it with the number that it gets.
func (t *turns) take(ctx context.Context, client any) (number uint64, err error) {
	t.mu.Lock()
	if t.current == 0 { // so nobody waits
		t.count++
		t.current = t.count
		defer t.mu.Unlock()
		return t.current, nil
	}
	l := t.lines[client]
	if l == nil {
		l = &line{client: client}
		t.order = append(t.order, l)
		if t.lines == nil {
			t.lines = make(map[any]*line)
		}
		t.lines[client] = l
	}
	turn := make(chan uint64, 1)
	l.queue = append(l.queue, turn)
	t.watch()
	t.mu.Unlock()
	select {
	case number = <-turn:
		return number, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case number = <-turn: // both came at once
		if number == t.current {
			t.next()
		}
	default:
		l.queue = slices.DeleteFunc(l.queue, func(other chan uint64) bool { return other == turn })
		if len(l.queue) == 0 {
			t.order = slices.DeleteFunc(t.order, func(other *line) bool { return other == l })
			delete(t.lines, l.client)
		}
	}
	return 0, ctx.Err()
}

// end ends a turn, unless it was so slow that the next one has begun.
func (t *turns) end(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number == t.current {
		t.next()
	}
}

// next begins the next turn. The caller holds mu.
func (t *turns) next() {
	if len(t.order) == 0 {
		t.current = 0
		return
	}
	l := t.order[0]
	turn := l.queue[0]
	t.order, l.queue = t.order[1:], l.queue[1:]
	if len(l.queue) == 0 {
		delete(t.lines, l.client)
	} else {
		t.order = append(t.order, l)
	}
	t.count++
	t.current = t.count
	turn <- t.current // there is room for one
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.watch()
}

// watch ends the turn of now when it is slow and somebody waits. The caller holds mu.
func (t *turns) watch() {
	if t.timer != nil || len(t.order) == 0 {
		return
	}
	number := t.current
	t.timer = time.AfterFunc(slowPortion, func() { t.end(number) })
}
