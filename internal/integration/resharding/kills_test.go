package resharding_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
)

const (
	// killsVariable is how often a process that reshards is killed on each database.
	killsVariable = "SNOWFLAKE_RESHARD_KILLS"
	// crewVariable turns the test binary into a process of the fleet.
	crewVariable = "SNOWFLAKE_TEST_RESHARD_CREW"
	// fewKills is for a test among others.
	fewKills = 4
	// keptFrom is the number of shards, and keptRows how many rows nobody changes.
	keptFrom = 2
	keptRows = 120
)

// kept is the sharded model. The table kept_controls has the same rows, written in the same transactions.
type kept struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Writer string             `gorm:"size:20"`
	N      int64
	Code   string `gorm:"size:40;uniqueIndex:uq_kept_code"`
}

// Processes that reshard or go back are killed at random statements, while three processes write and two
// read. Whatever is left behind, the next process goes on. In the end, plain SQL finds every row once, where it
// belongs, and no reader has had a part of an answer.
func TestNoRowIsLostWhenReshardingsAreKilled(t *testing.T) {
	if spec := os.Getenv(crewVariable); spec != "" {
		beCrew(t, spec)
		return
	}
	t.Parallel()
	kills, err := strconv.Atoi(os.Getenv(killsVariable))
	if err != nil {
		kills = fewKills
	}
	dbtest.EachShared(t, func(t *testing.T, target dbtest.Target) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		dsn := target.DSN(t)
		db := openKept(t, target, dsn, 40)
		r := keptRouter(t, db, keptFrom)
		must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
		must(t, db.Exec("UPDATE snowflake_shards SET lease_millis = 500").Error, "a short lease")
		must(t, db.Exec("CREATE TABLE kept_controls (id BIGINT PRIMARY KEY, writer VARCHAR(20) NOT NULL, "+
			"n BIGINT NOT NULL)").Error, "the control table")
		static := make([]kept, keptRows)
		for i := range static {
			static[i] = kept{Writer: "nobody", N: int64(i), Code: fmt.Sprint("nobody ", i)}
		}
		must(t, r.Create(t.Context(), static), "Create")
		for _, row := range static {
			must(t, db.Exec("INSERT INTO kept_controls (id, writer, n) VALUES (?, ?, ?)", row.ID, row.Writer, row.N).
				Error, "the control rows")
		}
		var crew []*member
		for i := range 5 {
			role := "write"
			if i >= 3 {
				role = "read"
			}
			crew = append(crew, startCrew(t, fmt.Sprintf("%s %d 0 %s %s", role, i+1, target.Name, dsn)))
			crew[i].await("begun")
		}
		done, rounds, left := 0, 0, map[string]int{}
		for done < kills {
			role := []string{"forward", "forward", "back"}[random.IntN(3)]
			steps := 1 + random.IntN([]int{30, 150, 400}[random.IntN(3)])
			ended := startCrew(t, fmt.Sprintf("%s %d %d %s %s", role, 30+random.IntN(2), steps, target.Name, dsn))
			if !ended.survived() {
				done++
				left[stateOf(t, db)]++
			}
			if rounds++; rounds > 20*kills {
				t.Fatalf("%d of %d processes were killed", done, rounds)
			}
		}
		for _, role := range []string{"forward", "clean"} {
			if !startCrew(t, fmt.Sprintf("%s 31 0 %s %s", role, target.Name, dsn)).survived() {
				t.Fatalf("the last step, %s, failed", role)
			}
		}
		stored, reads, longest := 0, 0, 0
		for i, m := range crew {
			m.send("end")
			var n, stop int
			_, err := fmt.Sscanf(m.await("did"), "did %d, longest %d", &n, &stop)
			must(t, err, "what the process did")
			if i < 3 {
				stored, longest = stored+n, max(longest, stop)
			} else {
				reads += n
			}
			for m.lines.Scan() {
			}
			must(t, m.cmd.Wait(), "the process")
		}
		checkKept(t, db)
		if stored == 0 || reads == 0 {
			t.Errorf("%d writes and %d reads", stored, reads)
		}
		t.Logf("%s: %d kills in %d processes, %d writes, %d whole answers; writes stopped for %d ms at most",
			target.Name, done, rounds, stored, reads, longest)
		for state, times := range left {
			t.Logf("%2d kills left behind: %s", times, state)
		}
	})
}

// stateOf is the state that a process has left behind.
func stateOf(t *testing.T, db *gorm.DB) string {
	t.Helper()
	dbs := []*gorm.DB{db}
	d, err := router.OpenResharding(t.Context(), router.ReshardConfig{Databases: dbs})
	must(t, err, "OpenResharding")
	if d == nil {
		return "nothing"
	}
	status, err := router.ReadStatus(t.Context(), dbs, d)
	must(t, err, "ReadStatus")
	return status.Resharding.State
}

