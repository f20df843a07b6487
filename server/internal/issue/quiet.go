package issue

import (
	"log/slog"
	"sync"
	"time"
)

// quietFor is how long the log says nothing more of one kind. At 10,000 requests a second, an outage
// would otherwise fill a disk.
const quietFor = 5 * time.Second

// QuietLog logs the first warning of a kind, and then one for each quietFor with the number of those that
// it left out. Its methods are safe for concurrent use.
type QuietLog struct {
	log *slog.Logger

	mu      sync.Mutex
	last    map[string]time.Time
	omitted map[string]int
}

// NewQuietLog returns one that writes to a log.
func NewQuietLog(log *slog.Logger) *QuietLog {
	return &QuietLog{log: log, last: make(map[string]time.Time), omitted: make(map[string]int)}
}

// Warn logs a warning. There are few kinds: those of a fixed list, and one for each client with a token.
func (q *QuietLog) Warn(kind, message string, args ...any) {
	q.mu.Lock()
	now := time.Now()
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
