package resharding_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// fleetVariable turns the test binary into a process of a fleet.
const fleetVariable = "SNOWFLAKE_TEST_FLEET"

// Processes read and write through routers, while another one splits, joins and moves shards. All of them are killed
// at random, that of the resharding too, and others take their places.
func TestAFleetUnderKillsSeesWholeAnswersAndLosesNothing(t *testing.T) {
	if spec := os.Getenv(fleetVariable); spec != "" {
		runMember(t, strings.Split(spec, "\n"))
		return
	}
	nightly.Only(t, "a fleet runs for a minute on each database; "+
		"TestNoAcknowledgedWriteIsLostWhileShardsAreSplitAndJoined has no processes that are killed")
	each(t, func(t *testing.T, target dbtest.Target) {
		const members, length = 3, time.Minute
		f := &fleet{T: t, target: target, dsns: []string{target.DSN(t), target.DSN(t)}, dir: t.TempDir()}
		end := f.open(f.dsns, startRouter)
		var all []*member
		for i := range members + 1 {
			m := &member{fleet: f, role: []string{"mover", "user"}[min(i, 1)]}
			m.start()
			all = append(all, m)
		}
		kills := map[string]int{}
		for began := time.Now(); time.Since(began) < length && !t.Failed(); {
			<-time.After(time.Duration(500+rand.IntN(2000)) * time.Millisecond)
			m := all[rand.IntN(len(all))]
			if m.kill() {
				kills[m.role]++
			}
			m.start()
		}
		for _, m := range all {
			m.stop()
		}
		must(t, resharding.Resume(t.Context(), end.router), "Resume")
		must(t, resharding.Clean(t.Context(), end.router), "Clean")
		done, changes := f.compare(end)
		t.Logf("%d acknowledged writes, %d changes of shards, killed: %v", done, changes, kills)
		if done == 0 || changes == 0 {
			t.Error("the fleet has done nothing")
		}
	})
}

// fleet is what the processes of a test have in common.
type fleet struct {
	*testing.T
	target dbtest.Target
	dsns   []string
	dir    string // of the notes of all processes
	notes  int
}

func (f *fleet) open(dsns []string, start func(t *testing.T, dbs ...*gorm.DB) *program) *program {
	f.Helper()
	var dbs []*gorm.DB
	for _, dsn := range dsns {
		dbs = append(dbs, f.target.OpenDSN(f.T, dsn, nil))
	}
	return start(f.T, dbs...)
}

// member is a place of the fleet, which one process after the other has.
type member struct {
	*fleet
	role  string
	cmd   *exec.Cmd
	input io.Closer
	said  *strings.Builder
	ended chan error
}

func (m *member) start() {
	m.Helper()
	m.notes++
	m.cmd = exec.CommandContext(m.Context(), os.Args[0],
		"-test.run=^TestAFleetUnderKillsSeesWholeAnswersAndLosesNothing$", "-test.v")
	m.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%s\n%s", fleetVariable, m.target.Name, m.role,
		filepath.Join(m.dir, fmt.Sprint(m.role, m.notes)), strings.Join(m.dsns, "\n")))
	m.said = &strings.Builder{}
	m.cmd.Stdout, m.cmd.Stderr = m.said, m.said
	input, err := m.cmd.StdinPipe()
	must(m.T, err, "a pipe")
	m.input = input
	must(m.T, m.cmd.Start(), "a process")
	m.ended = make(chan error, 1)
	go func() { m.ended <- m.cmd.Wait() }()
}

// kill kills the process, and reports whether it was running.
func (m *member) kill() bool {
	m.Helper()
	_ = m.cmd.Process.Kill()
	err := <-m.ended
	if err == nil || !strings.Contains(err.Error(), "killed") {
		m.Errorf("a %s ended by itself with %v:\n%s", m.role, err, m.said)
		return false
	}
	return true
}

// stop lets the process end what it is doing.
func (m *member) stop() {
	m.Helper()
	_ = m.input.Close()
	if err := <-m.ended; err != nil {
		m.Errorf("a %s ended with %v:\n%s", m.role, err, m.said)
	}
}

// runMember is a process of a fleet. It ends when its input does.
func runMember(t *testing.T, words []string) {
	t.Helper()
	f := &fleet{T: t, target: mayMakeTriggers(dbtest.Named(words[0]))}
	start := startRouter
	if words[1] == "mover" {
		start = openRouter // AutoMigrate would wait for the cutover that this process shall end.
	}
	p := f.open(words[3:], start)
	notes, err := os.OpenFile(words[2], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err, "the notes")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	u := &user{program: p, notes: notes, amounts: map[snowflakeplugin.ID]int64{}}
	for round := 0; ctx.Err() == nil && !t.Failed(); round++ {
		if words[1] == "mover" {
			u.reshard(round)
			continue
		}
		began := time.Now()
		u.use(round)
		if words[0] == "sqlite" { // It is not fair to other writers.
			<-time.After(max(time.Since(began), 3*time.Millisecond))
		}
	}
}