// checkKept compares the tables with the control table, without the router.
func checkKept(t *testing.T, db *gorm.DB) {
	t.Helper()
	type row struct {
		ID     int64
		Writer string
		N      int64
	}
	var want []row
	must(t, db.Raw("SELECT id, writer, n FROM kept_controls").Scan(&want).Error, "the control rows")
	found := map[int64]row{}
	for shard := range 2 * keptFrom {
		var rows []row
		must(t, db.Raw(fmt.Sprintf("SELECT id, writer, n FROM kepts_%02d", shard)).Scan(&rows).Error, "the rows")
		for _, r := range rows {
			if _, twice := found[r.ID]; twice || r.ID%(2*keptFrom) != int64(shard) {
				t.Errorf("row %d is in the table of shard %d; twice: %v", r.ID, shard, twice)
			}
			found[r.ID] = r
		}
	}
	lost, wrong := 0, 0
	for _, r := range want {
		switch other, ok := found[r.ID]; {
		case !ok:
			lost++
		case other != r:
			wrong++
		}
	}
	if lost > 0 || wrong > 0 || len(found) != len(want) {
		t.Errorf("%d rows of %d are lost and %d wrong; %d were found", lost, len(want), wrong, len(found))
	}
}

// openKept opens the database for a process with a node of its own.
func openKept(t *testing.T, target dbtest.Target, dsn string, node int64) *gorm.DB {
	t.Helper()
	db := target.OpenDSN(t, dsn, nil)
	must(t, db.Use(snowflakeplugin.New(silent(), snowflakeplugin.WithNode(node))), "Use")
	return db
}

func keptRouter(t *testing.T, db *gorm.DB, shards int) *snowflakeplugin.Router {
	t.Helper()
	r, err := snowflakeplugin.NewRouter(
		snowflakeplugin.ShardingConfig{Shards: shards, Databases: []*gorm.DB{db}}, &kept{})
	must(t, err, "NewRouter")
	return r
}

// startCrew starts a process with a role.
func startCrew(t *testing.T, spec string) *member {
	t.Helper()
	return startProcess(t, "TestNoRowIsLostWhenReshardingsAreKilled", crewVariable+"="+spec)
}

// survived waits for the end of a process that reshards. It returns false if that was killed, and fails if
// the process failed.
func (m *member) survived() bool {
	m.Helper()
	said := ""
	for m.lines.Scan() {
		said += m.lines.Text() + "\n"
	}
	err := m.cmd.Wait()
	if err == nil {
		return true
	}
	if !strings.Contains(err.Error(), "killed") {
		m.Fatalf("a process that reshards ended with %v:\n%s", err, said)
	}
	return false
}

func beCrew(t *testing.T, spec string) {
	t.Helper()
	words := strings.SplitN(spec, " ", 5)
	node, err := strconv.ParseInt(words[1], 10, 64)
	must(t, err, "the node")
	steps, err := strconv.Atoi(words[2])
	must(t, err, "the steps")
	for _, target := range dbtest.Targets() {
		if target.Name != words[3] {
			continue
		}
		db := target.OpenDSN(t, words[4], nil)
		if steps > 0 {
			dbtest.KillAfter(t, db, steps)
		}
		must(t, db.Use(snowflakeplugin.New(silent(), snowflakeplugin.WithNode(node))), "Use")
		switch words[0] {
		case "write":
			writeKept(t, db)
		case "read":
			readKept(t, db)
		default:
			takeStep(t, db, words[0], node%2 == 0)
		}
	}
}

// takeStep goes on with whatever is under way. It has the router of a program, or only the databases, as the
// command has.
func takeStep(t *testing.T, db *gorm.DB, role string, bare bool) {
	t.Helper()
	ctx := t.Context()
	dbs := []*gorm.DB{db}
	d, err := router.OpenResharding(ctx, router.ReshardConfig{Databases: dbs, Chunk: 50})
	must(t, err, "OpenResharding")
	switch {
	case role == "clean":
		must(t, d.Clean(ctx), "Clean")
		return
	case role == "back" && d != nil:
		must(t, d.Undo(ctx), "Undo")
		return
	case role == "back":
		return // There is nothing to undo.
	case d != nil && bare:
		if err := d.Resume(ctx); !errors.Is(err, snowflakeplugin.ErrSharding) {
			must(t, err, "Resume")
			return
		}
		must(t, d.Undo(ctx), "Undo of what is being undone")
	}
	r, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: keptFrom, Databases: dbs}, &kept{})
	if err != nil {
		r = keptRouter(t, db, 2*keptFrom)
		pending, err := r.PendingCleanup()
		must(t, err, "PendingCleanup")
		if pending == nil {
			t.Fatal("the cutover is over, and no cleanup is pending")
		}
		if d, err := router.OpenResharding(ctx, router.ReshardConfig{Databases: dbs}); err != nil || d == nil {
			t.Fatal("no journal", err)
		} else if d.Resume(ctx) == nil {
			return
		}
		must(t, pending.Undo(ctx), "Undo") // The router follows.
	}
	again, err := r.Reshard(ctx, snowflakeplugin.ReshardConfig{Chunk: 50})
	if err != nil && d != nil { // It is being undone.
		must(t, d.Undo(ctx), "Undo")
		again, err = r.Reshard(ctx, snowflakeplugin.ReshardConfig{Chunk: 50})
	}
	must(t, err, "Reshard")
	_, err = again.Cutover(ctx)
	must(t, err, "Cutover")
}

