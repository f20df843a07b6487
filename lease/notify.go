package lease

import (
	"fmt"
	"log/slog"
	"time"
)

// EventKind says what happened to the number of a keeper.
type EventKind string

const (
	// NodeOverdue says that the window has ended without an extension, so there are no IDs until the
	// store grants one. The keeper finds it out with the first attempt that fails after the end.
	NodeOverdue EventKind = "overdue"
	// NodeBack says that a window was granted after NodeOverdue, so there are IDs again. If it is one
	// of another number, NodeChanged comes first.
	NodeBack EventKind = "back"
	// NodeLost says that the record of the number is gone, or was written by somebody else. There are
	// no IDs until NodeChanged, which usually follows at once.
	NodeLost EventKind = "lost"
	// NodeChanged says that another number was taken in place of one that was lost or, without a NodeLost
	// before, in place of one that is contested, see [Keeper.Contest], or whose record somebody else has
	// locked. After a loss, with [WithNodes], it may be the same one again.
	NodeChanged EventKind = "changed"
)

// Event is something that happened to the number of a keeper. See [WithNotify].
type Event struct {
	// Kind says what happened.
	Kind EventKind
	// Node is the number that the keeper has now, or that it has lost.
	Node int64
	// Previous is the number that the keeper had before: another one than Node only if Kind is
	// NodeChanged.
	Previous int64
	// Until is the end of the window of Node. If Kind is NodeOverdue it has passed, or is zero after
	// NodeLost. If Kind is NodeLost it is the end of what was granted before.
	Until time.Time
	// Err says why, if Kind is NodeOverdue or NodeLost, and is nil otherwise.
	Err error
	// Time is when it happened, by the local clock, in UTC.
	Time time.Time
}

// String says it in one line.
func (e Event) String() string {
	text := fmt.Sprintf("%s: node %d %s", stamp(e.Time), e.Node, e.Kind)
	if e.Node != e.Previous {
		text += fmt.Sprintf(" from %d", e.Previous)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// maxEvents is how many events are kept for a function that is busy.
const maxEvents = 64

// notifier hands events to a function that may be slow. Its methods belong to one goroutine. A nil
// notifier does nothing.
type notifier struct {
	events chan Event
	log    *slog.Logger
	said   bool // that events were dropped
}

// newNotifier starts the goroutine that calls f. It ends after close, when f has seen all that is left.
func newNotifier(f func(Event), log *slog.Logger) *notifier {
	if f == nil {
		return nil
	}
	n := &notifier{events: make(chan Event, maxEvents), log: log}
	go func() {
		for e := range n.events {
			f(e)
		}
	}()
	return n
}

// send keeps an event for f, in place of the oldest one if there is no room.
func (n *notifier) send(e Event) {
	if n == nil {
		return
	}
	for {
		select {
		case n.events <- e:
			return
		default:
		}
		select {
		case <-n.events:
			if !n.said {
				n.said = true
				n.log.Warn("lease: the function of WithNotify does not keep up; the oldest event was dropped")
			}
		default: // it was taken meanwhile
		}
	}
}

func (n *notifier) close() {
	if n != nil {
		close(n.events)
	}
}