// user is what a process remembers of its own rows.
type user struct {
	*program
	notes   *os.File
	ids     []snowflakeplugin.ID // in ascending order
	amounts map[snowflakeplugin.ID]int64
}

// note writes a line of which a kill takes nothing back.
func (u *user) note(what string, id snowflakeplugin.ID, amount int64) {
	_, err := fmt.Fprintf(u.notes, "%s %d %d\n", what, int64(id), amount)
	must(u.T, err, "a note")
}

// reshard changes one shard.
func (u *user) reshard(round int) {
	ctx := u.Context()
	slow := resharding.Settings{Chunk: 50, Budget: 10 * time.Second}
	err := slow.Resume(ctx, u.router)
	for inTheWay(err) {
		err = slow.Resume(ctx, u.router)
	}
	must(u.T, err, "Resume")
	err = resharding.Clean(ctx, u.router)
	for dialect.Busy(err) { // SQLite is not fair to who waits for its lock.
		err = resharding.Clean(ctx, u.router)
	}
	must(u.T, err, "Clean")
	of := resharding.Class{Residue: rand.IntN(splitFrom), Modulus: splitFrom}
	switch rand.IntN(3) {
	case 0:
		_, err = slow.Split(ctx, u.router, of, 2, rand.IntN(2), rand.IntN(2))
	case 1:
		_, err = slow.Join(ctx, u.router, of, rand.IntN(2))
	default:
		_, err = slow.Move(ctx, u.router, of, rand.IntN(2))
	}
	switch {
	case err == nil:
		u.note("changed", 0, int64(round))
	case errors.Is(err, snowflakeplugin.ErrSharding) && (strings.Contains(err.Error(), "no shard of the map is") ||
		strings.Contains(err.Error(), "is not one that shards") || strings.Contains(err.Error(), "is in database")):
		// The shard is not what this change is for.
	case inTheWay(err):
	default:
		u.Errorf("a change of %v: %v", of, err)
	}
}

// inTheWay reports whether a cutover has left everything as it was, because others have kept it from its lock.
func inTheWay(err error) bool {
	return errors.Is(err, snowflakeplugin.ErrSharding) && strings.Contains(err.Error(), "writes go on as before")
}

// use writes and reads once in each way. What was acknowledged before a read has to be in its answer.
func (u *user) use(round int) {
	ctx := u.Context()
	more := make([]splitOrder, 6)
	for i := range more[1:] {
		more[i+1] = splitOrder{Name: "fleet", Items: []splitItem{{Amount: 1}}}
	}
	again(u, "Create", func() error { return u.router.Create(ctx, more) })
	plain := make([]splitOrder, 6) // PostgreSQL stores them by one statement.
	again(u, "Create of plain rows", func() error { return u.router.Create(ctx, plain) })
	for _, o := range append(more, plain...) {
		u.note("order", o.ID, 0)
		u.ids = append(u.ids, o.ID)
		for _, item := range o.Items {
			u.note("item", item.ID, 1)
			u.amounts[item.ID] = 1
		}
	}
	for id, amount := range u.amounts {
		u.note("begun", id, amount+1)
		u.byHandle(id, func(db *gorm.DB) error {
			changed := db.Where("id = ?", id).Update("amount", amount+1)
			if changed.Error == nil {
				same(u.T, "rows of an update", changed.RowsAffected, 1)
			}
			return changed.Error
		})
		u.note("item", id, amount+1)
		u.amounts[id] = amount + 1
		break
	}
	id := more[1].Items[0].ID
	u.note("begun", id, 10)
	again(u, "Transaction", func() error {
		return u.router.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
			db, err := tx.DB(&splitItem{}, id)
			if err != nil {
				return err
			}
			return db.Where("id = ?", id).Update("amount", 10).Error
		})
	})
	u.note("item", id, 10)
	u.amounts[id] = 10
	u.reads(round)
}

// again repeats what has changed nothing: because the map has, or because the database has chosen it to end a deadlock
// with the trigger of a table and the list of its keys.
func again(u *user, what string, do func() error) {
	u.Helper()
	err := do()
	for errors.Is(err, snowflakeplugin.ErrShardMap) || dialect.Busy(err) {
		err = do()
	}
	must(u.T, err, what)
}