// toldToEnd is closed when the test wants the process to end.
func toldToEnd() chan struct{} {
	end := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		if lines.Scan() {
			close(end)
			_, _ = io.Copy(io.Discard, os.Stdin)
		} else {
			os.Exit(1) // because the test is gone
		}
	}()
	return end
}

// writeKept creates, changes and deletes rows together with their control rows.
func writeKept(t *testing.T, db *gorm.DB) {
	t.Helper()
	plugin, _ := db.Plugins["snowflake"].(*snowflakeplugin.Plugin)
	writer := strconv.Itoa(os.Getpid())
	r, end := keptRouter(t, db, keptFrom), toldToEnd()
	fmt.Println("begun")
	var mine []snowflakeplugin.ID
	stored, longest, last := 0, time.Duration(0), time.Now()
	for n := int64(1); ; n++ {
		select {
		case <-end:
			fmt.Printf("did %d, longest %d\n", stored, longest.Milliseconds())
			return
		case <-time.After(20 * time.Millisecond): // SQLite is not fair to other writers
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		at, kind := 0, rand.IntN(10)
		if len(mine) > 0 {
			at = rand.IntN(len(mine))
		}
		var id snowflakeplugin.ID
		var err error
		if kind < 6 || len(mine) == 0 {
			if id, err = plugin.NextID(ctx); err == nil {
				err = r.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error {
					err := tx.Create(&kept{ID: id, Writer: writer, N: n, Code: fmt.Sprint(writer, " ", n)})
					return errors.Join(err, tx.Gorm().Exec(
						"INSERT INTO kept_controls (id, writer, n) VALUES (?, ?, ?)", id, writer, n).Error)
				})
			}
		} else {
			id = mine[at]
			// After an error nobody knows whether it was committed. Then the row is left alone from now on.
			mine = append(mine[:at], mine[at+1:]...)
			err = r.Transaction(ctx, id, func(tx *snowflakeplugin.ShardTx) error { return changeKept(tx, id, n, kind < 9) })
		}
		cancel()
		if err != nil {
			if errors.Is(err, errNotOnce) {
				fmt.Println("wrong:", err)
			}
			continue
		}
		if kind < 9 {
			mine = append(mine, id)
		}
		stored++
		longest, last = max(longest, time.Since(last)), time.Now()
	}
}

var errNotOnce = errors.New("a statement did not find its row once")

// changeKept changes or deletes a row and its control row.
func changeKept(tx *snowflakeplugin.ShardTx, id snowflakeplugin.ID, n int64, change bool) error {
	row, err := tx.DB(&kept{}, id)
	if err != nil {
		return err
	}
	statement := "DELETE FROM kept_controls WHERE id = ?"
	args := []any{id}
	if row = row.Where("id = ?", id); change {
		statement, args = "UPDATE kept_controls SET n = ? WHERE id = ?", []any{n, id}
		row = row.Update("n", n)
	} else {
		row = row.Delete(&kept{})
	}
	switch {
	case row.Error != nil:
		return row.Error
	case row.RowsAffected != 1:
		return fmt.Errorf("%w: %d rows of %d", errNotOnce, row.RowsAffected, id)
	}
	return tx.Gorm().Exec(statement, args...).Error
}

// readKept counts and reads the rows that nobody changes.
func readKept(t *testing.T, db *gorm.DB) {
	t.Helper()
	r, end := keptRouter(t, db, keptFrom), toldToEnd()
	static := r.Scopes(func(db *gorm.DB) *gorm.DB { return db.Where("writer = ?", "nobody") })
	var ids []snowflakeplugin.ID
	must(t, db.Raw("SELECT id FROM kept_controls WHERE writer = 'nobody'").Scan(&ids).Error, "the IDs")
	fmt.Println("begun")
	for whole := 0; ; {
		select {
		case <-end:
			fmt.Printf("did %d, longest 0\n", whole)
			return
		case <-time.After(20 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		n, err := static.Count(ctx, &kept{})
		if err == nil && n != keptRows {
			fmt.Printf("wrong: counted %d rows of %d at %d shards\n", n, keptRows, r.Shards())
		}
		var found []kept
		findErr := r.Find(ctx, &found, ids)
		cancel()
		var missing *snowflakeplugin.MissingError
		if errors.As(findErr, &missing) || findErr == nil && len(found) != keptRows {
			fmt.Printf("wrong: found %d rows of %d at %d shards, %v\n", len(found), keptRows, r.Shards(), findErr)
		}
		if err == nil && findErr == nil {
			whole++
		}
	}
}
