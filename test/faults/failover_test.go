//go:build unix

package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// The primary commits without asking the standby, and dies while the standby is behind. What the promoted
// standby does not know of is lost: rows, and also windows of the leases and claims of a counter.
func TestAFailoverToAStandbyThatLagsRepeatsNoID(t *testing.T) {
	nightly.Only(t, "the standby falls behind for 20 s; "+
		"TestAServerThatIsAwayEndsIDsWithTheWindowAndNothingElse has a server that comes back with everything")
	t.Run("of 1024 numbers", func(t *testing.T) {
		t.Parallel()
		d := failOver(t, false)
		d.complain(func(string, string) bool { return true })
		checkTicks(t, d.both)
	})
	// The new primary grants numbers that are held, because their windows are lost, and there are no others.
	// Two workers then use a number for a span at most, and the key of the table refuses the second of two
	// equal IDs.
	t.Run("of 16 numbers", func(t *testing.T) {
		t.Parallel()
		d := failOver(t, true)
		v, _ := judge(d.both)
		if v.IDsTwice > 0 || v.BackSteps > 0 {
			t.Errorf("%d IDs were made twice, and %d out of order: %v", v.IDsTwice, v.BackSteps, v.Faults)
		}
		refused := 0
		for _, p := range d.all {
			n, text := p.failed(classConflict)
			if refused += n; n > 0 && !strings.Contains(text, snowflakeplugin.ErrContested.Error()) {
				t.Errorf("%s was refused with: %s", p.Name, text)
			}
		}
		t.Logf("%d ticks of a number were used twice, and %d creates were refused", v.TicksTwice, refused)
	})
}

// A disaster is a crew that has survived one, with the rows of both primaries.
type disaster struct {
	*crew
	both map[int64]note // what was acknowledged by the old one or the new one, and what the new one has
}

// failOver cuts a standby off, kills its primary while a crew works, and promotes the standby.
func failOver(t *testing.T, narrow bool) disaster {
	t.Helper()
	const survivors = 10
	f := privateServer("postgres")
	f.connections = 2 * usualConnections
	primary := newServer(t, f)
	replication := newProxy(t, 0, net.JoinHostPort("127.0.0.1", strconv.Itoa(primary.port)))
	copied := f
	copied.programs = []string{"pg_basebackup", "postgres"}
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", replication.port())
	copied.install = func(dir string) []string {
		return []string{"-D", dir, "-R", "-X", "stream", "-c", "fast", "-N", "-d", from}
	}
	standby := startServer(t, copied)

	dsn := func(hosts string) string {
		const limits = "sslmode=disable&connect_timeout=2&target_session_attrs=read-write"
		return fmt.Sprintf("postgres://postgres@%s/faults?%s", hosts, limits)
	}
	other := fmt.Sprintf("127.0.0.1:%d", standby.port)
	either := dsn(fmt.Sprintf("127.0.0.1:%d,%s", primary.port, other)) // whichever is the primary
	base := order{
		Target: f.target, DSN: either, Hi: 1023, Narrow: narrow, Counts: !narrow,
		Span: 15 * time.Second, Pace: usualPace(), Patience: 3 * time.Second,
	}
	size := survivors
	if narrow {
		base.Hi = 15
		size = 16 // so that every number is in use
	}
	// Whoever looks on may wait longer for a connection than the workers, who keep a busy machine busy.
	c := newCrew(t, base, size, strings.Replace(either, "connect_timeout=2", "connect_timeout=30", 1))
	if err := c.db.AutoMigrate(&numbered{}); err != nil {
		t.Fatal(err)
	}
	c.also = append(c.also, primary, standby)
	c.fill()
	c.everyone("has not begun")

	kept := c.ledger.copied()
	catchUp(t, primary, standby)
	replication.refuse()
	time.Sleep(20 * time.Second) // longer than the span: in the standby all windows are over
	c.everyone("does not go on while the standby is behind")

	// They wait on the other side, so that they take numbers before those who hold them notice anything.
	c.base.DSN = dsn(other)
	for range 6 {
		p := c.hire()
		c.eventually(p.Name+" does not look for a primary", func() bool {
			return look(p, func() bool { return len(p.refused) > 0 })
		})
	}
	primary.signal(syscall.SIGKILL)
	<-primary.ended
	for _, p := range c.all[survivors:size] {
		p.kill(t) // it was on the same machine
	}
	killed, before := time.Now(), c.acknowledged()
	standby.admin("SELECT pg_promote()")
	c.eventually("nobody creates a row after the failover", func() bool { return c.acknowledged() > before })
	took := time.Since(killed).Round(time.Millisecond)
	t.Logf("the first create was acknowledged %v after the primary was gone", took)
	c.everyone("does not go on after the failover")
	c.eventually("the new primary does not know of the lease of each worker", c.isKnown)
	c.everyone("does not go on with the leases of the new primary")
	if c.base.Counts {
		c.raise(c.all[:survivors], killed)
	}
	c.leave()
	c.checkNumbers(killed)

	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkReports(t)
	rows, lost := l.compare(t, c.db)
	const ahead = 20 * time.Millisecond // as far as a generator may stamp ahead of its clock
	wrong := 0
	for _, id := range lost {
		if _, replicated := kept[id]; !replicated && !partsOf(id).Time.After(killed.Add(ahead)) {
			continue
		}
		if wrong++; wrong <= maxFaults {
			t.Errorf("ID %d of %v is not in the table, though the new primary had it", id, l.rows[id])
		}
	}
	if len(lost) == 0 {
		t.Error("no row was lost, so the standby was not behind")
	}
	t.Logf("%d IDs acknowledged, %d of them lost with the old primary, %d rows in the new one; %s",
		len(l.rows), len(lost), len(rows), c.summary())
	maps.Copy(rows, l.rows)
	return disaster{c, rows}
}