// byHandle does something by a handle, and by another one if the shard has gone to another database meanwhile.
func (u *user) byHandle(id snowflakeplugin.ID, do func(db *gorm.DB) error) {
	u.Helper()
	again(u, "a statement of a handle", func() error {
		db, err := u.router.DB(u.Context(), &splitItem{}, id)
		if err != nil {
			return err
		}
		return do(db)
	})
}

// reads reads in each way.
func (u *user) reads(round int) {
	ctx := u.Context()
	some := u.ids
	if len(some) > 30 {
		at := rand.IntN(len(some) - 30)
		some = some[at : at+30]
	}
	var found []splitOrder
	must(u.T, u.router.Find(ctx, &found, some), "Find")
	same(u.T, "rows of Find", len(found), len(some))
	var page []splitOrder
	cursor := some[len(some)-1] + 1
	must(u.T, u.router.Before(ctx, &page, cursor, 100), "Before")
	u.isWhole("Before", page, page[len(page)-1].ID, cursor)
	must(u.T, u.router.After(ctx, &page, some[0]-1, 100), "After")
	u.isWhole("After", page, some[0]-1, page[len(page)-1].ID)
	if round%4 == 0 {
		n, err := u.router.Count(ctx, &splitOrder{})
		must(u.T, err, "Count")
		same(u.T, "a count that has all own rows", n >= int64(len(u.ids)), true)
	}
	var one splitItem
	for id, amount := range u.amounts {
		u.byHandle(id, func(db *gorm.DB) error { return db.First(&one, id).Error })
		same(u.T, "the amount", one.Amount, amount)
		break
	}
}

// isWhole fails unless a page has all own rows with keys between two others.
func (u *user) isWhole(what string, page []splitOrder, above, below snowflakeplugin.ID) {
	u.Helper()
	there := map[snowflakeplugin.ID]bool{}
	for _, row := range page {
		if there[row.ID] {
			u.Errorf("%s has the row %d twice", what, row.ID)
		}
		there[row.ID] = true
	}
	for _, id := range u.ids {
		if id > above && id < below && !there[id] {
			u.Errorf("%s from %d to %d lacks %d", what, above, below, id)
		}
	}
}

// compare reads the notes of all processes, and then all rows.
func (f *fleet) compare(p *program) (done, changes int) {
	f.Helper()
	orders, amounts := map[int64]bool{}, map[int64]map[int64]bool{} // of an item, all amounts that it may have
	files, err := filepath.Glob(filepath.Join(f.dir, "*"))
	must(f.T, err, "the notes")
	for _, name := range files {
		file, err := os.Open(name)
		must(f.T, err, "notes")
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var what string
			var id, amount int64
			_, err := fmt.Sscan(lines.Text(), &what, &id, &amount)
			must(f.T, err, "a note")
			switch what {
			case "changed":
				changes++
			case "order":
				orders[id] = true
				done++
			case "begun": // It may have been done.
				amounts[id][amount] = true
			default:
				amounts[id] = map[int64]bool{amount: true}
				done++
			}
		}
		must(f.T, file.Close(), "Close")
	}
	var mu sync.Mutex
	seen := map[int64]int{}
	eachRow := func(model any, columns string, check func(id int64, amount int64)) {
		must(f.T, p.router.Each(f.Context(), model, func(shard int, tx *gorm.DB) error {
			var rows []struct{ ID, Amount int64 }
			err := tx.Select(columns).Find(&rows).Error
			mu.Lock()
			defer mu.Unlock()
			for _, row := range rows {
				seen[row.ID]++
				if at, err := p.router.Shard(snowflakeplugin.ID(row.ID)); err != nil || at != shard {
					f.Errorf("%d is on shard %d, and was looked for on %d: %v", row.ID, shard, at, err)
				}
				check(row.ID, row.Amount)
			}
			return err
		}), "Each")
	}
	eachRow(&splitOrder{}, "id", func(int64, int64) {})
	eachRow(&splitItem{}, "id, amount", func(id, amount int64) {
		if known := amounts[id]; known != nil && !known[amount] {
			f.Errorf("the item %d has the amount %d, want one of %v", id, amount, known)
		}
	})
	for id, n := range seen {
		if n != 1 {
			f.Errorf("%d is there %d times", id, n)
		}
	}
	for id := range orders {
		if seen[id] == 0 {
			f.Errorf("the order %d is lost", id)
		}
	}
	for id := range amounts {
		if seen[id] == 0 {
			f.Errorf("the item %d is lost", id)
		}
	}
	must(f.T, p.router.Check(f.Context()), "Check")
	return done, changes
}
