package issue

import (
	"container/list"
	"context"
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
	order   list.List // of *line, the one whose turn is next in front
	timer   *time.Timer
}

// line has the requests of one client that wait.
type line struct {
	client any
	place  *list.Element // in the order
	queue  list.List     // of chan uint64
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
		l.place = t.order.PushBack(l)
		if t.lines == nil {
			t.lines = make(map[any]*line)
		}
		t.lines[client] = l
	}
	turn := make(chan uint64, 1)
	place := l.queue.PushBack(turn)
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
		l.queue.Remove(place)
		if l.queue.Len() == 0 {
			t.remove(l)
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
	front := t.order.Front()
	if front == nil {
		t.current = 0
		return
	}
	l := front.Value.(*line)                              //nolint:forcetypeassert // nothing else is in it
	turn := l.queue.Remove(l.queue.Front()).(chan uint64) //nolint:forcetypeassert // as above
	if l.queue.Len() == 0 {
		t.remove(l)
	} else {
		t.order.MoveToBack(l.place)
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
	if t.timer != nil || t.order.Len() == 0 {
		return
	}
	number := t.current
	t.timer = time.AfterFunc(slowPortion, func() { t.end(number) })
}

// remove forgets a client that no longer waits. The caller holds mu.
func (t *turns) remove(l *line) {
	t.order.Remove(l.place)
	delete(t.lines, l.client)
}
