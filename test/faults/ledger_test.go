//go:build unix

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/test/chaos/checker"
)

// A ledger has every row that the database has acknowledged to some worker.
type ledger struct {
	mu sync.Mutex
	// All below is guarded by mu.
	rows   map[int64]note   // by ID
	last   map[string]int64 // the last ID of each lane
	user   map[int64]string // the worker whose row of that node was heard of last
	faults []string
}

// A note is what a worker has put into a row.
type note struct {
	lane  string
	count int64
}

func (n note) worker() string {
	worker, _, _ := strings.Cut(n.lane, ".")
	return worker
}

func newLedger() *ledger {
	return &ledger{rows: make(map[int64]note), last: make(map[string]int64), user: make(map[int64]string)}
}

// acknowledge enters the rows of a report.
func (l *ledger) acknowledge(worker string, r report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range r.IDs {
		n := note{r.Lane, r.Count[i]}
		if other, twice := l.rows[id]; twice {
			l.faults = append(l.faults, fmt.Sprintf("ID %d was acknowledged twice: as %v and as %v", id, other, n))
		}
		if last := l.last[r.Lane]; id <= last {
			l.faults = append(l.faults, fmt.Sprintf("%s had ID %d after %d", r.Lane, id, last))
		}
		l.rows[id], l.last[r.Lane], l.user[nodeOf(id)] = n, id, worker
	}
}

// userOf is the worker whose row of the node was heard of last.
func (l *ledger) userOf(node int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.user[node]
}

// has tells whether a row with the ID was acknowledged.
func (l *ledger) has(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.rows[id]
	return found
}

// A tally is what a ledger and its table say together.
type tally struct {
	acknowledged int           // rows that were
	stored       int           // rows of the table, those without an acknowledgment included
	users        map[int64]int // how many workers have used each node
	takeovers    int           // how often a node went from one worker to another
}

func (s tally) String() string {
	return fmt.Sprintf("%d IDs acknowledged, %d rows stored, %d takeovers, workers by node %v",
		s.acknowledged, s.stored, s.takeovers, s.users)
}

// maxFaults is how many faults of a kind are written out.
const maxFaults = 20

// checkItself looks for what cannot be, whatever is in the table.
func (l *ledger) checkItself(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkReports(t)
	checkTicks(t, l.rows)
}

// checkReports looks for IDs that were acknowledged twice. The ledger is locked.
func (l *ledger) checkReports(t *testing.T) {
	t.Helper()
	for _, fault := range l.faults[:min(len(l.faults), maxFaults)] {
		t.Error(fault)
	}
}

// check compares the ledger with the table, when no worker is left.
func (l *ledger) check(t *testing.T, db *gorm.DB) tally {
	t.Helper()
	l.checkItself(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, lost := l.compare(t, db)
	for _, id := range lost[:min(len(lost), maxFaults)] {
		t.Errorf("ID %d was acknowledged as %v, and is not in the table, like %d IDs", id, l.rows[id], len(lost))
	}
	s := tally{acknowledged: len(l.rows), stored: len(rows)}
	s.users, s.takeovers = checkTicks(t, rows)
	return s
}

// compare reads the table, and returns its rows and the IDs that were acknowledged and are not in it. What is
// in it must be what was acknowledged. The ledger is locked.
func (l *ledger) compare(t *testing.T, db *gorm.DB) (rows map[int64]note, lost []int64) {
	t.Helper()
	var stored []entry
	if err := db.Find(&stored).Error; err != nil {
		t.Fatalf("the table could not be read: %v", err)
	}
	counts := make(map[note]int64)
	rows = make(map[int64]note, len(stored))
	for _, e := range stored {
		id, n := e.ID.Int64(), note{e.Lane, e.Count}
		if _, twice := rows[id]; twice {
			t.Errorf("ID %d is in the table twice", id)
		}
		rows[id] = n
		// Without this a row could be stored once more under another ID.
		if other, twice := counts[n]; twice {
			t.Errorf("%v is in the table twice, as %d and as %d", n, other, id)
		}
		counts[n] = id
	}
	wrong := 0
	for id, n := range l.rows {
		switch got, found := rows[id]; {
		case !found:
			lost = append(lost, id)
		case got != n:
			if wrong++; wrong <= maxFaults {
				t.Errorf("ID %d was acknowledged as %v, and the table has it as %v", id, n, got)
			}
		}
	}
	return rows, lost
}

// checkTicks lets the checker of package chaos look for ticks of a node that two workers have used:
// no window allows that, even if the sequence keeps the IDs apart. It counts who used each node, and
// how often that changed.
func checkTicks(t *testing.T, rows map[int64]note) (users map[int64]int, takeovers int) {
	t.Helper()
	v, users := judge(rows)
	for _, fault := range v.Faults {
		t.Error(fault)
	}
	if !v.OK() {
		t.Errorf("%d ticks of a node were used by two workers", v.TicksTwice)
	}
	return users, v.Takeovers
}

// judge tells what the checker of package chaos finds in rows, and how many workers have used each node.
func judge(rows map[int64]note) (v checker.Verdict, users map[int64]int) {
	byWorker := make(map[string][]int64)
	for id, n := range rows {
		byWorker[n.worker()] = append(byWorker[n.worker()], widened(id))
	}
	var journals []checker.Journal
	users = make(map[int64]int)
	for worker, ids := range byWorker {
		slices.Sort(ids) // its lanes run side by side
		j := checker.Journal{Name: worker}
		nodes := make(map[int64]bool)
		for _, id := range ids {
			j.Runs = append(j.Runs, checker.Run{First: id, Count: 1})
			nodes[nodeOf(id)] = true
		}
		journals = append(journals, j)
		for node := range nodes {
			users[node]++
		}
	}
	return checker.Check(journals), users
}

// isNarrow tells whether an ID is of generator.JavaScript(), which has 53 bits. The default layout has not
// made an ID as small as that since the first month of its epoch.
func isNarrow(id int64) bool { return id < 1<<53 }

// widened returns the ID of the default layout, which is the one that the checker knows, with the same parts.
func widened(id int64) int64 {
	if !isNarrow(id) {
		return id
	}
	wide, err := generator.Default().Compose(partsOf(id))
	if err != nil {
		return id // it has no parts, and partsOf shows it
	}
	return wide
}

// partsOf takes an ID apart.
func partsOf(id int64) generator.Parts {
	layout := generator.Default()
	if isNarrow(id) {
		layout = generator.JavaScript()
	}
	parts, err := layout.Decompose(id)
	if err != nil {
		parts.Node = -1 // which no worker has
	}
	return parts
}

func nodeOf(id int64) int64 { return partsOf(id).Node }