// raise waits until the workers that knew the old primary know that the counter went back, and raises it. Those
// that begin on the new primary claim the numbers again that the others hold.
// A worker that was slow may find the counter in order: two blocks are the old ones, and a third is not.
func (c *crew) raise(survivors []*process, killed time.Time) {
	c.t.Helper()
	for _, p := range survivors {
		c.eventually(p.Name+" does not learn that its counter went back", func() bool {
			blocks := make(map[int64]bool)
			for _, r := range look(p, func() []report { return p.counted }) {
				if r.Class == classBack || r.Class == classConflict {
					return true
				}
				if r.Error == "" && r.At.After(killed) {
					blocks[(r.IDs[0]-1)/numbersBlock] = true
				}
			}
			return len(blocks) > 2
		})
	}
	above := int64(0)
	for _, p := range c.all {
		for _, r := range look(p, func() []report { return p.counted }) {
			above = max(above, r.IDs[0])
		}
	}
	above += 10_000 - above%numbersBlock // nobody has claimed so many that he has not told of
	store, err := gormsegment.New(c.db)
	if err == nil {
		err = errors.Join(segment.Raise(c.t.Context(), store, "numbers", above+1), store.Close())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range c.living() {
		c.eventually(p.Name+" does not go on when the counter was raised", func() bool {
			counted := look(p, func() []report { return p.counted })
			last := len(counted) - 1
			return last >= 0 && counted[last].Error == "" && counted[last].IDs[0] > above
		})
	}
}

// checkNumbers compares the numbered rows with what was acknowledged since the old primary was gone. A number
// that is refused has to be the last one of its block.
func (c *crew) checkNumbers(killed time.Time) {
	c.t.Helper()
	if !c.base.Counts {
		return
	}
	var rows []numbered
	if err := c.db.Find(&rows).Error; err != nil {
		c.t.Fatal(err)
	}
	stored := make(map[int64]string, len(rows))
	for _, row := range rows {
		if other, twice := stored[row.Number]; twice {
			c.t.Errorf("number %d is in the table twice, of %s and of %s", row.Number, other, row.Worker)
		}
		stored[row.Number] = row.Worker
	}
	acknowledged, back, refused := 0, 0, 0
	for _, p := range c.all {
		givenUp := int64(-1)
		for _, r := range p.counted {
			block := (r.IDs[0] - 1) / numbersBlock
			switch {
			case r.IDs[0] > 0 && block == givenUp:
				c.t.Errorf("%s goes on with number %d of a block that has one of somebody else", p.Name, r.IDs[0])
			case r.Class == classConflict:
				refused++
				givenUp = block
			case r.Class == classBack:
				back++
			case r.Error == "" && r.At.After(killed):
				acknowledged++
				if stored[r.IDs[0]] != p.Name {
					c.t.Errorf("number %d of %s is that of %q", r.IDs[0], p.Name, stored[r.IDs[0]])
				}
			}
		}
	}
	if back+refused == 0 || acknowledged == 0 {
		c.t.Error("no counter went back")
	}
	c.t.Logf("%d numbers acknowledged by the new primary, %d refused, %d creates without a number because the "+
		"counter went back", acknowledged, refused, back)
}

// copied returns the rows that the ledger has now.
func (l *ledger) copied() map[int64]note {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.rows)
}

// acknowledged counts the rows of all workers.
func (c *crew) acknowledged() (n int) {
	for _, p := range c.all {
		n += p.acknowledged()
	}
	return n
}

// isKnown tells whether the store has the lease of each living worker.
func (c *crew) isKnown() bool {
	owners := make(map[int64]string)
	for _, r := range records(c.t, c.db) {
		owners[r.Node] = r.Owner
	}
	for _, p := range c.living() {
		if !strings.HasPrefix(owners[p.current()], ownerPrefix+p.Name+" ") {
			return false
		}
	}
	return true
}

// catchUp waits until a standby has everything that its primary has committed by now.
func catchUp(t *testing.T, primary, standby *server) {
	t.Helper()
	var end string
	patiently(t, func() error { return primary.row("SELECT pg_current_wal_lsn()::text", &end) })
	eventually(t, "the standby does not catch up", func() bool {
		var caught bool
		err := standby.row("SELECT pg_last_wal_replay_lsn() >= '"+end+"'", &caught)
		return err == nil && caught
	}, primary, standby)
}
