package issue

import (
	"log/slog"
	"sync"
	"time"
)

// quietFor is how long the log says nothing more of one kind. At 10,000 requests a second, an outage
// would otherwise fill a disk.
const quietFor = 5 * time.Second

// quietLog logs the first warning of a kind, and then one for each quietFor with the number of those that
// it left out.
type quietLog struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	last    map[string]time.Time
	omitted map[string]int
}

func newQuietLog(log *slog.Logger, now func() time.Time) *quietLog {
	return &quietLog{log: log, now: now, last: make(map[string]time.Time), omitted: make(map[string]int)}
}

// warn logs a warning. The kind comes from a fixed list.
func (q *quietLog) warn(kind, message string, args ...any) {
	q.mu.Lock()
	now := q.now()
	if last, ok := q.last[kind]; ok && now.Sub(last) < quietFor {
		q.omitted[kind]++
		q.mu.Unlock()
		return
	}
	omitted := q.omitted[kind]
	q.last[kind], q.omitted[kind] = now, 0
	q.mu.Unlock()
	q.log.Warn(message, append(args, "kind", kind, "not_logged_before", omitted)...)
}
